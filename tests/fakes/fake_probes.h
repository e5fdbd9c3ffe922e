// Guests that answer probes as the test says.
#pragma once

#include <map>
#include <set>
#include <string>

#include "daemon/probe_transport.h"
#include "tests/fakes/manual_scheduler.h"

namespace virtset::test {

class FakeProbes final : public ProbeTransport {
 public:
  explicit FakeProbes(ManualScheduler& scheduler) : scheduler_(scheduler) {}

  std::unique_ptr<Attempt> start(const api::ProbeSpec& probe, const std::string& address,
                                 Done done) override {
    ++attempts[address];
    const bool answers =
        !silent_ports.contains(probe.port) &&
        (answers_by_default ? !silent.contains(address) : answering.contains(address));
    auto attempt = std::make_unique<FakeAttempt>();
    attempt->timer = scheduler_.after(std::chrono::milliseconds(1), [done, answers] {
      done(answers ? "" : "Connection refused");
    });
    return attempt;
  }

  bool answers_by_default = true;
  std::set<std::string> silent;     // these do not, if the default is to answer
  std::set<int> silent_ports;       // nobody answers on these
  std::set<std::string> answering;  // only these do, if it is not
  std::map<std::string, int> attempts;

 private:
  struct FakeAttempt final : Attempt {
    std::unique_ptr<api::Scheduler::Timer> timer;
  };
  ManualScheduler& scheduler_;
};

}  // namespace virtset::test
