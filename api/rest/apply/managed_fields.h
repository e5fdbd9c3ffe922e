// metadata.managedFields: who owns which field.
//
// Kubernetes: k8s.io/apimachinery/pkg/util/managedfields/internal.
#pragma once

#include <nlohmann/json.hpp>

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/times.h"
#include "api/rest/apply/field_set.h"

namespace virtset::api {

struct ManagedFields {
  // What tells entries apart.
  struct Manager {
    enum class Operation { apply, update };
    std::string name;
    Operation operation = Operation::apply;
    std::string api_version;  // empty for apply: one application replaces that of another version
    std::string subresource;

    auto operator<=>(const Manager&) const = default;
    // As messages name it: "kubectl" with subresource "scale" using v1.
    std::string text() const;
  };
  struct Entry {
    FieldSet fields;
    std::string api_version;
    std::optional<Time> time;  // of the last change that the manager made
  };

  std::map<Manager, Entry> entries;

  // Reads the list of an object; null is an empty one. Throws ApiError 400.
  static ManagedFields parse(const nlohmann::json& list);
  // In the order of Kubernetes: by operation, time, manager, version, subresource.
  nlohmann::json to_json() const;

  bool empty() const { return entries.empty(); }
  void drop_empty();
  // Merges the oldest of more than ten that updated into one entry, "ancient-changes".
  void cap_updates();
};

// What another manager loses to a change.
struct OwnershipConflict {
  ManagedFields::Manager manager;
  FieldSet fields;
};

// Throws ApiError 409 with a cause for each field.
[[noreturn]] void throw_conflict(const std::vector<OwnershipConflict>& conflicts);

}  // namespace virtset::api
