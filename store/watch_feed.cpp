#include "store/watch_feed.h"

#include <algorithm>

namespace virtset::store {

void WatchFeed::append(std::vector<Change> changes) {
  for (const Change& change : changes) {
    bytes_ += change.object->text().size();
    changes_.push_back(change);
  }
  forget_the_oldest();
  for (const Change& change : changes) {
    // Subscriptions may come and go while a listener runs; new ones start with the next change.
    for (auto it = listeners_.begin(); it != listeners_.end();) {
      const auto listener = it->lock();
      if (listener) (*listener)(change);
      it = listener ? std::next(it) : listeners_.erase(it);
    }
  }
}

const Change* WatchFeed::next_after(Revision revision) const {
  const auto it =
      std::upper_bound(changes_.begin(), changes_.end(), revision,
                       [](Revision r, const Change& change) { return r < change.revision(); });
  return it == changes_.end() ? nullptr : &*it;
}

WatchFeed::Subscription WatchFeed::subscribe(Listener listener) {
  auto shared = std::make_shared<Listener>(std::move(listener));
  listeners_.push_back(shared);
  return Subscription(std::move(shared));
}

void WatchFeed::forget_the_oldest() {
  // The newest change always stays: a watcher that is awake must be able to see it.
  while (changes_.size() > 1 && (changes_.size() > limits_.changes || bytes_ > limits_.bytes)) {
    bytes_ -= changes_.front().object->text().size();
    oldest_ = changes_.front().revision();
    changes_.pop_front();
  }
}

}  // namespace virtset::store
