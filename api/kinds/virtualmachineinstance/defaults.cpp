#include <set>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"
#include "api/kinds/quantity.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "images/reference.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

void attach_all_volumes(Json& spec) {
  Json& disks = spec["domain"]["devices"]["disks"];
  std::set<std::string> attached;
  for (const Json& disk : disks) attached.insert(text(disk["name"]));
  for (const Json& volume : member(spec, "volumes")) {
    if (!attached.contains(text(volume["name"]))) {
      disks.push_back({{"name", volume["name"]}, {"disk", Json::object()}});
    }
  }
  for (Json& disk : disks) {
    if (!disk.contains("disk") && !disk.contains("cdrom")) disk["disk"] = Json::object();
    Json& target = disk[disk.contains("cdrom") ? "cdrom" : "disk"];
    if (text(member(target, "bus")).empty()) target["bus"] = "sata";
    if (disk.contains("cdrom")) {
      target.emplace("readonly", true);
      target.emplace("tray", "closed");
    }
  }
  if (disks.empty()) spec["domain"]["devices"].erase("disks");
}

void set_pull_policies(Json& spec) {
  if (!spec.contains("volumes")) return;
  for (Json& volume : spec["volumes"]) {
    if (!volume.contains("containerDisk")) continue;
    Json& source = volume["containerDisk"];
    if (source.contains("imagePullPolicy")) continue;
    const auto policy = images::default_pull_policy(text(member(source, "image")));
    source["imagePullPolicy"] = policy == images::PullPolicy::always ? "Always" : "IfNotPresent";
  }
}

// KubeVirt: bridge is the default binding of the cluster.
void attach_pod_network(Json& spec) {
  Json& devices = spec["domain"]["devices"];
  const bool none = member(spec, "networks").empty() && member(devices, "interfaces").empty();
  if (!none || !truth(member(devices, "autoattachPodInterface"), true)) return;
  devices["interfaces"] = Json::array({{{"name", "default"}, {"bridge", Json::object()}}});
  spec["networks"] = Json::array({{{"name", "default"}, {"pod", Json::object()}}});
}

void set_memory(Json& domain) {
  if (!member(domain, "memory", "guest").is_null()) return;
  for (const char* source : {"requests", "limits"}) {
    const Json& memory = member(domain, "resources", source, "memory");
    if (memory.is_null()) continue;
    domain["memory"]["guest"] = memory;
    return;
  }
}

void set_cpu(Json& domain) {
  const Json limit = member(domain, "resources", "limits", "cpu");
  if (!limit.is_null() && member(domain, "resources", "requests", "cpu").is_null()) {
    domain["resources"]["requests"]["cpu"] = limit;
  }
  Json& cpu = domain["cpu"];
  const auto count = [&](const char* part) { return integer(member(cpu, part), 0); };
  if (count("sockets") == 0 && count("cores") == 0 && count("threads") == 0) {
    const Json& request = member(domain, "resources", "requests", "cpu");
    const auto wanted = Quantity::read(limit.is_null() ? request : limit);
    cpu["sockets"] = std::max<std::int64_t>(1, wanted ? wanted->value() : 1);
  }
  for (const char* part : {"sockets", "cores", "threads"}) {
    if (count(part) == 0) cpu[part] = 1;
  }
  if (text(member(cpu, "model")).empty()) cpu["model"] = "host-model";
}

}  // namespace

void complete_instance_spec(Json& spec) {
  Json& domain = spec["domain"];
  attach_all_volumes(spec);
  set_pull_policies(spec);
  attach_pod_network(spec);
  set_memory(domain);
  set_cpu(domain);
  if (text(member(domain, "machine", "type")).empty()) domain["machine"]["type"] = "q35";
  if (text(member(domain, "firmware", "uuid")).empty()) domain["firmware"]["uuid"] = new_uuid();
}

}  // namespace virtset::api
