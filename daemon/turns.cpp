#include "daemon/turns.h"

namespace virtset {

bool Turns::take(const store::Key& key) {
  if (holders_.contains(key)) return true;
  if (holders_.size() < most_) {
    holders_.insert(key);
    return true;
  }
  if (!waiting_.contains(key)) waiting_[key] = order_.insert(order_.end(), key);
  return false;
}

void Turns::give_back(const store::Key& key) {
  if (holders_.erase(key) == 0) return;
  while (holders_.size() < most_ && !order_.empty()) {
    const store::Key next = std::move(order_.front());
    order_.pop_front();
    waiting_.erase(next);
    holders_.insert(next);
    wake_(next);
  }
}

void Turns::forget(const store::Key& key) {
  if (const auto it = waiting_.find(key); it != waiting_.end()) {
    order_.erase(it->second);
    waiting_.erase(it);
  }
  give_back(key);
}

}  // namespace virtset
