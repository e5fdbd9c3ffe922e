// Which virtual machines of a pool are next, to be deleted or to be updated.
#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "api/kinds/label_selector.h"
#include "daemon/controllers/pool/index.h"

namespace virtset {

// KubeVirt: selectionPolicy.selectors. Both of them must match; none matches everything.
class PoolSelectors {
 public:
  // Those that admission would not have let through, of an earlier version, match nothing.
  explicit PoolSelectors(const nlohmann::json& selection_policy);

  bool everything() const { return labels_.everything() && nodes_.everything(); }
  // KubeVirt: they look at labels and nodeSelector of the machine's template, neither at its own
  // labels nor at those of the host.
  bool match(const nlohmann::json& machine) const;

 private:
  api::LabelSelector labels_;
  api::LabelSelector nodes_;
};

using PoolMemberList = std::vector<const PoolMember*>;

// Those that go first come first: the least costly, then by `sort_policy`. At random, or without a
// policy, those that are not ready go before the others.
void sort_for_scale_in(PoolMemberList& members, const std::string& sort_policy);

// Those whose update costs nothing come first, because they are not ready; then those of which only
// the guest is left to do; then by `sort_policy`, or without one by index.
void sort_for_update(PoolMemberList& members, const std::string& sort_policy,
                     const std::set<store::Key>& guest_is_left);

}  // namespace virtset
