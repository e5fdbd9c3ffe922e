#include "daemon/turns.h"

namespace virtset {

bool Turns::take(const store::Key& key) {
  if (holders_.contains(key)) return true;
  if (holders_.size() < most_) {
    holders_.insert(key);
    return true;
  }
  if (waiting_.insert(key).second) order_.push_back(key);
  return false;
}

void Turns::give_back(const store::Key& key) {
  if (holders_.erase(key) == 0) return;
  while (holders_.size() < most_ && !order_.empty()) {
    const store::Key next = std::move(order_.front());
    order_.pop_front();
    if (waiting_.erase(next) == 0) continue;
    holders_.insert(next);
    wake_(next);
  }
}

void Turns::forget(const store::Key& key) {
  waiting_.erase(key);
  give_back(key);
}

}  // namespace virtset
