#include "api/kinds/admission.h"

#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_annotation_bytes = 256 << 10;

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// Kubernetes: a body may leave out what the path says already.
void check_type(const Kind& kind, Json& object) {
  if (!object.is_object()) {
    throw ApiError(400, "BadRequest", "the body must be one object of kind " + kind.kind);
  }
  const std::string sent_kind = object.contains("kind") && object["kind"].is_string()
                                    ? object["kind"].get<std::string>()
                                    : kind.kind;
  const std::string version = object.contains("apiVersion") && object["apiVersion"].is_string()
                                  ? object["apiVersion"].get<std::string>()
                                  : kind.api_version();
  const auto slash = version.find('/');
  const std::string group = slash == std::string::npos ? "" : version.substr(0, slash);
  const std::string bare = slash == std::string::npos ? version : version.substr(slash + 1);
  if (sent_kind != kind.kind || group != kind.group || !kind.serves(bare)) {
    throw ApiError(400, "BadRequest",
                   "the body is a " + sent_kind + " of " + version + "; this path takes a " +
                       kind.kind + " of " + kind.api_version());
  }
  // Stored in the preferred version; reading gives it in the version of the path.
  object["apiVersion"] = kind.api_version();
  object["kind"] = kind.kind;
}

void check_keys(const Json& map, const std::string& path, bool values, FieldErrorList& errors) {
  if (!map.is_object()) return;
  for (const auto& [key, value] : map.items()) {
    if (const auto wrong = check_label_key(key)) {
      errors.invalid(path, "Invalid value: \"" + key + "\": " + *wrong);
    }
    if (!values || !value.is_string()) continue;
    if (const auto wrong = check_label_value(value.get_ref<const std::string&>())) {
      errors.invalid(path, "Invalid value: " + value.dump() + ": " + *wrong);
    }
  }
}

void check_owners(const Json& owners, FieldErrorList& errors) {
  int controllers = 0;
  for (const Json& owner : owners) controllers += owner.value("controller", false) ? 1 : 0;
  if (controllers > 1) {
    errors.invalid("metadata.ownerReferences",
                   "Invalid value: only one reference can have controller set to true");
  }
}

// Also for the metadata of templates, whose path is longer.
void check_metadata(const Json& metadata, const std::string& path, FieldErrorList& errors) {
  check_keys(member(metadata, "labels"), path + ".labels", true, errors);
  const Json& annotations = member(metadata, "annotations");
  check_keys(annotations, path + ".annotations", false, errors);
  std::size_t bytes = 0;
  if (annotations.is_object()) {
    for (const auto& [key, value] : annotations.items()) {
      if (value.is_string()) bytes += key.size() + value.get_ref<const std::string&>().size();
    }
  }
  if (bytes > most_annotation_bytes) {
    errors.invalid(path + ".annotations", "Too long: must have at most 262144 bytes");
  }
}

void check_name(const Kind& kind, const Json& metadata, FieldErrorList& errors) {
  const auto& check = kind.names_are_labels ? check_label_name : check_subdomain;
  const std::string name = metadata.value("name", "");
  const std::string base = metadata.value("generateName", "");
  if (name.empty() && base.empty()) {
    errors.required("metadata.name", "Required value: name or generateName is required");
  } else if (!name.empty()) {
    if (const auto wrong = check(name)) {
      errors.invalid("metadata.name", "Invalid value: \"" + name + "\": " + *wrong);
    }
  } else if (const auto wrong = check(base + "x")) {
    errors.invalid("metadata.generateName", "Invalid value: \"" + base + "\": " + *wrong);
  }
}

// Kubernetes: eight attempts, and then the client may try again.
std::string free_name(const std::string& base, const Destination& destination) {
  constexpr int attempts = 8;
  std::string name;
  for (int i = 0; i < attempts; ++i) {
    name = generate_name(base);
    if (!destination.is_taken || !destination.is_taken(name)) break;
  }
  return name;
}

// Reports the unknown fields as asked and gives the warnings.
std::vector<std::string> settle_unknown(const Kind& kind, const SchemaFindings& findings,
                                        FieldValidation validation) {
  std::vector<std::string> warnings = findings.warnings;
  if (findings.unknown.empty() || validation == FieldValidation::ignore) return warnings;
  std::vector<std::string> unknown;
  for (const std::string& path : findings.unknown) {
    unknown.push_back("unknown field \"" + path + "\"");
  }
  if (validation == FieldValidation::strict) {
    ApiError error(400, "BadRequest",
                   kind.kind + " in version \"" + kind.versions.front() +
                       "\" cannot be handled as a " + kind.kind +
                       ": strict decoding error: " + joined(unknown));
    for (const std::string& path : findings.unknown) {
      error.causes.push_back({FieldError::Reason::not_supported, path, "unknown field"});
    }
    throw error;
  }
  warnings.insert(warnings.end(), unknown.begin(), unknown.end());
  return warnings;
}

// As its maker calls it.
std::string name_in(const Json& object) {
  const Json& metadata = member(object, "metadata");
  const std::string name = text(member(metadata, "name"));
  return name.empty() ? text(member(metadata, "generateName")) : name;
}

void throw_if_any(const Kind& kind, const std::string& name, const FieldErrorList& errors) {
  if (!errors.empty()) throw invalid(kind, name, errors.all());
}

// Kubernetes: an empty map or list of these is the same as none.
void drop_empty(Json& metadata) {
  for (const char* name : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    const auto it = metadata.find(name);
    if (it != metadata.end() && it->empty()) metadata.erase(it);
  }
  metadata.erase("selfLink");
}

// What every write begins with.
Admitted read_object(const Kind& kind, Json object, FieldValidation validation) {
  check_type(kind, object);
  if (!object.contains("metadata") || object["metadata"].is_null()) {
    object["metadata"] = Json::object();
  }
  SchemaFindings findings;
  kind.schema->apply(object, findings);
  Admitted admitted{{}, settle_unknown(kind, findings, validation)};
  // The rules rely on the shape of everything.
  throw_if_any(kind, name_in(object), findings.errors);
  kind.rules->complete(object);
  admitted.object = std::move(object);
  return admitted;
}

void conflict(const Kind& kind, const std::string& name, const std::string& why) {
  ApiError error(
      409, "Conflict",
      "Operation cannot be fulfilled on " + kind.resource() + " \"" + name + "\": " + why);
  error.subject = ApiError::Subject{kind.group, kind.plural, name, ""};
  throw error;
}

ApiError other_namespace(const std::string& sent, const std::string& ns) {
  return ApiError(
      400, "BadRequest",
      "the namespace of the object (" + sent + ") does not match the one of the path (" + ns + ")");
}

}  // namespace

ApiError invalid(const Kind& kind, const std::string& name, FieldErrors causes) {
  const std::string qualified = kind.group.empty() ? kind.kind : kind.kind + "." + kind.group;
  std::string text;
  constexpr std::size_t most = 10;  // KubeVirt: at most ten causes
  for (std::size_t i = 0; i < causes.size() && i < most; ++i) {
    text += (i ? ", " : "") + causes[i].field + ": " + causes[i].message;
  }
  if (causes.size() > most) {
    text += ", and " + std::to_string(causes.size() - most) + " more validation errors";
    causes.resize(most);
  }
  ApiError error(
      422, "Invalid",
      qualified + " \"" + name + "\" is invalid: " + (causes.size() > 1 ? "[" + text + "]" : text));
  error.subject = ApiError::Subject{kind.group, kind.kind, name, ""};
  error.causes = std::move(causes);
  return error;
}

Admitted admit_new(const Kind& kind, Json object, const Destination& destination,
                   FieldValidation validation, Time now) {
  const std::string& ns = destination.ns;
  if (kind.has_status && object.is_object()) object.erase("status");
  Admitted admitted = read_object(kind, std::move(object), validation);
  object = std::move(admitted.object);
  Json& metadata = object["metadata"];
  const std::string sent_ns = metadata.value("namespace", ns);
  if (sent_ns != ns) throw other_namespace(sent_ns, ns);
  FieldErrorList errors;
  check_name(kind, metadata, errors);
  // Not a generated one: controllers try again, and their events should be the same each time.
  const std::string name = name_in(object);
  throw_if_any(kind, name, errors);
  if (!ns.empty()) metadata["namespace"] = ns;
  if (metadata.value("name", "").empty()) {
    metadata["name"] = free_name(text(metadata["generateName"]), destination);
  }
  check_metadata(metadata, "metadata", errors);
  check_owners(member(metadata, "ownerReferences"), errors);
  kind.rules->complete_new(object);
  kind.rules->validate(object, errors);
  kind.rules->validate_new(object, errors);
  throw_if_any(kind, name, errors);

  metadata["uid"] = new_uuid();
  metadata["creationTimestamp"] = format_time(now);
  metadata.erase("generation");
  if (kind.has_generation) metadata["generation"] = 1;
  metadata.erase("deletionTimestamp");
  metadata.erase("deletionGracePeriodSeconds");
  metadata.erase("resourceVersion");
  drop_empty(metadata);
  admitted.object = std::move(object);
  return admitted;
}

Admitted admit_request(const Kind& kind, Json object, FieldValidation validation) {
  Admitted admitted = read_object(kind, std::move(object), validation);
  FieldErrorList errors;
  kind.rules->validate(admitted.object, errors);
  throw_if_any(kind, name_in(admitted.object), errors);
  return admitted;
}

Admitted admit_change(const Kind& kind, const Json& current, Json next, Part part,
                      FieldValidation validation) {
  const Json& old = current["metadata"];
  const std::string name = old["name"];
  Admitted admitted = read_object(kind, std::move(next), validation);
  next = std::move(admitted.object);
  const std::string version = next["metadata"].value("resourceVersion", "");
  if (!version.empty() && version != old["resourceVersion"]) {
    conflict(
        kind, name,
        "the object has been modified; please apply your changes to the latest version and try "
        "again");
  }
  const std::string uid = next["metadata"].value("uid", "");
  if (!uid.empty() && uid != old["uid"]) {
    conflict(kind, name, "the object of uid " + uid + " has been replaced by another of its name");
  }

  Json& metadata = next["metadata"];
  const std::string ns = old.value("namespace", "");
  if (const std::string sent = metadata.value("namespace", ns); !sent.empty() && sent != ns) {
    throw other_namespace(sent, ns);
  }
  FieldErrorList errors;
  if (const std::string sent = metadata.value("name", name); sent != name) {
    errors.invalid("metadata.name", "Invalid value: \"" + sent + "\": field is immutable");
  }
  check_metadata(metadata, "metadata", errors);
  check_owners(member(metadata, "ownerReferences"), errors);
  // What the server owns.
  for (const char* field :
       {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
        "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"}) {
    if (old.contains(field)) {
      metadata[field] = old[field];
    } else {
      metadata.erase(field);
    }
  }
  drop_empty(metadata);
  Json result;
  if (part == Part::status) {
    result = current;
    if (next["metadata"].contains("managedFields")) {
      result["metadata"]["managedFields"] = std::move(next["metadata"]["managedFields"]);
    }
    if (next.contains("status")) {
      result["status"] = std::move(next["status"]);
    } else {
      result.erase("status");
    }
  } else {
    result = std::move(next);
    if (current.contains("status")) {
      result["status"] = current["status"];
    } else {
      result.erase("status");
    }
    if (old.contains("deletionTimestamp")) {
      const Json& finalizers = member(old, "finalizers");
      for (const Json& finalizer : member(result["metadata"], "finalizers")) {
        if (std::find(finalizers.begin(), finalizers.end(), finalizer) == finalizers.end()) {
          errors.forbidden(
              "metadata.finalizers",
              "Forbidden: no new finalizers can be added if the object is being deleted");
        }
      }
    }
    kind.rules->validate(result, errors);
    kind.rules->validate_change(current, result, errors);
    if (kind.has_generation && member(result, "spec") != member(current, "spec")) {
      result["metadata"]["generation"] = old.value("generation", 1) + 1;
    }
  }
  throw_if_any(kind, name, errors);
  admitted.object = std::move(result);
  return admitted;
}

}  // namespace virtset::api
