// The committed changes of the recent past, in order, for watches and controllers.
//
// Promise: a list at revision R followed by next_after(R), next_after(…) sees every later change
// exactly once, in order; where that can no longer be kept, holds() says so. Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>

#include "store/object.h"

namespace virtset::store {

class WatchFeed {
 public:
  using Listener = std::function<void(const Change&)>;

  // The history is bounded by number and by bytes of text, whichever is reached first.
  struct Limits {
    std::size_t changes = 10'000;
    std::size_t bytes = 16u << 20;
  };

  WatchFeed() : WatchFeed(Limits{}) {}
  explicit WatchFeed(Limits limits) : limits_(limits) {}

  // Nothing before `revision` is known: what a daemon says after it has loaded the database.
  void begin_at(Revision revision) { oldest_ = revision; }

  void append(std::vector<Change> changes);

  // Whether every change after `revision` is still here.
  bool holds(Revision revision) const { return revision >= oldest_; }
  // The first change after `revision`, or null if there is none yet. Valid until append().
  const Change* next_after(Revision revision) const;

  // Ends the subscription when destroyed. May be destroyed from within a listener, its own too.
  class Subscription {
   public:
    Subscription() = default;

   private:
    friend class WatchFeed;
    explicit Subscription(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
    std::shared_ptr<Listener> listener_;
  };

  // Calls `listener` for each change, after all changes of its transaction have become visible.
  [[nodiscard]] Subscription subscribe(Listener listener);

 private:
  void forget_the_oldest();

  Limits limits_;
  std::deque<Change> changes_;
  std::size_t bytes_ = 0;
  Revision oldest_ = 0;
  std::list<std::weak_ptr<Listener>> listeners_;
};

}  // namespace virtset::store
