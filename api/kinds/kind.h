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

  // Brings any object that a user writes into the form in which it is kept, before it is checked.
  virtual void complete(nlohmann::json& /*object*/) const {}
  // Fills in defaults of a new object that depend on other fields.
  virtual void complete_new(nlohmann::json& /*object*/) const {}
  // Checks any object that a user writes, with what the schema found wrong already.
  virtual void validate(const nlohmann::json& /*object*/, FieldErrorList& /*errors*/) const {}
  // Checks that only a new object must pass, after complete_new.
  virtual void validate_new(const nlohmann::json& /*object*/, FieldErrorList& /*errors*/) const {}
  // Checks what a user changes.
  virtual void validate_change(const nlohmann::json& /*from*/, const nlohmann::json& /*to*/,
                               FieldErrorList& /*errors*/) const {}
  // Fills in the answer to a request that is itself an object and is not kept, such as an access
  // review.
  virtual void answer(nlohmann::json& /*object*/) const {}
  // The object as one of the kind's actions leaves it. `instance` is the virtual machine instance
  // of the same name, or null; `options` is the body of the request, or null. Throws ApiError.
  virtual nlohmann::json act(const std::string& /*action*/, nlohmann::json object,
                             const nlohmann::json& /*instance*/,
                             const nlohmann::json& /*options*/) const {
    return object;
  }
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
  std::string absent;  // what an absent field counts as
};

struct ScalePaths {
  nlohmann::json::json_pointer spec_replicas;
  nlohmann::json::json_pointer status_replicas;
  nlohmann::json::json_pointer label_selector;
};

// Verbs of a kind's own, under a group of their own (KubeVirt: subresources.kubevirt.io).
struct Actions {
  std::string group;
  std::vector<std::string> versions;  // the first is preferred
  std::vector<std::string> names;

  // Whether they are found there; never where there are none.
  bool serve(std::string_view group, std::string_view version) const;
};

struct Kind {
  std::string group;                  // empty for the core group
  std::vector<std::string> versions;  // the first is preferred and the one that is stored
  std::string kind;
  std::string plural;
  std::string singular;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  std::vector<std::string> verbs;  // as discovery names them
  bool namespaced = true;
  bool names_are_labels = false;  // without dots and at most 63 characters long
  bool stored = true;             // false: a request that is an object; POST answers it
  bool has_status = false;        // whether the status subresource is served
  // Whether the objects have a desired state whose changes are counted (metadata.generation).
  bool has_generation = true;
  std::optional<ScalePaths> scale;
  Actions actions;
  std::vector<SelectableField> selectable_fields;
  std::vector<Column> columns;  // with the name first, unless declared elsewhere
  SchemaPtr schema;
  nlohmann::json schema_document;  // as declared, for OpenAPI
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
  bool allows(std::string_view verb) const;
  bool has_action(std::string_view name) const;
  // Kubernetes: built-in kinds take strategic merge patches, custom ones do not.
  bool is_built_in() const;
};

// All kinds that this daemon serves. Immutable once made.
class Kinds {
 public:
  Kinds(std::vector<Kind> kinds, nlohmann::json definitions)
      : kinds_(std::move(kinds)), definitions_(std::move(definitions)) {}

  const std::vector<Kind>& all() const { return kinds_; }
  // The schemas that kinds share, as declared.
  const nlohmann::json& definitions() const { return definitions_; }
  // Null if there is none.
  const Kind* find(std::string_view group, std::string_view kind) const;
  const Kind* find_resource(std::string_view group, std::string_view plural) const;

 private:
  std::vector<Kind> kinds_;
  nlohmann::json definitions_;
};

// The kinds declared in this folder.
const Kinds& builtin_kinds();

// Names by which code refers to kinds.
inline constexpr const char* kubevirt_group = "kubevirt.io";
inline constexpr const char* core_group = "";
inline constexpr const char* pool_group = "pool.kubevirt.io";
inline constexpr const char* cdi_group = "cdi.kubevirt.io";
inline constexpr const char* apps_group = "apps";
inline constexpr const char* virtset_group = "virtset.io";
inline constexpr const char* saved_machine_kind = "SavedVirtualMachine";
inline constexpr const char* machine_kind = "VirtualMachine";
inline constexpr const char* pool_kind = "VirtualMachinePool";
inline constexpr const char* claim_kind = "PersistentVolumeClaim";
inline constexpr const char* data_volume_kind = "DataVolume";
inline constexpr const char* controller_revision_kind = "ControllerRevision";
inline constexpr const char* instance_kind = "VirtualMachineInstance";
inline constexpr const char* replica_set_kind = "VirtualMachineInstanceReplicaSet";
inline constexpr const char* namespace_kind = "Namespace";
inline constexpr const char* event_kind = "Event";
inline constexpr const char* node_kind = "Node";
inline constexpr const char* secret_kind = "Secret";
inline constexpr const char* config_map_kind = "ConfigMap";

}  // namespace virtset::api
