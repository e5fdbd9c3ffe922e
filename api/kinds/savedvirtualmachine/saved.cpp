#include "api/kinds/savedvirtualmachine/saved.h"

#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachine/rules.h"
#include "api/kinds/virtualmachineinstance/status.h"

namespace virtset::api {

using Json = nlohmann::json;

std::string saved_template_hash(const Json& machine_spec) {
  Json spec = machine_spec;
  Json& firmware = spec["template"]["spec"]["domain"]["firmware"];
  if (firmware.is_object()) {
    firmware.erase("uuid");
    firmware.erase("serial");
  }
  return template_hash(spec);
}

namespace {

Json claims_of(const Json& machine_spec) {
  Json claims = Json::array();
  for (const Json& volume : member(machine_spec, "template", "spec", "volumes")) {
    for (const Json* name : {&member(volume, "dataVolume", "name"),
                             &member(volume, "persistentVolumeClaim", "claimName"),
                             &member(volume, "ephemeral", "persistentVolumeClaim", "claimName")}) {
      if (name->is_string()) claims.push_back(*name);
    }
  }
  return claims;
}

}  // namespace

Json saved_machine(const Json& machine, const Json& instance, const Json& owner, bool with_memory) {
  const Json& spec = machine["spec"];
  const Json& metadata = machine["metadata"];
  // The machine's status may not have them yet.
  Json interfaces = addresses_of(member(instance, "status"));
  if (interfaces.empty()) interfaces = addresses_of(member(machine, "status"));
  const bool as_template = annotation(instance, template_annotation) == template_hash(spec);
  return {{"metadata",
           {{"name", metadata["name"]},
            {"finalizers", {saved_machine_finalizer}},
            {"ownerReferences", Json::array({owner})}}},
          {"spec",
           {{"virtualMachineUID", metadata["uid"]},
            {"memory", with_memory && as_template},
            {"templateHash", saved_template_hash(spec)},
            {"claims", claims_of(spec)},
            {"firmware", member(spec, "template", "spec", "domain", "firmware")},
            {"interfaces", std::move(interfaces)}}}};
}

bool holds_claims(const Json& saved) {
  const bool looked = member(saved, "status").contains("phase");
  return truth(member(saved, "spec", "memory")) &&
         (!looked || integer(member(saved, "status", "memoryBytes"), 0) > 0);
}

void restore_machine(Json& machine, const Json& saved) {
  const Json& firmware = member(saved, "spec", "firmware");
  for (const char* field : {"uuid", "serial"}) {
    if (firmware.contains(field)) {
      machine["spec"]["template"]["spec"]["domain"]["firmware"][field] = firmware[field];
    }
  }
  Json complete = machine["spec"];
  complete_machine_spec(complete);
  if (saved_template_hash(complete) == text(member(saved, "spec", "templateHash"))) {
    machine["metadata"]["annotations"][restore_annotation] = saved["metadata"]["uid"];
  }
}

}  // namespace virtset::api
