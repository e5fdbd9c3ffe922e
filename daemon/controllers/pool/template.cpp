#include "daemon/controllers/pool/template.h"

#include <charconv>
#include <set>

#include "api/kinds/json_access.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/annotations.h"

namespace virtset {

using Json = nlohmann::json;

namespace {

// Where a volume names another object, and what decides whether that name gets the index.
enum class Scope { config_maps, secrets, own_disks };
struct Reference {
  const char* path;  // from the volume
  Scope scope;
};
// KubeVirt's list. Not in it: sysprep, access credentials, pull secrets.
constexpr Reference references[] = {
    {"/configMap/name", Scope::config_maps},
    {"/secret/secretName", Scope::secrets},
    {"/cloudInitNoCloud/secretRef/name", Scope::secrets},
    {"/cloudInitNoCloud/networkDataSecretRef/name", Scope::secrets},
    {"/cloudInitConfigDrive/secretRef/name", Scope::secrets},
    {"/cloudInitConfigDrive/networkDataSecretRef/name", Scope::secrets},
    {"/dataVolume/name", Scope::own_disks},
    {"/persistentVolumeClaim/claimName", Scope::own_disks},
    // KubeVirt leaves this one alone, which makes it name a claim that nobody has.
    {"/ephemeral/persistentVolumeClaim/claimName", Scope::own_disks},
};

void add_index(Json& spec, const Json& generation, const std::string& suffix) {
  std::set<std::string> own_disks;
  if (spec.contains("dataVolumeTemplates")) {
    for (Json& disk : spec["dataVolumeTemplates"]) {
      Json& name = disk["metadata"]["name"];
      own_disks.insert(api::text(name));
      name = api::text(name) + suffix;
    }
  }
  const auto concerned = [&](Scope scope, const std::string& name) {
    switch (scope) {
      case Scope::config_maps:
        return api::truth(api::member(generation, "appendIndexToConfigMapRefs"));
      case Scope::secrets:
        return api::truth(api::member(generation, "appendIndexToSecretRefs"));
      case Scope::own_disks:
        return own_disks.contains(name);
    }
    return false;
  };
  if (!api::member(spec, "template", "spec").contains("volumes")) return;
  for (Json& volume : spec["template"]["spec"]["volumes"]) {
    for (const Reference& reference : references) {
      const Json::json_pointer path(reference.path);
      if (!volume.contains(path)) continue;
      const std::string name = api::text(volume[path]);
      if (concerned(reference.scope, name)) volume[path] = name + suffix;
    }
  }
}

// What is noted on one machine says nothing about the others, though somebody copied it from there.
void drop_notes(Json& metadata) {
  if (!metadata.contains("annotations")) return;
  Json& annotations = metadata["annotations"];
  for (const char* name :
       {surge_annotation, preservation_annotation, api::save_annotation, api::restore_annotation}) {
    annotations.erase(name);
  }
  if (annotations.empty()) metadata.erase("annotations");
}

// Keys that neither template speaks of are somebody else's.
Json merged(const Json& current, const Json& before, Json next) {
  if (next.is_null()) next = Json::object();
  for (const auto& [key, value] : current.items()) {
    if (!before.contains(key) && !next.contains(key)) next[key] = value;
  }
  return next;
}

// Start and stop write the run strategy; a template that still says the same does not undo that.
// What it said is not always known: then nobody is started or stopped by mistake.
void keep_run_strategy(const Json& machine, const Json& before, Json& next) {
  const api::RunStrategy now = api::strategy_of(machine);
  const api::RunStrategy was = api::strategy_of(before);
  const api::RunStrategy wanted = api::strategy_of(next);
  if (now != wanted && (before.is_null() || wanted == was)) {
    api::set_strategy(next, now);
  }
}

// What was given to it at its creation.
void keep_identity(const Json& machine, Json& next) {
  const Json& domain = api::member(machine, "template", "spec", "domain");
  Json& next_domain = next["template"]["spec"]["domain"];
  const Json& firmware = api::member(domain, "firmware");
  for (const char* field : {"uuid", "serial"}) {
    if (firmware.contains(field)) next_domain["firmware"][field] = firmware[field];
  }
  if (!api::member(next_domain, "machine").contains("type") &&
      api::member(domain, "machine").contains("type")) {
    next_domain["machine"]["type"] = domain["machine"]["type"];
  }
}

}  // namespace

Json indexed_template(const Json& pool_spec, int index) {
  const Json& source = api::member(pool_spec, "virtualMachineTemplate");
  Json result{{"metadata", Json::object()}, {"spec", api::member(source, "spec")}};
  for (const char* field : {"labels", "annotations"}) {
    const Json& values = api::member(source, "metadata", field);
    if (!values.empty()) result["metadata"][field] = values;
  }
  drop_notes(result["metadata"]);
  if (api::member(result["spec"], "template").contains("metadata")) {
    drop_notes(result["spec"]["template"]["metadata"]);
  }
  add_index(result["spec"], api::member(pool_spec, "nameGeneration"), "-" + std::to_string(index));
  return result;
}

void stamp_revision(Json& machine_template, const std::string& revision) {
  machine_template["metadata"]["labels"][api::pool_revision_label] = revision;
  machine_template["spec"]["template"]["metadata"]["labels"][api::pool_revision_label] = revision;
}

Json with_template(Json machine, const Json& before, Json next) {
  for (const char* field : {"labels", "annotations"}) {
    Json result =
        merged(api::member(machine, "metadata", field), api::member(before, "metadata", field),
               api::member(next, "metadata", field));
    if (result.empty()) {
      machine["metadata"].erase(field);
    } else {
      machine["metadata"][field] = std::move(result);
    }
  }
  Json& spec = next["spec"];
  keep_run_strategy(machine["spec"], api::member(before, "spec"), spec);
  keep_identity(machine["spec"], spec);
  machine["spec"] = std::move(spec);
  return machine;
}

int index_of(const std::string& name) {
  const auto dash = name.rfind('-');
  if (dash == std::string::npos) return 0;
  int index = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + dash + 1, end, index);
  return error == std::errc() && stop == end ? index : 0;
}

}  // namespace virtset
