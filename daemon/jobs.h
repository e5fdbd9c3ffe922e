// Work that may block, on threads of its own; its result comes back to the loop.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <variant>

#include "api/rest/scheduler.h"

namespace virtset {

// What a job does decides how many of its sort run at a time.
enum class Lane {
  start,    // starting domains: about one per core; more only makes all of them slower
  control,  // stopping domains and asking about them: they wait for QEMU, not for the CPU
  save,     // writing the memory of domains: no more than the disk can take
  disk,     // making and removing disks
  pull,     // getting images
  import,   // filling volumes from afar, which may take hours and must keep no VM waiting
  copy,     // filling volumes from others, whatever servers do
};

// What became of a job: a value, or what it threw.
template <typename T>
class Result {
 public:
  std::exception_ptr error;
  std::optional<T> value;

  // Throws what the job threw.
  T& get() {
    if (error) std::rethrow_exception(error);
    return *value;
  }
};

class Jobs {
 public:
  virtual ~Jobs() = default;

  // Runs `work` on some thread and then `done` on the loop thread. `work` must not throw.
  virtual void run(Lane lane, std::function<void()> work, std::function<void()> done) = 0;

  // The same for work that gives a value or throws.
  template <typename Work, typename Done>
  void submit(Lane lane, Work work, Done done) {
    using T = std::conditional_t<std::is_void_v<std::invoke_result_t<Work>>, std::monostate,
                                 std::invoke_result_t<Work>>;
    auto result = std::make_shared<Result<T>>();
    run(
        lane,
        [result, work = std::move(work)]() mutable {
          try {
            if constexpr (std::is_same_v<T, std::monostate>) {
              work();
              result->value.emplace();
            } else {
              result->value.emplace(work());
            }
          } catch (...) {
            result->error = std::current_exception();
          }
        },
        [result, done = std::move(done)]() mutable { done(*result); });
  }

  // Removes files that nobody waits for; the log says what became of it. What stays is found at the
  // next start.
  void clear_away(std::string what, std::function<void()> work);
};

// The daemon's jobs: threads that are made when needed and go when idle for a while. A queue holds
// at most one job of each object, so it is bounded by their number.
class ThreadJobs final : public Jobs {
 public:
  ThreadJobs(api::Scheduler& scheduler, std::map<Lane, unsigned> limits);
  // Waits for the jobs that run; those that wait are dropped. Neither calls `done` any more.
  ~ThreadJobs() override;

  void run(Lane lane, std::function<void()> work, std::function<void()> done) override;

 private:
  struct Job {
    std::function<void()> work;
    std::function<void()> done;
  };
  struct LaneState {
    unsigned limit = 1;
    unsigned threads = 0;
    unsigned idle = 0;
    std::deque<Job> queue;
    std::condition_variable arrived;
  };

  void serve(LaneState& lane);

  api::Scheduler& scheduler_;
  std::mutex mutex_;
  std::condition_variable thread_ended_;
  std::map<Lane, LaneState> lanes_;
  unsigned threads_ = 0;
  bool stopping_ = false;
};

}  // namespace virtset
