// A loop whose clock the test moves. Nothing happens until run() or advance().
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "api/rest/scheduler.h"

namespace virtset::test {

class ManualScheduler final : public api::Scheduler {
 public:
  Time now() const override { return now_; }
  SteadyTime steady_now() const override { return steady_now_; }
  std::unique_ptr<Timer> after(Duration delay, std::function<void()> action) override;
  // Thread-safe, as the real one.
  void post(std::function<void()> action) override;

  // Runs everything that is due now, and what that leads to. Returns how many actions ran.
  int run();
  // Moves both clocks, firing timers in the order of their time.
  void advance(Duration duration);
  // Somebody sets the wall clock; timers do not care.
  void set_wall_clock(Time time) { now_ = time; }
  std::size_t timers() const { return timers_->size(); }

 private:
  struct Pending {
    std::function<void()> action;
  };
  using Timers = std::multimap<SteadyTime, std::shared_ptr<Pending>>;
  class ManualTimer;

  bool run_posted();

  Time now_ = Time(std::chrono::seconds(1'800'000'000));  // in 2027
  SteadyTime steady_now_{std::chrono::hours(1)};
  // Shared with the timers, which may outlive the scheduler.
  std::shared_ptr<Timers> timers_ = std::make_shared<Timers>();
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
};

}  // namespace virtset::test
