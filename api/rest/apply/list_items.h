// Lists whose items are told apart by keys or by value, rather than by where they stand.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/kinds/schema.h"
#include "api/rest/apply/field_set.h"

namespace virtset::api {

// Whether it is a list of type map or set. `list` may be null.
bool has_elements(const Schema* list);

// The items of such a list by what tells them apart. Several items may be alike: what is stored may
// be older than the schema, or a status that nobody checks.
class ListItems {
 public:
  // Nothing if there is an item without what should tell it apart; `error` then says which.
  static std::optional<ListItems> index(const Schema* list, const nlohmann::json::array_t& items,
                                        std::string* error = nullptr);

  std::size_t size() const { return elements_.size(); }
  const PathElement& element(std::size_t index) const { return elements_[index]; }
  // Indices of items of one element, in the order of the list. Valid as long as the ListItems are.
  using Group = std::span<const std::size_t>;
  Group find(const PathElement& element) const;

  // All elements in their order, with the indices of their items; those of two lists.
  using Visit = std::function<void(const PathElement&, const Group&)>;
  using VisitTwo = std::function<void(const PathElement&, const Group&, const Group&)>;
  void visit(const Visit& visit) const;
  static void visit(const ListItems& a, const ListItems& b, const VisitTwo& visit);

 private:
  Group group_at(std::size_t position) const;

  std::vector<PathElement> elements_;
  std::vector<std::size_t> sorted_;  // indices by element, then by index
};

// In which order the items of two lists stand when one is merged into the other: as they were
// applied, with those that were not where they were among them.
// Kubernetes: mergingWalker.visitListItems.
struct MergeStep {
  // At least one of them. Both, where an item is to be merged.
  std::optional<std::size_t> live, applied;
};
// No two of those applied may be alike.
std::vector<MergeStep> merge_order(const ListItems& live, const ListItems& applied);

}  // namespace virtset::api
