// Which objects a controller has to look at, and when.
//
// Keys are de-duplicated: one that is added ten times is looked at once. Everything on the loop
// thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "api/rest/scheduler.h"
#include "store/object.h"

namespace virtset {

class WorkQueue {
 public:
  using Duration = std::chrono::milliseconds;
  using Handle = std::function<void(const store::Key&)>;

  // Kubernetes' workqueue has 5 ms doubled up to 1000 s; a single host hears sooner of what is
  // mended.
  struct BackOff {
    Duration first{5};
    Duration longest{60'000};
  };

  WorkQueue(api::Scheduler& scheduler, Handle handle)
      : WorkQueue(scheduler, std::move(handle), BackOff{}) {}
  WorkQueue(api::Scheduler& scheduler, Handle handle, BackOff back_off);
  ~WorkQueue();

  // Soon, once.
  void add(const store::Key& key);
  // After `delay`; the earliest of several counts, and a look before it does not take it back.
  void add_after(const store::Key& key, Duration delay);
  // After a delay that doubles with each call, plus up to a quarter of it, so that keys which
  // failed together are not all tried again together; the delay is returned.
  Duration retry(const store::Key& key);
  // The next retry starts small again.
  void forget(const store::Key& key);

  std::size_t size() const { return ready_.size(); }

 private:
  void schedule();
  void run();
  void arm();
  void on_timer();

  api::Scheduler& scheduler_;
  Handle handle_;
  BackOff back_off_;
  std::deque<store::Key> ready_;
  store::KeySet queued_;  // the keys in ready_
  bool scheduled_ = false;

  std::multimap<api::Scheduler::SteadyTime, store::Key> delayed_;
  store::KeyMap<std::multimap<api::Scheduler::SteadyTime, store::Key>::iterator> delayed_keys_;
  std::unique_ptr<api::Scheduler::Timer> timer_;
  api::Scheduler::SteadyTime armed_for_{};

  store::KeyMap<int> failures_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace virtset
