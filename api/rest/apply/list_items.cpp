#include "api/rest/apply/list_items.h"

#include <algorithm>
#include <numeric>

namespace virtset::api {

namespace {

using Json = nlohmann::json;

const Json* key_default(const Schema& list, const std::string& key) {
  const Schema* field = list.items() ? list.items()->field(key) : nullptr;
  return field && !field->default_value().is_null() ? &field->default_value() : nullptr;
}

std::string wrong_value(const Json& item) {
  if (item.is_object()) return "associative list without keys has an element that's a map type";
  if (item.is_array()) return "not supported: associative list with lists as elements";
  return "associative list without keys has an element that's an explicit null";
}

std::string wrong_item(const Json& item) {
  return item.is_null() ? "associative list with keys may not have a null element"
                        : "associative list with keys may not have non-map elements";
}

// What tells an item apart, or what is wrong with it. The keys must be sorted.
std::optional<PathElement> element_of(const Schema& list, const std::vector<std::string>& keys,
                                      const Json& item, std::string& error) {
  PathElement element;
  if (list.list_type() == Schema::ListType::set) {
    element.type = PathElement::Type::value;
    append_canonical(element.content, item);
    if (!item.is_structured() && !item.is_null()) return element;
    error = wrong_value(item);
    return std::nullopt;
  }
  if (!item.is_object()) {
    error = wrong_item(item);
    return std::nullopt;
  }
  element.type = PathElement::Type::key;
  for (const std::string& key : keys) {
    const auto found = item.find(key);
    const Json* value = found != item.end() ? &*found : key_default(list, key);
    if (!value) {
      error = "associative list with keys has an element that omits key field \"" + key +
              "\" (and doesn't have default value)";
      return std::nullopt;
    }
    element.content.append(element.content.empty() ? "{\"" : ",\"").append(key).append("\":");
    append_canonical(element.content, *value);
  }
  element.content += "}";
  return element;
}

}  // namespace

bool has_elements(const Schema* list) {
  return list && list->type() == Schema::Type::array &&
         list->list_type() != Schema::ListType::atomic;
}

std::optional<ListItems> ListItems::index(const Schema* list, const Json::array_t& items,
                                          std::string* error) {
  ListItems result;
  result.elements_.reserve(items.size());
  std::vector<std::string> keys = list->list_keys();
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string wrong;
    std::optional<PathElement> element = element_of(*list, keys, items[i], wrong);
    if (!element) {
      if (error) *error = "element " + std::to_string(i) + ": " + wrong;
      return std::nullopt;
    }
    result.elements_.push_back(std::move(*element));
  }
  result.sorted_.resize(items.size());
  std::iota(result.sorted_.begin(), result.sorted_.end(), std::size_t{0});
  std::stable_sort(result.sorted_.begin(), result.sorted_.end(), [&](std::size_t a, std::size_t b) {
    return result.elements_[a] < result.elements_[b];
  });
  return result;
}

ListItems::Group ListItems::group_at(std::size_t position) const {
  const PathElement& element = elements_[sorted_[position]];
  std::size_t end = position + 1;
  while (end < sorted_.size() && elements_[sorted_[end]] == element) ++end;
  return std::span(sorted_).subspan(position, end - position);
}

ListItems::Group ListItems::find(const PathElement& element) const {
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), element,
      [&](std::size_t index, const PathElement& wanted) { return elements_[index] < wanted; });
  if (found == sorted_.end() || !(elements_[*found] == element)) return {};
  return group_at(static_cast<std::size_t>(found - sorted_.begin()));
}

void ListItems::visit(const Visit& visit) const {
  for (std::size_t position = 0; position < sorted_.size();) {
    const Group group = group_at(position);
    visit(elements_[group[0]], group);
    position += group.size();
  }
}

void ListItems::visit(const ListItems& a, const ListItems& b, const VisitTwo& visit) {
  std::size_t left = 0, right = 0;
  while (left < a.size() || right < b.size()) {
    const PathElement* from = left < a.size() ? &a.elements_[a.sorted_[left]] : nullptr;
    const PathElement* to = right < b.size() ? &b.elements_[b.sorted_[right]] : nullptr;
    const bool first_is_left = from && (!to || !(*to < *from));
    const bool first_is_right = to && (!from || !(*from < *to));
    const Group of_left = first_is_left ? a.group_at(left) : Group();
    const Group of_right = first_is_right ? b.group_at(right) : Group();
    visit(first_is_left ? *from : *to, of_left, of_right);
    left += of_left.size();
    right += of_right.size();
  }
}

std::vector<MergeStep> merge_order(const ListItems& live, const ListItems& applied) {
  // For each item of the live list the one that is applied to it, and the other way round.
  std::vector<std::optional<std::size_t>> applied_to(live.size());
  std::vector<ListItems::Group> live_of(applied.size());
  for (std::size_t i = 0; i < applied.size(); ++i) {
    live_of[i] = live.find(applied.element(i));
    for (const std::size_t index : live_of[i]) applied_to[index] = i;
  }
  std::vector<MergeStep> steps;
  std::size_t next_live = 0, next_applied = 0;
  // The first of those still to be applied that changes an item rather than adds one.
  std::size_t next_shared = 0;
  const auto apply_next = [&] {
    // What is there twice is replaced, as there is no telling which one is meant.
    const ListItems::Group& same = live_of[next_applied];
    steps.push_back({same.size() == 1 ? std::optional(same[0]) : std::nullopt, next_applied});
    ++next_applied;
  };
  while (next_live < live.size() || next_applied < applied.size()) {
    next_shared = std::max(next_shared, next_applied);
    while (next_shared < applied.size() && live_of[next_shared].empty()) ++next_shared;
    if (next_live < live.size()) {
      const std::optional<std::size_t> same = applied_to[next_live];
      if (!same) {
        steps.push_back({next_live++, std::nullopt});
        continue;
      }
      if (*same != next_applied && next_shared < applied.size() && *same != next_shared) {
        ++next_live;  // applied before, or to come later in the order of those applied
        continue;
      }
      if (*same <= next_applied) ++next_live;
    }
    if (next_applied < applied.size()) apply_next();
  }
  return steps;
}

}  // namespace virtset::api
