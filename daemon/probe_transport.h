// One attempt to reach a guest, for readiness and liveness probes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/kinds/virtualmachineinstance/spec.h"

namespace virtset {

class ProbeTransport {
 public:
  // Ends the attempt, without a result, when destroyed.
  class Attempt {
   public:
    virtual ~Attempt() = default;
  };
  // Empty if the guest answered as it should, else why not.
  using Done = std::function<void(const std::string& failure)>;

  virtual ~ProbeTransport() = default;

  // Connects to the guest's address; `done` is called on the loop thread, never from within
  // start().
  [[nodiscard]] virtual std::unique_ptr<Attempt> start(const api::ProbeSpec& probe,
                                                       const std::string& address, Done done) = 0;
};

}  // namespace virtset
