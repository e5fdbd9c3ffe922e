#include "api/rest/apply/managed_fields.h"

#include <algorithm>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Manager = ManagedFields::Manager;
using Operation = ManagedFields::Manager::Operation;

ApiError malformed(std::size_t index, const std::string& what) {
  return ApiError(400, "BadRequest",
                  "metadata.managedFields[" + std::to_string(index) + "]: " + what);
}

std::string read_text(const Json& json, std::size_t index, const char* name, std::size_t most) {
  const Json& value = member(json, name);
  if (!value.is_null() && !value.is_string()) {
    throw malformed(index, std::string(name) + " must be a string");
  }
  std::string read = text(value);
  if (read.size() > most) throw malformed(index, std::string(name) + " is too long");
  return read;
}

std::pair<Manager, ManagedFields::Entry> read_entry(const Json& json, std::size_t index) {
  if (!json.is_object()) throw malformed(index, "must be an object");
  // Kubernetes: ValidateManagedFields.
  constexpr std::size_t longest_manager = 128, longest_subresource = 256, longest_version = 256;
  Manager manager;
  ManagedFields::Entry entry;
  manager.name = read_text(json, index, "manager", longest_manager);
  manager.subresource = read_text(json, index, "subresource", longest_subresource);
  entry.api_version = read_text(json, index, "apiVersion", longest_version);
  if (entry.api_version.empty()) throw malformed(index, "apiVersion must not be empty");
  const Json& operation = member(json, "operation");
  if (operation == "Update") {
    manager.operation = Operation::update;
    manager.api_version = entry.api_version;
  } else if (operation != "Apply") {
    throw malformed(index, "operation must be `Apply` or `Update`");
  }
  if (member(json, "fieldsType") != "FieldsV1") {
    throw malformed(index, "fieldsType must be FieldsV1");
  }
  if (const Json& time = member(json, "time"); !time.is_null()) {
    entry.time = parse_time(text(time));
    if (!entry.time) throw malformed(index, "time must be one such as 2026-01-02T15:04:05Z");
  }
  entry.fields = FieldSet::parse(member(json, "fieldsV1"));
  return {std::move(manager), std::move(entry)};
}

std::int64_t seconds(const std::optional<Time>& time) {
  if (!time) return 0;
  return std::chrono::floor<std::chrono::seconds>(time->time_since_epoch()).count();
}

Json to_json(const Manager& manager, const ManagedFields::Entry& entry) {
  Json json{{"manager", manager.name},
            {"operation", manager.operation == Operation::apply ? "Apply" : "Update"},
            {"apiVersion", entry.api_version},
            {"fieldsType", "FieldsV1"},
            {"fieldsV1", entry.fields.to_json()}};
  if (entry.time) json["time"] = format_time(*entry.time);
  if (!manager.subresource.empty()) json["subresource"] = manager.subresource;
  return json;
}

std::string quoted(const std::string& text) { return json_text(text); }

}  // namespace

// Kubernetes: the time and the version of an application are not part of what names a manager.
std::string Manager::text() const {
  std::string text = quoted(name);
  if (!subresource.empty()) text += " with subresource " + quoted(subresource);
  if (operation == Operation::update) text += " using " + api_version;
  return text;
}

ManagedFields ManagedFields::parse(const Json& list) {
  ManagedFields managed;
  if (list.is_null()) return managed;
  if (!list.is_array()) {
    throw ApiError(400, "BadRequest", "metadata.managedFields must be a list");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto [manager, entry] = read_entry(list[i], i);
    managed.entries.insert_or_assign(std::move(manager), std::move(entry));
  }
  return managed;
}

Json ManagedFields::to_json() const {
  std::vector<const std::pair<const Manager, Entry>*> sorted;
  for (const auto& item : entries) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    const auto key = [](const auto& item) {
      return std::tuple(
          item.first.operation, seconds(item.second.time), std::string_view(item.first.name),
          std::string_view(item.second.api_version), std::string_view(item.first.subresource));
    };
    return key(*a) < key(*b);
  });
  Json list = Json::array();
  for (const auto* item : sorted) list.push_back(api::to_json(item->first, item->second));
  return list;
}

void ManagedFields::drop_empty() {
  std::erase_if(entries, [](const auto& item) { return item.second.fields.empty(); });
}

// Kubernetes: capUpdateManagers. One entry for each version: sets of different versions cannot be
// merged.
void ManagedFields::cap_updates() {
  constexpr std::size_t most = 10;
  std::vector<Manager> updaters;
  for (const auto& [manager, entry] : entries) {
    if (manager.operation == Operation::update) updaters.push_back(manager);
  }
  if (updaters.size() <= most) return;
  std::stable_sort(updaters.begin(), updaters.end(), [&](const Manager& a, const Manager& b) {
    return seconds(entries.at(a).time) < seconds(entries.at(b).time);
  });
  std::size_t count = updaters.size();
  std::map<std::string, std::vector<Manager>> oldest;  // by version
  for (const Manager& manager : updaters) {
    if (count <= most) break;
    std::vector<Manager>& managers = oldest[manager.api_version];
    if (!managers.empty()) --count;
    managers.push_back(manager);
  }
  for (auto& [version, managers] : oldest) {
    if (managers.size() < 2) continue;
    const Manager ancient{"ancient-changes", Operation::update, version, ""};
    Entry merged{{}, version, entries.at(managers.back()).time};
    if (entries.contains(ancient) &&
        std::find(managers.begin(), managers.end(), ancient) == managers.end()) {
      managers.push_back(ancient);
    }
    std::vector<FieldSet> sets;
    for (const Manager& manager : managers) {
      sets.push_back(std::move(entries.at(manager).fields));
      entries.erase(manager);
    }
    merged.fields = FieldSet::unite_all(std::move(sets));
    entries.emplace(ancient, std::move(merged));
  }
}

// Kubernetes: NewConflictError.
void throw_conflict(const std::vector<OwnershipConflict>& conflicts) {
  std::string message;
  FieldErrors causes;
  for (const OwnershipConflict& conflict : conflicts) {
    const std::string manager = conflict.manager.text();
    message += (message.empty() ? "conflicts with " : "\nconflicts with ") + manager + ":";
    for (std::string& path : conflict.fields.paths()) {
      message += "\n- " + path;
      causes.push_back({FieldError::Reason::field_manager_conflict, std::move(path),
                        "conflict with " + manager});
    }
  }
  ApiError error(
      409, "Conflict",
      causes.size() == 1
          ? "Apply failed with 1 conflict: " + causes[0].message + ": " + causes[0].field
          : "Apply failed with " + std::to_string(causes.size()) + " conflicts: " + message);
  error.causes = std::move(causes);
  throw error;
}

}  // namespace virtset::api
