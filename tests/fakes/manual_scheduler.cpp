#include "tests/fakes/manual_scheduler.h"

#include <algorithm>

namespace virtset::test {

class ManualScheduler::ManualTimer final : public Timer {
 public:
  ManualTimer(std::shared_ptr<Timers> timers, std::shared_ptr<Pending> pending)
      : timers_(std::move(timers)), pending_(std::move(pending)) {}
  ~ManualTimer() override {
    std::erase_if(*timers_, [this](const auto& item) { return item.second == pending_; });
  }

 private:
  std::shared_ptr<Timers> timers_;
  std::shared_ptr<Pending> pending_;
};

std::unique_ptr<api::Scheduler::Timer> ManualScheduler::after(Duration delay,
                                                              std::function<void()> action) {
  auto pending = std::make_shared<Pending>(Pending{std::move(action)});
  timers_->emplace(steady_now_ + std::max(delay, Duration(0)), pending);
  return std::make_unique<ManualTimer>(timers_, std::move(pending));
}

void ManualScheduler::post(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(action));
}

bool ManualScheduler::run_posted() {
  std::function<void()> action;
  {
    std::lock_guard lock(mutex_);
    if (posted_.empty()) return false;
    action = std::move(posted_.front());
    posted_.pop_front();
  }
  action();
  return true;
}

int ManualScheduler::run() {
  int count = 0;
  // A bound, so that a loop that feeds itself fails the test instead of hanging it.
  constexpr int most = 1'000'000;
  while (count < most) {
    if (run_posted()) {
      ++count;
      continue;
    }
    const auto next = timers_->begin();
    if (next == timers_->end() || next->first > steady_now_) return count;
    const auto pending = next->second;
    timers_->erase(next);
    pending->action();
    ++count;
  }
  throw std::runtime_error("the loop does not come to rest");
}

void ManualScheduler::advance(Duration duration) {
  const SteadyTime end = steady_now_ + duration;
  run();
  while (!timers_->empty() && timers_->begin()->first <= end) {
    const auto step = timers_->begin()->first - steady_now_;
    now_ += std::chrono::duration_cast<Time::duration>(step);
    steady_now_ += step;
    run();
  }
  now_ += std::chrono::duration_cast<Time::duration>(end - steady_now_);
  steady_now_ = end;
  run();
}

}  // namespace virtset::test
