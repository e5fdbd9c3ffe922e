#include "daemon/slots.h"

namespace virtset {

namespace {

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::optional<Slots::Refusal> Slots::take(const Request& request) {
  woken_.erase(request.instance);
  const auto limit = static_cast<std::size_t>(request.limit.value_or(0));
  if (holds(request.instance)) {
    if (!request.limit || holders_of(request.set) <= limit) return std::nullopt;
    // The set was made smaller since.
    release(request.instance);
  }
  const bool set_is_full = request.limit && holders_of(request.set) >= limit;
  if (set_is_full) {
    waiting_set_[request.set].insert(request.instance);
    return Refusal{true, "waits for another virtual machine of its set to end: the set has " +
                             std::to_string(holders_of(request.set)) + " of " +
                             std::to_string(*request.limit)};
  }
  if (memory_ != 0 && memory_in_use_ + request.memory > memory_) {
    waiting_host_.insert(request.instance);
    return Refusal{false, "0/1 nodes are available: 1 Insufficient memory. It asks for " +
                              mebibytes(request.memory) + ", " +
                              mebibytes(memory_ > memory_in_use_ ? memory_ - memory_in_use_ : 0) +
                              " of " + mebibytes(memory_) + " are free"};
  }
  forget(request.instance);
  restore(request);
  // There may be room for one more.
  wake_one(waiting_host_, request.set);
  return std::nullopt;
}

void Slots::restore(const Request& request) {
  if (!holders_.try_emplace(request.instance, Holder{request.set, request.memory}).second) return;
  ++held_[request.set];
  memory_in_use_ += request.memory;
}

void Slots::release(const store::Key& instance) {
  const auto it = holders_.find(instance);
  if (it == holders_.end()) return;
  const Holder holder = it->second;
  holders_.erase(it);
  if (--held_[holder.set] == 0) held_.erase(holder.set);
  memory_in_use_ -= holder.memory;
  wake_one_of(holder.set);
}

void Slots::wake_one_of(const std::string& set) {
  if (const auto waiting = waiting_set_.find(set); waiting != waiting_set_.end()) {
    wake_one(waiting->second, set);
    if (waiting->second.empty()) waiting_set_.erase(waiting);
  }
  wake_one(waiting_host_, set);
}

void Slots::wake_one(std::set<store::Key>& waiting, const std::string& set) {
  if (waiting.empty()) return;
  const store::Key instance = *waiting.begin();
  // Who is refused again comes back into the list.
  waiting.erase(waiting.begin());
  woken_[instance] = set;
  wake_(instance);
}

void Slots::forget(const store::Key& instance) {
  if (const auto it = woken_.find(instance); it != woken_.end()) {
    const std::string set = it->second;
    woken_.erase(it);
    wake_one_of(set);
  }
  waiting_host_.erase(instance);
  for (auto it = waiting_set_.begin(); it != waiting_set_.end();) {
    it->second.erase(instance);
    it = it->second.empty() ? waiting_set_.erase(it) : std::next(it);
  }
}

std::size_t Slots::holders_of(const std::string& set) const {
  const auto it = held_.find(set);
  return it == held_.end() ? 0 : it->second;
}

void Slots::limit_changed(const std::string& set) {
  const auto it = waiting_set_.find(set);
  if (it == waiting_set_.end()) return;
  const std::set<store::Key> waiting = std::move(it->second);
  waiting_set_.erase(it);
  for (const store::Key& instance : waiting) wake_(instance);
}

void Slots::owner_changed(const store::Key& instance, const std::string& set) {
  const auto it = holders_.find(instance);
  if (it == holders_.end() || it->second.set == set) return;
  const std::string before = std::exchange(it->second.set, set);
  if (--held_[before] == 0) held_.erase(before);
  ++held_[set];
  limit_changed(before);
}

}  // namespace virtset
