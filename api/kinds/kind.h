// An object type of the API: its declaration as data, and the rules that a declaration cannot say.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/field_error.h"
#include "api/kinds/json_path.h"
#include "api/kinds/schema.h"

namespace virtset::api {

// What a schema cannot say about a kind. Stateless; the default is that there is nothing to say.
class KindRules {
 public:
  virtual ~KindRules() = default;

  // Fills in defaults of a new object that depend on other fields.
  virtual void complete_new(nlohmann::json& /*object*/) const {}
  // Checks any object that a user writes, with what the schema found wrong already.
  virtual void validate(const nlohmann::json& /*object*/, FieldErrorList& /*errors*/) const {}
  // Checks that only a new object must pass, after complete_new.
  virtual void validate_new(const nlohmann::json& /*object*/, FieldErrorList& /*errors*/) const {}
  // Checks what a user changes.
  virtual void validate_change(const nlohmann::json& /*from*/, const nlohmann::json& /*to*/,
                               FieldErrorList& /*errors*/) const {}
  // Why an object may not be deleted by a user, or nothing.
  virtual std::optional<std::string> refuses_deletion(const nlohmann::json& /*object*/) const {
    return std::nullopt;
  }
  // A cell of a table that is more than a path can say.
  virtual std::optional<nlohmann::json> cell(const std::string& /*column*/,
                                             const nlohmann::json& /*object*/) const {
    return std::nullopt;
  }
};

struct Column {
  std::string name;
  std::string type;
  std::string format;
  std::string description;
  int priority = 0;     // above 0: only in wide output
  bool is_age = false;  // a time, shown as how long ago it was
  JsonPath path;
};

// A field by which lists and watches can be filtered, besides metadata.name and metadata.namespace.
struct SelectableField {
  std::string label;  // as the selector names it, e.g. "involvedObject.uid"
  JsonPath path;
};

struct ScalePaths {
  nlohmann::json::json_pointer spec_replicas;
  nlohmann::json::json_pointer status_replicas;
  nlohmann::json::json_pointer label_selector;
};

struct Kind {
  std::string group;                  // empty for the core group
  std::vector<std::string> versions;  // the first is preferred and the one that is stored
  std::string kind;
  std::string plural;
  std::string singular;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  bool namespaced = true;
  bool has_status = false;  // whether the status subresource is served
  std::optional<ScalePaths> scale;
  std::vector<SelectableField> selectable_fields;
  std::vector<Column> columns;  // with the name first, unless declared elsewhere
  SchemaPtr schema;
  std::shared_ptr<const KindRules> rules;

  // Reads a declaration in YAML. Throws std::invalid_argument: declarations are our own.
  static Kind load(std::string_view declaration, const nlohmann::json& definitions,
                   std::shared_ptr<const KindRules> rules);

  // "kubevirt.io/v1", or "v1" for the core group.
  std::string api_version(const std::string& version) const {
    return group.empty() ? version : group + "/" + version;
  }
  std::string api_version() const { return api_version(versions.front()); }
  // "virtualmachineinstances.kubevirt.io", as error messages name it.
  std::string resource() const { return group.empty() ? plural : plural + "." + group; }
  bool serves(std::string_view version) const;
};

// All kinds that this daemon serves. Immutable once made.
class Kinds {
 public:
  explicit Kinds(std::vector<Kind> kinds) : kinds_(std::move(kinds)) {}

  const std::vector<Kind>& all() const { return kinds_; }
  // Null if there is none.
  const Kind* find(std::string_view group, std::string_view kind) const;
  const Kind* find_resource(std::string_view group, std::string_view plural) const;

 private:
  std::vector<Kind> kinds_;
};

// The kinds declared in this folder.
const Kinds& builtin_kinds();

// Names by which code refers to kinds.
inline constexpr const char* kubevirt_group = "kubevirt.io";
inline constexpr const char* core_group = "";
inline constexpr const char* instance_kind = "VirtualMachineInstance";
inline constexpr const char* replica_set_kind = "VirtualMachineInstanceReplicaSet";
inline constexpr const char* namespace_kind = "Namespace";
inline constexpr const char* event_kind = "Event";

}  // namespace virtset::api
