#include "api/kinds/virtualmachine/rules.h"

#include <algorithm>
#include <set>

#include "api/kinds/datavolume/rules.h"
#include "api/kinds/json_access.h"
#include "api/kinds/names.h"
#include "api/kinds/virtualmachine/actions.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "images/registry.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

void validate_strategy(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const bool has_running = member(spec, "running").is_boolean();
  const std::string strategy = text(member(spec, "runStrategy"));
  if (has_running && !strategy.empty()) {
    errors.invalid(
        path + ".running",
        "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, "
        "please use RunStrategy instead");
  } else if (!has_running && strategy.empty()) {
    errors.invalid(path + ".running", "RunStrategy must be specified");
  } else if (!has_running && !parse_strategy(strategy)) {
    errors.invalid(path + ".runStrategy",
                   "Invalid RunStrategy (" + strategy +
                       "): must be one of Always, RerunOnFailure, Manual, Halted, Once");
  }
}

// The disks of a virtual machine that it does not use would be made for nothing.
void validate_disk_templates(const Json& spec, const std::string& path, FieldErrorList& errors) {
  std::set<std::string> used;
  for (const Json& volume : member(spec, "template", "spec", "volumes")) {
    used.insert(text(member(volume, "dataVolume", "name")));
    used.insert(text(member(volume, "persistentVolumeClaim", "claimName")));
    used.insert(text(member(volume, "ephemeral", "persistentVolumeClaim", "claimName")));
  }
  std::set<std::string> seen;
  const Json& templates = member(spec, "dataVolumeTemplates");
  for (std::size_t i = 0; i < templates.size(); ++i) {
    const std::string field = item_path(path + ".dataVolumeTemplate", i);
    const std::string name = text(member(templates[i], "metadata", "name"));
    if (const auto wrong = check_subdomain(name)) {
      errors.invalid(field + ".metadata.name", "Invalid value: \"" + name + "\": " + *wrong);
    } else if (!used.contains(name)) {
      errors.required(field, "DataVolumeTemplate entry " + field +
                                 " must be referenced in the VMI template's 'volumes' list");
    }
    validate_data_volume_spec(templates[i]["spec"], field + ".spec", errors);
    if (!seen.insert(name).second) {
      errors.duplicate(field + ".metadata.name",
                       "Duplicate value: \"" + name + "\": an earlier template has this name");
    }
  }
}

class MachineRules final : public KindRules {
 public:
  void complete_new(Json& object) const override {
    complete_machine_spec(object["spec"]);
    Json& finalizers = object["metadata"]["finalizers"];
    const Json ours = machine_finalizer;
    if (std::find(finalizers.begin(), finalizers.end(), ours) == finalizers.end()) {
      finalizers.push_back(ours);
    }
  }

  void validate(const Json& object, FieldErrorList& errors) const override {
    validate_machine_spec(object["spec"], "spec", errors);
  }

  Json act(const std::string& action, Json object, const Json& instance,
           const Json& options) const override {
    return act_on_machine(action, std::move(object), instance, options);
  }
};

}  // namespace

std::shared_ptr<const KindRules> machine_rules() { return std::make_shared<MachineRules>(); }

// The order is KubeVirt's, because only the first ten causes are told.
void validate_machine_spec(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const std::string template_path = path + ".template";
  validate_instance_spec(member(spec, "template", "spec"), template_path + ".spec", errors);
  validate_strategy(spec, path, errors);
  validate_disk_templates(spec, path, errors);
  validate_instance_labels(member(spec, "template", "metadata", "labels"),
                           template_path + ".metadata.labels", errors);
}

std::string template_hash(const Json& machine_spec) {
  constexpr std::size_t length = 16;
  const std::string digest =
      images::sha256_digest(json_text(member(machine_spec, "template", "spec")));
  return digest.substr(digest.find(':') + 1, length);
}

void complete_machine_spec(Json& spec) {
  Json& domain = spec["template"]["spec"]["domain"];
  Json& firmware = domain["firmware"];
  for (const char* field : {"uuid", "serial"}) {
    if (text(member(firmware, field)).empty()) firmware[field] = new_uuid();
  }
  if (text(member(domain, "machine", "type")).empty()) domain["machine"]["type"] = "q35";
}

}  // namespace virtset::api
