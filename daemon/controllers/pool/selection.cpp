#include "daemon/controllers/pool/selection.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "api/kinds/json_access.h"

namespace virtset {

using Json = nlohmann::json;

namespace {

// Random as far as anybody knows, but the same each time.
std::size_t lot(const PoolMember& member) { return std::hash<std::string>()(member.uid); }

// Whether `a` comes before `b`, or nothing if the policy does not tell them apart.
std::optional<bool> by_policy(const std::string& policy, const PoolMember& a, const PoolMember& b) {
  if (policy == "AscendingOrder" && a.index != b.index) return a.index < b.index;
  if (policy == "DescendingOrder" && a.index != b.index) return a.index > b.index;
  if (policy == "Oldest" && a.created != b.created) return a.created < b.created;
  if (policy == "Newest" && a.created != b.created) return a.created > b.created;
  if (policy == "Random") return std::tuple(lot(a), a.uid) < std::tuple(lot(b), b.uid);
  return std::nullopt;
}

}  // namespace

PoolSelectors::PoolSelectors(const Json& selection_policy) {
  const Json& selectors = api::member(selection_policy, "selectors");
  try {
    if (selectors.contains("labelSelector")) {
      labels_ = api::LabelSelector::from_object(selectors["labelSelector"]);
    }
    nodes_ = api::LabelSelector::from_node_requirements(
        api::member(selectors, "nodeSelectorRequirementMatcher"));
  } catch (const api::BadSelector&) {
    labels_ = api::LabelSelector::from_object(nullptr);
  }
}

bool PoolSelectors::match(const Json& machine) const {
  const Json& made_from = api::member(machine, "spec", "template");
  return labels_.matches(api::member(made_from, "metadata", "labels")) &&
         nodes_.matches(api::member(made_from, "spec", "nodeSelector"));
}

void sort_for_scale_in(PoolMemberList& members, const std::string& sort_policy) {
  const bool random = sort_policy.empty() || sort_policy == "Random";
  std::sort(members.begin(), members.end(), [&](const PoolMember* a, const PoolMember* b) {
    if (a->cost != b->cost) return a->cost < b->cost;
    if (random && a->available != b->available) return b->available;
    return by_policy(random ? "Random" : sort_policy, *a, *b)
        .value_or(std::tie(b->index, b->key) < std::tie(a->index, a->key));
  });
}

void sort_for_update(PoolMemberList& members, const std::string& sort_policy,
                     const std::set<store::Key>& guest_is_left) {
  const auto rank = [&](const PoolMember* member) {
    return std::tuple(member->ready, !guest_is_left.contains(member->key));
  };
  std::sort(members.begin(), members.end(), [&](const PoolMember* a, const PoolMember* b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return by_policy(sort_policy, *a, *b)
        .value_or(std::tie(a->index, a->key) < std::tie(b->index, b->key));
  });
}

}  // namespace virtset
