#include "daemon/slots.h"

#include <algorithm>
#include <utility>

namespace virtset {

namespace {

// How often the first that waits for memory is overtaken before what is freed is kept for it.
constexpr int patience = 100;

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

std::optional<Slots::Refusal> Slots::take(const Request& request) {
  if (const auto it = holders_.find(request.instance); it != holders_.end()) {
    it->second.knows = true;
    owner_changed(request.instance, request.set);
    const auto holders = static_cast<std::int64_t>(holders_of(request.set));
    if (!request.limit || holders <= *request.limit) return std::nullopt;
    // The set was made smaller since.
    release(request.instance);
  }
  const auto waiting = waiting_.find(request.instance);
  const std::uint64_t number = waiting == waiting_.end() ? next_number_++ : waiting->second.number;
  leave_line(request.instance);
  auto refusal = refuse(request, number);
  if (!refusal) {
    grant(request, number);
    return std::nullopt;
  }
  Line& line = lines_[{request.set, request.memory}];
  line.limit = request.limit;
  line.instances[number] = request.instance;
  waiting_[request.instance] = {request.set, request.memory, number};
  return refusal;
}

std::optional<Slots::Refusal> Slots::refuse(const Request& request, std::uint64_t number) const {
  if (!has_place(request.set, request.limit)) {
    return Refusal{true, "waits for another virtual machine of its set to end: the set has " +
                             std::to_string(holders_of(request.set)) + " of " +
                             std::to_string(*request.limit)};
  }
  if (!fits(request.memory, number)) {
    return Refusal{false, "0/1 nodes are available: 1 Insufficient memory. It asks for " +
                              mebibytes(request.memory) + ", " + mebibytes(free_for(number)) +
                              " of " + mebibytes(memory_) + " are free"};
  }
  return std::nullopt;
}

bool Slots::has_place(const std::string& set, std::optional<std::int64_t> limit) const {
  return !limit || static_cast<std::int64_t>(holders_of(set)) < *limit;
}

bool Slots::fits(std::uint64_t memory, std::uint64_t number) const {
  return memory_ == 0 || memory <= free_for(number);
}

std::uint64_t Slots::free_for(std::uint64_t number) const {
  const std::uint64_t used = memory_in_use_ + (number == first_.number ? 0 : first_.kept);
  return memory_ > used ? memory_ - used : 0;
}

void Slots::grant(const Request& request, std::uint64_t number) {
  if (number == first_.number) first_is(nobody);
  restore(request);
  if (number < first_.number || first_.number == nobody) return;
  ++first_.overtaken;
  first_.overtakers += request.memory;
  holders_.at(request.instance).overtook = first_.reign;
}

void Slots::restore(const Request& request) {
  leave_line(request.instance);
  if (!holders_.try_emplace(request.instance, Holder{request.set, request.memory}).second) return;
  ++held_[request.set];
  memory_in_use_ += request.memory;
}

void Slots::release(const store::Key& instance) {
  const auto it = holders_.find(instance);
  if (it == holders_.end()) return;
  const Holder holder = std::move(it->second);
  holders_.erase(it);
  if (--held_[holder.set] == 0) held_.erase(holder.set);
  memory_in_use_ -= holder.memory;
  if (holder.overtook == first_.reign) first_.overtakers -= holder.memory;
  serve(holder.memory);
}

void Slots::forget(const store::Key& instance) {
  leave_line(instance);
  // Others may have what was kept for it.
  if (first_.kept > 0) serve(0);
  // It was given a slot and never came for it.
  const auto it = holders_.find(instance);
  if (it != holders_.end() && !it->second.knows) release(instance);
}

void Slots::leave_line(const store::Key& instance) {
  const auto it = waiting_.find(instance);
  if (it == waiting_.end()) return;
  const auto [set, memory, number] = it->second;
  waiting_.erase(it);
  const auto line = lines_.find({set, memory});
  line->second.instances.erase(number);
  if (line->second.instances.empty()) lines_.erase(line);
}

// The first of those that now have a place in their set, and for whom the memory is there or, if
// `fitting` is false, could ever be.
std::optional<Slots::Waiting> Slots::first_in_line(bool fitting) const {
  std::optional<Waiting> first;
  for (const auto& [wanted, line] : lines_) {
    const auto& [set, memory] = wanted;
    const std::uint64_t number = line.instances.begin()->first;
    if (first && first->number < number) continue;
    const bool possible = fitting ? fits(memory, number) : memory <= memory_;
    if (possible && has_place(set, line.limit)) first = {set, memory, number};
  }
  return first;
}

void Slots::first_is(std::uint64_t number) {
  first_ = {.number = number, .reign = first_.reign + 1};
}

// Gives what is free to those that wait.
void Slots::serve(std::uint64_t freed) {
  const auto first = first_in_line(false);
  const std::uint64_t number = first ? first->number : nobody;
  if (number != first_.number) first_is(number);
  // If those that overtook it are not why it waits, nothing is won by keeping others waiting too.
  const bool would_fit = first && memory_in_use_ - first_.overtakers + first->memory <= memory_;
  const bool keep = would_fit && first_.overtaken >= patience;
  first_.kept = keep ? std::min(first_.kept + freed, first->memory) : 0;
  while (const auto next = first_in_line(true)) {
    const store::Key instance = lines_.at({next->set, next->memory}).instances.begin()->second;
    grant({instance, next->set, std::nullopt, next->memory}, next->number);
    holders_.at(instance).knows = false;
    wake_(instance);
  }
}

std::size_t Slots::holders_of(const std::string& set) const {
  const auto it = held_.find(set);
  return it == held_.end() ? 0 : it->second;
}

void Slots::limit_changed(const std::string& set) {
  for (auto it = lines_.lower_bound({set, 0}); it != lines_.end() && it->first.first == set; ++it) {
    // Those that only lack memory have nothing to ask: a set changes each time its status does.
    if (has_place(set, it->second.limit)) continue;
    for (const auto& [number, instance] : it->second.instances) wake_(instance);
  }
}

void Slots::owner_changed(const store::Key& instance, const std::string& set) {
  const auto it = holders_.find(instance);
  if (it == holders_.end() || it->second.set == set) return;
  const std::string before = std::exchange(it->second.set, set);
  if (--held_[before] == 0) held_.erase(before);
  ++held_[set];
  serve(0);
}

}  // namespace virtset
