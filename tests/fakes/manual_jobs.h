// Jobs that run when the test says so, on the test's thread.
#pragma once

#include <deque>

#include "daemon/jobs.h"

namespace virtset::test {

class ManualJobs final : public Jobs {
 public:
  explicit ManualJobs(api::Scheduler& scheduler) : scheduler_(scheduler) {}

  void run(Lane lane, std::function<void()> work, std::function<void()> done) override {
    queue_.push_back({lane, std::move(work), std::move(done)});
  }

  // While a lane is held its jobs wait.
  void hold(Lane lane, bool held = true) { held_[lane] = held; }

  // Runs the jobs that are waiting; their results are posted. Returns how many ran.
  int run_all() {
    int count = 0;
    if (held_all_) return 0;
    for (std::size_t i = 0; i < queue_.size();) {
      if (held_[queue_[i].lane]) {
        ++i;
        continue;
      }
      Job job = std::move(queue_[i]);
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
      job.work();
      if (--last_ == 0) {
        queue_.clear();
        held_all_ = true;
        return 0;
      }
      scheduler_.post(std::move(job.done));
      ++count;
    }
    return count;
  }
  // Does the work but keeps the results back, as a daemon that is killed in between would.
  void run_without_results() {
    for (Job& job : queue_) job.work();
    queue_.clear();
  }
  // The daemon is killed when this many jobs more were done: nobody hears of the last one.
  void die_after(int jobs) { last_ = jobs; }
  std::size_t waiting() const { return queue_.size(); }

 private:
  struct Job {
    Lane lane;
    std::function<void()> work;
    std::function<void()> done;
  };
  api::Scheduler& scheduler_;
  std::deque<Job> queue_;
  std::map<Lane, bool> held_;
  bool held_all_ = false;
  int last_ = 0;
};

}  // namespace virtset::test
