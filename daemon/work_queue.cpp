#include "daemon/work_queue.h"

#include <algorithm>

#include "daemon/back_off.h"

namespace virtset {

namespace {

// How many keys one turn of the loop takes, so that requests are answered in between.
constexpr int keys_per_turn = 64;

}  // namespace

WorkQueue::WorkQueue(api::Scheduler& scheduler, Handle handle, BackOff back_off)
    : scheduler_(scheduler), handle_(std::move(handle)), back_off_(back_off) {}

WorkQueue::~WorkQueue() { *alive_ = false; }

void WorkQueue::add(const store::Key& key) {
  if (!queued_.insert(key).second) return;
  ready_.push_back(key);
  schedule();
}

void WorkQueue::add_after(const store::Key& key, Duration delay) {
  if (delay <= Duration(0)) {
    add(key);
    return;
  }
  const auto time = scheduler_.steady_now() + delay;
  if (const auto known = delayed_keys_.find(key); known != delayed_keys_.end()) {
    if (known->second->first <= time) return;
    delayed_.erase(known->second);
    delayed_keys_.erase(known);
  }
  delayed_keys_[key] = delayed_.emplace(time, key);
  arm();
}

WorkQueue::Duration WorkQueue::retry(const store::Key& key) {
  int& failures = failures_[key];
  failures = std::min(failures + 1, 1'000);
  Duration delay = back_off(failures, back_off_.first, back_off_.longest);
  const auto spread = std::hash<std::string>()(key.ns + "/" + key.name) % 256;
  delay += delay * static_cast<Duration::rep>(spread) / 1024;
  add_after(key, delay);
  return delay;
}

void WorkQueue::forget(const store::Key& key) { failures_.erase(key); }

void WorkQueue::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  scheduler_.post([this, alive = alive_] {
    if (*alive) run();
  });
}

void WorkQueue::run() {
  scheduled_ = false;
  for (int i = 0; i < keys_per_turn && !ready_.empty(); ++i) {
    const store::Key key = std::move(ready_.front());
    ready_.pop_front();
    // Before the look, so that what happens during it leads to another.
    queued_.erase(key);
    handle_(key);
  }
  if (!ready_.empty()) schedule();
}

void WorkQueue::arm() {
  if (delayed_.empty()) {
    timer_.reset();
    return;
  }
  const auto next = delayed_.begin()->first;
  if (timer_ && armed_for_ <= next) return;
  armed_for_ = next;
  // Rounded up: a timer that fires early would only be armed again.
  const auto delay = std::chrono::ceil<Duration>(next - scheduler_.steady_now());
  timer_ = scheduler_.after(std::max(delay, Duration(0)), [this] { on_timer(); });
}

void WorkQueue::on_timer() {
  timer_.reset();
  const auto now = scheduler_.steady_now();
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const store::Key key = delayed_.begin()->second;
    delayed_keys_.erase(key);
    delayed_.erase(delayed_.begin());
    add(key);
  }
  arm();
}

}  // namespace virtset
