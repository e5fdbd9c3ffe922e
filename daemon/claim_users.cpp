#include "daemon/claim_users.h"

namespace virtset {

std::optional<ClaimUsers::Refusal> ClaimUsers::take(const store::Key& user,
                                                    const std::vector<Wanted>& wanted) {
  for (const Wanted& one : wanted) {
    const auto users = by_claim_.find(one.claim);
    if (users == by_claim_.end()) continue;
    for (const auto& [other, use] : users->second) {
      if (other == user) continue;
      const bool together = use == one.use && use != Use::write;
      if (!together) return Refusal{one.claim, other};
    }
  }
  restore(user, wanted);
  return std::nullopt;
}

void ClaimUsers::restore(const store::Key& user, const std::vector<Wanted>& wanted) {
  if (const auto known = by_user_.find(user); known != by_user_.end() && known->second == wanted) {
    return;
  }
  release(user);
  for (const Wanted& one : wanted) {
    // Of two disks of one claim the one that asks for more counts.
    const auto [use, is_new] = by_claim_[one.claim].try_emplace(user, one.use);
    if (!is_new && one.use == Use::write) use->second = Use::write;
  }
  if (!wanted.empty()) by_user_[user] = wanted;
}

void ClaimUsers::pass_on(const store::Key& from, const store::Key& to) {
  const auto it = by_user_.find(from);
  if (it != by_user_.end()) restore(to, std::vector<Wanted>(it->second));
}

void ClaimUsers::release(const store::Key& user) {
  const auto it = by_user_.find(user);
  if (it == by_user_.end()) return;
  const std::vector<Wanted> claims = std::move(it->second);
  by_user_.erase(it);
  for (const auto& [claim, use] : claims) {
    const auto users = by_claim_.find(claim);
    if (users == by_claim_.end()) continue;  // an instance may have two disks of one claim
    users->second.erase(user);
    if (users->second.empty()) by_claim_.erase(users);
  }
  for (const auto& [claim, use] : claims) {
    for (const Freed& listener : listeners_) listener(claim);
  }
}

std::optional<store::Key> ClaimUsers::user_of(const store::Key& claim) const {
  const auto users = by_claim_.find(claim);
  if (users == by_claim_.end()) return std::nullopt;
  return users->second.begin()->first;
}

}  // namespace virtset
