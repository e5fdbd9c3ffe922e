#include "api/rest/strategic_merge.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/kinds/json_access.h"
#include "api/kinds/utf8.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr const char* directive = "$patch";
constexpr const char* retain_keys = "$retainKeys";
constexpr std::string_view element_order = "$setElementOrder/";
constexpr std::string_view primitive_deletion = "$deleteFromPrimitiveList/";

std::string directive_of(const Json& patch) {
  const Json& value = member(patch, directive);
  if (value.is_null()) return "merge";
  if (value != "merge" && value != "replace" && value != "delete") {
    throw bad_request("the patch has an unknown $patch: " + value.dump() +
                      "; it must be \"merge\", \"replace\" or \"delete\"");
  }
  return value;
}

void merge_object(Json& object, const Json& patch, const Schema* schema);

// What a patch says of something that is not there yet: directives and nulls mean nothing then.
Json fresh(const Json& patch, const Schema* schema) {
  if (patch.is_object()) {
    Json object = Json::object();
    merge_object(object, patch, schema);
    return object;
  }
  if (!patch.is_array()) return patch;
  Json list = Json::array();
  for (const Json& item : patch) {
    if (!item.is_object()) {
      list.push_back(item);
    } else if (directive_of(item) != "delete") {
      Json kept = fresh(item, schema ? schema->items() : nullptr);
      // All that was in it was the directive.
      if (!kept.empty() || !item.contains(directive)) list.push_back(std::move(kept));
    }
  }
  return list;
}

// By what an item is known: its key's value, or itself in a set.
std::string identity(const Json& item, const std::string& key) {
  return key.empty() ? item.dump() : member(item, key.c_str()).dump();
}

// Kubernetes: the items that the patch orders come in that order; those that only the server has
// stay where they are among those that both have.
Json ordered(Json list, const Json& order, const Json& before, const std::string& key) {
  std::unordered_map<std::string, std::size_t> wanted, was;
  for (std::size_t i = 0; i < order.size(); ++i) wanted.emplace(identity(order[i], key), i);
  for (std::size_t i = 0; i < before.size(); ++i) was.emplace(identity(before[i], key), i);
  std::vector<Json> named, others;
  for (Json& item : list) {
    (wanted.contains(identity(item, key)) ? named : others).push_back(std::move(item));
  }
  std::stable_sort(named.begin(), named.end(), [&](const Json& a, const Json& b) {
    return wanted.at(identity(a, key)) < wanted.at(identity(b, key));
  });
  const auto place = [&](const Json& item) {
    const auto found = was.find(identity(item, key));
    return found == was.end() ? std::size_t{0} : found->second;
  };
  Json result = Json::array();
  auto next = named.begin();
  for (Json& other : others) {
    while (next != named.end() && place(*next) < place(other)) result.push_back(std::move(*next++));
    result.push_back(std::move(other));
  }
  while (next != named.end()) result.push_back(std::move(*next++));
  return result;
}

const std::string& merge_key(const Schema& list) {
  static const std::string none;
  return list.list_type() == Schema::ListType::map ? list.list_keys().front() : none;
}

// Merges the items of `patch` into the list by their key.
void merge_items(Json& list, const Json& patch, const Schema& schema) {
  const std::string& key = merge_key(schema);
  std::unordered_map<std::string, std::size_t> places;
  // Of items that are there twice, the first.
  for (std::size_t i = 0; i < list.size(); ++i) places.emplace(identity(list[i], key), i);
  std::vector<bool> deleted(list.size());
  for (const Json& item : patch) {
    if (!key.empty() && (!item.is_object() || !item.contains(key))) {
      throw bad_request("the patch has a list item without its key \"" + key +
                        "\": " + shortened(item.dump()));
    }
    const auto [found, is_new] = places.emplace(identity(item, key), list.size());
    if (item.is_object() && directive_of(item) == "delete") {
      if (is_new) {
        places.erase(found);
      } else {
        deleted[found->second] = true;
        places.erase(found);
      }
    } else if (is_new) {
      list.push_back(fresh(item, schema.items()));
      deleted.push_back(false);
    } else if (item.is_object()) {
      merge_object(list[found->second], item, schema.items());
    }
  }
  Json kept = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!deleted[i]) kept.push_back(std::move(list[i]));
  }
  list = std::move(kept);
}

void merge_list(Json& list, const Json& patch, const Schema* schema) {
  const auto replaces = [](const Json& item) {
    return item.is_object() && member(item, directive) == "replace";
  };
  if (!list.is_array() || !schema || schema->list_type() == Schema::ListType::atomic ||
      std::any_of(patch.begin(), patch.end(), replaces)) {
    list = fresh(patch, schema);
    return;
  }
  merge_items(list, patch, *schema);
}

// The directives about a list stand beside it. True if `name` is one.
bool merge_directive(Json& object, const std::string& name, const Json& value) {
  if (name == directive || name == retain_keys || name.starts_with(element_order)) return true;
  if (!name.starts_with(primitive_deletion)) return false;
  if (!value.is_array()) throw bad_request("\"" + name + "\" in the patch must be a list");
  const auto list = object.find(name.substr(primitive_deletion.size()));
  if (list == object.end() || !list->is_array()) return true;
  Json kept = Json::array();
  for (Json& item : *list) {
    if (std::find(value.begin(), value.end(), item) == value.end()) kept.push_back(std::move(item));
  }
  *list = std::move(kept);
  return true;
}

void set_orders(Json& object, const Json& before, const Json& patch, const Schema* schema) {
  for (const auto& [name, order] : patch.items()) {
    if (!name.starts_with(element_order)) continue;
    if (!order.is_array()) throw bad_request("\"" + name + "\" in the patch must be a list");
    const std::string field = name.substr(element_order.size());
    const Schema* list = schema ? schema->field(field) : nullptr;
    const auto found = object.find(field);
    if (found == object.end() || !found->is_array() || !list ||
        list->list_type() == Schema::ListType::atomic) {
      continue;
    }
    *found = ordered(std::move(*found), order, member(before, field.c_str()), merge_key(*list));
  }
}

void merge_object(Json& object, const Json& patch, const Schema* schema) {
  const std::string how = directive_of(patch);
  if (!object.is_object() || how != "merge") object = Json::object();
  if (how == "delete") return;
  // Only of lists that are about to be put into an order.
  Json before = Json::object();
  for (const auto& [name, value] : patch.items()) {
    if (!name.starts_with(element_order)) continue;
    const std::string field = name.substr(element_order.size());
    if (object.contains(field)) before[field] = object[field];
  }
  for (const auto& [name, value] : patch.items()) {
    if (merge_directive(object, name, value)) continue;
    const Schema* field = schema ? schema->field(name) : nullptr;
    if (value.is_null()) {
      object.erase(name);
    } else if (value.is_object()) {
      const bool removes = directive_of(value) == "delete";
      merge_object(object[name], value, field);
      if (removes) object.erase(name);
    } else if (value.is_array()) {
      merge_list(object[name], value, field);
    } else {
      object[name] = value;
    }
  }
  set_orders(object, before, patch, schema);
  if (const Json& retained = member(patch, retain_keys); retained.is_array()) {
    for (auto it = object.begin(); it != object.end();) {
      const bool kept = std::find(retained.begin(), retained.end(), it.key()) != retained.end();
      it = kept ? std::next(it) : object.erase(it);
    }
  }
}

}  // namespace

Json strategic_merge(Json document, const Json& patch, const Schema& schema) {
  if (!patch.is_object()) throw bad_request("a strategic merge patch must be an object");
  merge_object(document, patch, &schema);
  return document;
}

}  // namespace virtset::api
