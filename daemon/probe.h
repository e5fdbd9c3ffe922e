// A readiness or liveness probe of one instance: attempts, thresholds, timing (Kubernetes: prober
// worker). Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/kinds/virtualmachineinstance/spec.h"
#include "api/rest/scheduler.h"
#include "daemon/probe_transport.h"

namespace virtset {

class Probe {
 public:
  struct Timing {
    // Before the first attempt.
    std::chrono::milliseconds delay{0};
    // Until the first success attempts come this fast, where the period is longer; 0: never faster.
    // So a guest that is ready early is seen to be.
    std::chrono::milliseconds eager_period{0};
  };
  // Called when the published result has changed; `why` of a failure.
  using Changed = std::function<void(bool success, const std::string& why)>;

  // `initial` is the result that counts until there is another.
  Probe(api::Scheduler& scheduler, ProbeTransport& transport, api::ProbeSpec spec,
        std::string address, Timing timing, bool initial, Changed changed);

  bool result() const { return result_; }

 private:
  void arm(std::chrono::milliseconds delay);
  void attempt();
  void finished(const std::string& failure);

  api::Scheduler& scheduler_;
  ProbeTransport& transport_;
  const api::ProbeSpec spec_;
  const std::string address_;
  const Timing timing_;
  Changed changed_;
  bool result_;
  bool ever_succeeded_ = false;
  bool last_ = false;  // what the last attempt gave
  int in_a_row_ = 0;   // how often it gave that
  std::unique_ptr<ProbeTransport::Attempt> attempt_;
  std::unique_ptr<api::Scheduler::Timer> timer_;
};

}  // namespace virtset
