#include "daemon/controllers/node/status.h"

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/rest/version.h"

namespace virtset {

namespace {

using Json = nlohmann::json;

// kubelet: evicts when less is available. It ends at more, so that it does not come and go.
constexpr std::uint64_t memory_pressure_begins = 100ull << 20;
constexpr std::uint64_t memory_pressure_ends = 200ull << 20;
// KubeVirt: so many virtual machines may use KVM.
constexpr const char* kvm_devices = "1k";

std::string kibibytes(std::uint64_t bytes) { return std::to_string(bytes >> 10) + "Ki"; }

// Not as api::set_condition does it for instances: here the time moves with the status alone, and
// there is no heartbeat apart from that.
void set_condition(Json& status, const std::string& type, bool holds, const std::string& reason,
                   const std::string& message, api::Time now) {
  const char* value = holds ? "True" : "False";
  Json& conditions = status["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  Json* condition = nullptr;
  for (Json& existing : conditions) {
    if (api::text(api::member(existing, "type")) == type) condition = &existing;
  }
  if (!condition) condition = &conditions.emplace_back(Json{{"type", type}});
  if (api::text(api::member(*condition, "status")) != value) {
    (*condition)["status"] = value;
    (*condition)["lastTransitionTime"] = api::format_time(now);
    (*condition)["lastHeartbeatTime"] = (*condition)["lastTransitionTime"];
  }
  (*condition)["reason"] = reason;
  (*condition)["message"] = message;
}

void set_pressures(Json& status, const NodeFacts& facts, api::Time now) {
  if (facts.host.memory > 0) {
    const bool already = api::condition_is_true(status, "MemoryPressure");
    const auto enough = already ? memory_pressure_ends : memory_pressure_begins;
    const bool pressed = facts.host.available_memory < enough;
    set_condition(status, "MemoryPressure", pressed,
                  pressed ? "HostHasInsufficientMemory" : "HostHasSufficientMemory",
                  pressed ? "less than 100 MiB of the host's memory were available; ends at 200 MiB"
                          : "at least 100 MiB of the host's memory are available",
                  now);
  }
  if (facts.host.disk > 0) {
    const bool already = api::condition_is_true(status, "DiskPressure");
    const std::string high = std::to_string(facts.disk_high_water);
    const std::string low = std::to_string(facts.disk_low_water);
    const bool pressed = already ? facts.host.disk_used_percent > facts.disk_low_water
                                 : facts.host.disk_used_percent >= facts.disk_high_water;
    set_condition(
        status, "DiskPressure", pressed, pressed ? "HostHasDiskPressure" : "HostHasNoDiskPressure",
        pressed ? "images and disks filled their file system to " + high + " %; ends at " + low +
                      " %. Unused images are removed"
                : "the file system of images and disks is filled to less than " + high + " %",
        now);
  }
}

void set_conditions(Json& status, const NodeFacts& facts, api::Time now) {
  if (facts.network) {
    const bool there = facts.network->good;
    set_condition(status, "NetworkUnavailable", !there,
                  there ? "PodNetworkIsThere" : "PodNetworkIsMissing", facts.network->message, now);
  }
  set_pressures(status, facts, now);
  if (facts.hypervisor) {
    const bool answers = facts.hypervisor->good;
    set_condition(status, "Ready", answers, answers ? "LibvirtConnected" : "LibvirtUnreachable",
                  facts.hypervisor->message, now);
  }
}

void set_resources(Json& status, const NodeFacts& facts) {
  const HostState& host = facts.host;
  Json all{{"cpu", std::to_string(host.cpus)},
           // One that has no interface needs no address, but most have one.
           {"pods", std::to_string(facts.pod_addresses)},
           {"devices.kubevirt.io/kvm", facts.emulated ? "0" : kvm_devices}};
  if (host.memory > 0) all["memory"] = kibibytes(host.memory);
  if (host.disk > 0) all["ephemeral-storage"] = std::to_string(host.disk);
  status["capacity"].update(all);
  if (facts.guest_memory > 0) all["memory"] = kibibytes(facts.guest_memory);
  status["allocatable"].update(all);
}

void set_address(Json& status, const std::string& type, const std::string& value) {
  Json& addresses = status["addresses"];
  if (!addresses.is_array()) addresses = Json::array();
  for (Json& address : addresses) {
    if (api::text(api::member(address, "type")) != type) continue;
    address["address"] = value;
    return;
  }
  addresses.push_back({{"type", type}, {"address", value}});
}

void set_info(Json& info, const NodeFacts& facts) {
  const HostState& host = facts.host;
  const std::string version = api::version_document().at("gitVersion");
  info.update({{"machineID", host.machine_id},
               {"systemUUID", host.system_uuid},
               {"bootID", host.boot_id},
               {"kernelVersion", host.kernel},
               {"osImage", host.os_image},
               {"operatingSystem", "linux"},
               {"architecture", host.architecture},
               {"kubeletVersion", version},
               {"kubeProxyVersion", version}});
  if (!facts.versions) return;
  const hypervisor::Versions& runs = *facts.versions;
  info["containerRuntimeVersion"] =
      "libvirt://" + runs.libvirt + "+" + runs.driver + "-" + runs.driver_version;
}

}  // namespace

void bring_up_to_date(Json& node, const NodeFacts& facts, api::Time now) {
  Json& labels = node["metadata"]["labels"];
  labels["kubernetes.io/hostname"] = facts.name;
  labels["kubernetes.io/os"] = "linux";
  labels["kubernetes.io/arch"] = facts.host.architecture;
  Json& schedulable = labels["kubevirt.io/schedulable"];
  if (facts.hypervisor || schedulable.is_null()) {
    schedulable = facts.hypervisor && facts.hypervisor->good ? "true" : "false";
  }
  node["spec"]["podCIDR"] = facts.pod_network;
  node["spec"]["podCIDRs"] = Json::array({facts.pod_network});
  Json& status = node["status"];
  set_resources(status, facts);
  if (!facts.host.address.empty()) set_address(status, "InternalIP", facts.host.address);
  set_address(status, "Hostname", facts.host.host_name);
  set_conditions(status, facts, now);
  set_info(status["nodeInfo"], facts);
}

}  // namespace virtset
