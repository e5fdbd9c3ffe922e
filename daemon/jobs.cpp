#include "daemon/jobs.h"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>

namespace virtset {

namespace {

constexpr std::chrono::seconds idle_before_end{30};

}  // namespace

void Jobs::clear_away(std::string what, std::function<void()> work) {
  submit(Lane::disk, std::move(work), [what = std::move(what)](Result<std::monostate>& result) {
    try {
      result.get();
      spdlog::info("removed {}", what);
    } catch (const std::exception& error) {
      spdlog::error("removing {}: {}", what, error.what());
    }
  });
}

ThreadJobs::ThreadJobs(api::Scheduler& scheduler, std::map<Lane, unsigned> limits)
    : scheduler_(scheduler) {
  for (const auto& [lane, limit] : limits) lanes_[lane].limit = limit;
}

ThreadJobs::~ThreadJobs() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (auto& [lane, state] : lanes_) {
    state.queue.clear();
    state.arrived.notify_all();
  }
  thread_ended_.wait(lock, [this] { return threads_ == 0; });
}

void ThreadJobs::run(Lane lane, std::function<void()> work, std::function<void()> done) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  LaneState& state = lanes_[lane];
  state.queue.push_back({std::move(work), std::move(done)});
  if (state.idle > 0) {
    state.arrived.notify_one();
  }
  if (state.queue.size() > state.idle && state.threads < state.limit) {
    ++state.threads;
    ++threads_;
    // Signals are the loop's business.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this, &state] { serve(state); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
}

void ThreadJobs::serve(LaneState& lane) {
  pthread_setname_np(pthread_self(), "job");
  std::unique_lock lock(mutex_);
  for (;;) {
    ++lane.idle;
    lane.arrived.wait_for(lock, idle_before_end, [&] { return stopping_ || !lane.queue.empty(); });
    --lane.idle;
    if (stopping_ || lane.queue.empty()) break;
    Job job = std::move(lane.queue.front());
    lane.queue.pop_front();
    lock.unlock();
    job.work();
    job.work = nullptr;  // what it captured is freed here, not on the loop
    lock.lock();
    if (!stopping_) scheduler_.post(std::move(job.done));
  }
  --lane.threads;
  if (--threads_ == 0) thread_ended_.notify_all();
}

}  // namespace virtset
