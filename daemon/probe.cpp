#include "daemon/probe.h"

#include <algorithm>

namespace virtset {

Probe::Probe(api::Scheduler& scheduler, ProbeTransport& transport, api::ProbeSpec spec,
             std::string address, Timing timing, bool initial, Changed changed)
    : scheduler_(scheduler),
      transport_(transport),
      spec_(std::move(spec)),
      address_(std::move(address)),
      timing_(timing),
      changed_(std::move(changed)),
      result_(initial),
      ever_succeeded_(initial) {
  arm(timing_.delay);
}

void Probe::arm(std::chrono::milliseconds delay) {
  timer_ = scheduler_.after(delay, [this] { attempt(); });
}

void Probe::attempt() {
  timer_.reset();
  attempt_ =
      transport_.start(spec_, address_, [this](const std::string& failure) { finished(failure); });
}

void Probe::finished(const std::string& failure) {
  attempt_.reset();
  const bool success = failure.empty();
  in_a_row_ = success == last_ ? in_a_row_ + 1 : 1;
  last_ = success;
  ever_succeeded_ = ever_succeeded_ || success;
  std::chrono::milliseconds period = spec_.period;
  if (!ever_succeeded_ && timing_.eager_period.count() > 0) {
    period = std::min(period, timing_.eager_period);
  }
  arm(period);
  const int threshold = success ? spec_.success_threshold : spec_.failure_threshold;
  if (in_a_row_ < threshold || success == result_) return;
  result_ = success;
  // Last, and a copy: the callee may destroy this probe, and must not lose what it captured.
  const Changed changed = changed_;
  changed(success, failure);
}

}  // namespace virtset
