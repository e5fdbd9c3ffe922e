#include "api/rest/apply/typed.h"

#include <algorithm>
#include <optional>

#include "api/rest/apply/list_items.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

enum class Shape {
  leaf,  // owned as a whole
  map,
  list  // whose items are told apart
};

Shape shape_of(const Schema* schema, const Json& value) {
  if (value.is_object()) return schema && schema->is_atomic() ? Shape::leaf : Shape::map;
  if (value.is_array()) return has_elements(schema) ? Shape::list : Shape::leaf;
  if (!value.is_null()) return Shape::leaf;
  // Null is any of them.
  if (has_elements(schema)) return Shape::list;
  if (!schema) return Shape::map;
  const bool scalar = schema->int_or_string() || schema->format() != Schema::Format::none;
  const bool map = schema->type() == Schema::Type::object || schema->type() == Schema::Type::any;
  return map && !scalar && !schema->is_atomic() ? Shape::map : Shape::leaf;
}

const Schema* field_schema(const Schema* schema, std::string_view name) {
  return schema ? schema->field(name) : nullptr;
}

const Schema* item_schema(const Schema* schema) { return schema ? schema->items() : nullptr; }

// Declared by name, unlike the entries of maps.
bool is_declared(const Schema* schema, std::string_view name) {
  const Schema* field = field_schema(schema, name);
  return field && field != schema->values();
}

// Whether it is one of those by which the items of the list are told apart.
bool is_key(const Schema& list, const PathElement& element) {
  const auto& keys = list.list_keys();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return element.content == key; });
}

const Json::object_t& members(const Json& object) {
  static const Json::object_t none;
  return object.is_object() ? object.get_ref<const Json::object_t&>() : none;
}

const Json::array_t& items(const Json& list) {
  static const Json::array_t none;
  return list.is_array() ? list.get_ref<const Json::array_t&>() : none;
}

// Gives whether the value is to own itself.
bool collect(const Schema* schema, const Json& value, FieldSet& below);

void collect_items(const Schema* schema, const ListItems& list, const Json& value,
                   FieldSet& below) {
  list.visit([&](const PathElement& element, const ListItems::Group& group) {
    FieldSet inside;
    // Kubernetes: what is there twice is owned as a whole.
    if (group.size() == 1) collect(item_schema(schema), value[group[0]], inside);
    below.append(element, true, std::move(inside));
  });
}

bool collect(const Schema* schema, const Json& value, FieldSet& below) {
  const Shape shape = shape_of(schema, value);
  if (shape == Shape::leaf) return true;
  if (shape == Shape::list) {
    const auto list = ListItems::index(schema, items(value));
    if (!list) return true;
    collect_items(schema, *list, value, below);
    return false;
  }
  below.reserve(value.size());
  for (const auto& [name, content] : members(value)) {
    FieldSet inside;
    const bool is_leaf = collect(field_schema(schema, name), content, inside);
    const bool is_empty = content.is_null() || (content.is_object() && content.empty());
    below.append(PathElement::field(name), is_leaf || is_empty || !is_declared(schema, name),
                 std::move(inside));
  }
  return false;
}

// What became of a value itself.
struct Change {
  bool removed = false, modified = false, added = false;
};

class Comparer {
 public:
  // One of the values may be null, not both.
  static Change compare(const Schema* schema, const Json* from, const Json* to, Comparison& below) {
    const Shape shape = shape_of(schema, to ? *to : *from);
    if (from && to) {
      // What has another shape is gone and something else is there.
      const Shape before = shape_of(schema, *from);
      Change change;
      if (before != shape) change = walk(before, schema, from, to, below);
      const Change now = walk(shape, schema, from, to, below);
      change.modified |= now.modified;
      return change;
    }
    walk(shape, schema, from, to, below);
    return from ? Change{.removed = true} : Change{.added = true};
  }

 private:
  static Change walk(Shape shape, const Schema* schema, const Json* from, const Json* to,
                     Comparison& below) {
    static const Json nothing;
    const Json& before = from ? *from : nothing;
    const Json& after = to ? *to : nothing;
    if (shape == Shape::map && !(members(before).empty() && members(after).empty())) {
      compare_members(schema, members(before), members(after), below);
      return {};
    }
    if (shape == Shape::list && !(items(before).empty() && items(after).empty())) {
      const auto old_items = ListItems::index(schema, items(before));
      const auto new_items = ListItems::index(schema, items(after));
      if (old_items && new_items) {
        compare_items(schema, *old_items, before, *new_items, after, below);
        return {};
      }
    }
    return Change{.modified = from && to && before != after};
  }

  static void append(const PathElement& element, const Change& change, Comparison&& inside,
                     Comparison& below) {
    const auto append_to = [&](FieldSet& set, bool is_member, FieldSet& inner) {
      if (is_member || !inner.empty()) set.append(element, is_member, std::move(inner));
    };
    append_to(below.removed, change.removed, inside.removed);
    append_to(below.modified, change.modified, inside.modified);
    append_to(below.added, change.added, inside.added);
  }

  static void compare_members(const Schema* schema, const Json::object_t& before,
                              const Json::object_t& after, Comparison& below) {
    auto from = before.begin();
    auto to = after.begin();
    while (from != before.end() || to != after.end()) {
      const Json *old_value = nullptr, *new_value = nullptr;
      const std::string* name;
      if (to == after.end() || (from != before.end() && from->first < to->first)) {
        name = &from->first;
        old_value = &from++->second;
      } else if (from == before.end() || to->first < from->first) {
        name = &to->first;
        new_value = &to++->second;
      } else {
        name = &to->first;
        old_value = &from++->second;
        new_value = &to++->second;
      }
      Comparison inside;
      const Change change = compare(field_schema(schema, *name), old_value, new_value, inside);
      append(PathElement::field(*name), change, std::move(inside), below);
    }
  }

  static void compare_items(const Schema* schema, const ListItems& before, const Json& old_list,
                            const ListItems& after, const Json& new_list, Comparison& below) {
    ListItems::visit(before, after,
                     [&](const PathElement& element, ListItems::Group from, ListItems::Group to) {
                       Comparison inside;
                       const Change change =
                           compare_group(item_schema(schema), old_list, from, new_list, to, inside);
                       append(element, change, std::move(inside), below);
                     });
  }

  // Items that are told apart by nothing: there should be one at most on each side.
  static Change compare_group(const Schema* schema, const Json& old_list, ListItems::Group from,
                              const Json& new_list, ListItems::Group to, Comparison& inside) {
    const Json* old_item = from.size() == 1 ? &old_list[from[0]] : nullptr;
    const Json* new_item = to.size() == 1 ? &new_list[to[0]] : nullptr;
    Change change;
    if (from.size() > 1 && to.size() > 1) {
      change.modified =
          !std::equal(from.begin(), from.end(), to.begin(), to.end(),
                      [&](std::size_t a, std::size_t b) { return old_list[a] == new_list[b]; });
      return change;
    }
    if (old_item || new_item) change = compare(schema, old_item, new_item, inside);
    change.removed |= from.size() > 1;
    change.added |= to.size() > 1;
    return change;
  }
};

void merge_items(const Schema* schema, const ListItems& old_items, Json& into,
                 const ListItems& new_items, Json& applied) {
  Json::array_t result;
  result.reserve(std::max(into.size(), applied.size()));
  for (const MergeStep& step : merge_order(old_items, new_items)) {
    if (step.live && step.applied) {
      merge(item_schema(schema), into[*step.live], std::move(applied[*step.applied]));
    }
    result.push_back(std::move(step.live ? into[*step.live] : applied[*step.applied]));
  }
  into = std::move(result);
}

bool remove_all(const Schema* schema, Json& from, const FieldSet& fields);

// Gives whether nothing is left.
bool remove_members(const Schema* schema, Json& from, const FieldSet& fields) {
  std::vector<std::string_view> emptied;
  for (const FieldSet::Entry& entry : fields.entries()) {
    if (entry.element.type != PathElement::Type::field) continue;
    const std::string& name = entry.element.content;
    const auto found = from.find(name);
    if (found == from.end()) continue;
    if (entry.is_member) {
      from.erase(found);
    } else if (remove_all(field_schema(schema, name), *found, entry.below)) {
      emptied.push_back(name);
    }
  }
  if (from.empty()) return true;
  // Kubernetes: these are null from here on, so what contains them is not empty.
  for (const std::string_view name : emptied) from.erase(name);
  return false;
}

bool remove_items(const Schema* schema, Json& from, const FieldSet& fields) {
  const auto list = ListItems::index(schema, items(from));
  if (!list) return false;
  Json::array_t kept;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const FieldSet::Entry* entry = fields.find(list->element(i));
    if (entry && entry->is_member) continue;
    if (entry) {
      FieldSet below = entry->below;
      below.keep_trees([&](const PathElement& element) { return !is_key(*schema, element); });
      remove_all(item_schema(schema), from[i], below);
    }
    kept.push_back(std::move(from[i]));
  }
  from = std::move(kept);
  return from.empty();
}

bool remove_all(const Schema* schema, Json& from, const FieldSet& fields) {
  if (from.is_object()) return remove_members(schema, from, fields);
  if (from.is_array() && has_elements(schema)) return remove_items(schema, from, fields);
  return false;
}

}  // namespace

FieldSet fields_of(const Schema* schema, const Json& object) {
  FieldSet fields;
  collect(schema, object, fields);
  return fields;
}

Comparison compare(const Schema* schema, const Json& from, const Json& to) {
  Comparison comparison;
  Comparer::compare(schema, &from, &to, comparison);
  return comparison;
}

void merge(const Schema* schema, Json& into, Json applied) {
  const Shape shape = shape_of(schema, applied);
  if (shape == Shape::map && !(members(into).empty() && members(applied).empty())) {
    if (!into.is_object()) into = Json::object();
    if (!applied.is_object()) return;
    for (auto& [name, value] : applied.get_ref<Json::object_t&>()) {
      const auto there = into.find(name);
      if (there == into.end()) {
        into[name] = std::move(value);
      } else {
        merge(field_schema(schema, name), *there, std::move(value));
      }
    }
    return;
  }
  if (shape == Shape::list && !(items(into).empty() && items(applied).empty())) {
    const auto old_items = ListItems::index(schema, items(into));
    const auto new_items = ListItems::index(schema, items(applied));
    if (old_items && new_items) {
      if (!into.is_array()) into = Json::array();
      if (!applied.is_array()) applied = Json::array();
      merge_items(schema, *old_items, into, *new_items, applied);
      return;
    }
  }
  into = std::move(applied);
}

void remove_fields(const Schema* schema, Json& from, const FieldSet& fields) {
  remove_all(schema, from, fields);
}

FieldSet with_declared_parents(const Schema* schema, const FieldSet& fields) {
  FieldSet result;
  for (const FieldSet::Entry& entry : fields.entries()) {
    const bool is_field = entry.element.type == PathElement::Type::field;
    const Schema* inner = nullptr;
    bool is_member = entry.is_member;
    if (is_field) {
      const std::string& name = entry.element.content;
      inner = field_schema(schema, name);
      is_member |= is_declared(schema, name);
    } else {
      inner = item_schema(schema);
    }
    result.append(entry.element, is_member, with_declared_parents(inner, entry.below));
  }
  return result;
}

void drop_nulls(const Schema* schema, Json& object) {
  if (!schema) return;
  if (object.is_array()) {
    for (Json& item : object) drop_nulls(schema->items(), item);
  }
  if (!object.is_object()) return;
  for (auto it = object.begin(); it != object.end();) {
    if (it->is_null()) {
      it = object.erase(it);
    } else {
      drop_nulls(schema->field(it.key()), *it);
      ++it;
    }
  }
}

}  // namespace virtset::api
