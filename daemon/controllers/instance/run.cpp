#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "daemon/controllers/instance/controller.h"

namespace virtset {

using api::Phase;
using store::Json;

namespace {

// How fast a guest is asked for readiness until it is ready for the first time.
constexpr std::chrono::milliseconds eager_readiness{1'000};
// KubeVirt: added to the initial delay of probes, for the guest to boot.
constexpr std::chrono::seconds liveness_extra_delay{10};

// KubeVirt: persistentVolumeClaimInfo.
Json claim_info(const store::Store& store, const std::string& ns, const std::string& name) {
  Json info{{"claimName", name}};
  const auto claim = store.get({api::core_group, api::claim_kind, ns, name});
  if (!claim) return info;
  const auto document = claim->document();
  info["accessModes"] = api::member(*document, "spec", "accessModes");
  info["volumeMode"] = api::member(*document, "spec", "volumeMode");
  info["requests"] = api::member(*document, "spec", "resources", "requests");
  info["capacity"] = api::member(*document, "status", "capacity");
  return info;
}

// KubeVirt: disks by name, with the device that the guest sees.
Json volume_status(const store::Store& store, const std::string& ns,
                   const api::InstanceSpec& spec) {
  std::map<std::string, Json> volumes;
  std::map<std::string, int> used;
  for (const api::DiskSpec& disk : spec.disks) {
    const std::string prefix = disk.bus == "virtio" ? "vd" : "sd";
    const int index = used[prefix]++;
    Json& volume = volumes[disk.name];
    volume = {{"name", disk.name}};
    volume["target"] = index < 26 ? prefix + static_cast<char>('a' + index) : "";
    if (const auto* source = std::get_if<api::ClaimSource>(&disk.source)) {
      volume["persistentVolumeClaimInfo"] = claim_info(store, ns, source->claim);
    }
  }
  Json list = Json::array();
  for (auto& [name, volume] : volumes) list.push_back(std::move(volume));
  return list;
}

}  // namespace

// The domain is there.
void InstanceController::keep_running(Look& look) {
  Runtime& runtime = look.runtime;
  runtime.disks.reset();
  runtime.images.clear();
  runtime.last_trouble.clear();
  if (runtime.is_dead && !look.domain->process_exited) {
    const auto grace = look.spec().grace_period;
    if (!runtime.stopping_since) runtime.stopping_since = parts_.scheduler.steady_now();
    const auto passed = parts_.scheduler.steady_now() - *runtime.stopping_since;
    stop_domain(look, std::chrono::ceil<api::Scheduler::Duration>(grace - passed));
  }
  const auto now = parts_.scheduler.now();
  const bool first = look.phase() != Phase::running;
  Json status = look.status();
  api::enter_phase(status, Phase::running, now);
  if (first || !status.contains("currentCPUTopology")) {
    const api::InstanceSpec spec = look.spec();
    status["nodeName"] = options_.node_name;
    status["currentCPUTopology"] = {
        {"sockets", spec.sockets}, {"cores", spec.cores}, {"threads", spec.threads}};
    const Json guest = api::member(look.document(), "spec", "domain", "memory", "guest");
    status["memory"] = {{"guestAtBoot", guest}, {"guestCurrent", guest}, {"guestRequested", guest}};
    status["machine"] = {{"type", spec.machine}};
    if (!spec.disks.empty()) {
      status["volumeStatus"] = volume_status(parts_.store, look.key.ns, spec);
    }
  }
  status.erase("startFailure");
  api::remove_condition(status, "Synchronized");
  api::remove_condition(status, "PodScheduled");
  if (!runtime.readiness && !runtime.liveness) run_probes(look, look.spec());
  set_running_conditions(look, status);
  std::function<void()> written;
  if (first) {
    written = [this, object = look.object] {
      parts_.events.record(*object, EventType::normal, "virtset", "Started",
                           "VirtualMachineInstance started.");
    };
  }
  write_status(look, std::move(status), std::move(written));
}

void InstanceController::set_running_conditions(const Look& look, Json& status) const {
  const auto now = parts_.scheduler.now();
  const hypervisor::DomainInfo& info = look.domain->info;
  const bool has_probe = api::member(look.document(), "spec", "readinessProbe").is_object();
  const auto ready = [&](bool value, const char* reason, const char* message) {
    api::set_condition(status, {"Ready", value, reason, message}, now);
  };
  if (look.domain->process_exited) {
    ready(false, api::reason_process_gone, "the QEMU process has ended");
  } else if (info.paused) {
    ready(false, "ReadinessGatesNotReady", "the virtual machine is paused");
  } else if (has_probe && !look.runtime.is_ready) {
    ready(false, "ContainersNotReady", "the readiness probe has not succeeded");
  } else {
    ready(true, "", "");
  }
  const auto paused = info.paused;
  if (paused == hypervisor::PauseReason::user) {
    api::set_condition(status, {"Paused", true, "PausedByUser", "VMI was paused by user"}, now);
  } else if (paused == hypervisor::PauseReason::io_error) {
    api::set_condition(status, {"Paused", true, "PausedIOError", "VMI was paused, IO error"}, now);
  } else {
    api::remove_condition(status, "Paused");
  }
  if (info.agent_connected) {
    api::set_condition(status, {"AgentConnected", true, "", ""}, now);
  } else {
    api::remove_condition(status, "AgentConnected");
  }
  api::set_condition(
      status,
      {"LiveMigratable", false, "HostNotLiveMigratable", "there is no other host to migrate to"},
      now);
}

// Once per run of the daemon and domain.
void InstanceController::run_probes(Look& look, const api::InstanceSpec& spec) {
  const Json& interfaces = api::member(look.status(), "interfaces");
  if ((!spec.readiness && !spec.liveness) || interfaces.empty()) return;
  const std::string address = api::text(api::member(interfaces[0], "ipAddress"));
  const auto since_start =
      look.phase() == Phase::running
          ? parts_.scheduler.now() - api::phase_entered_at(look.document(), Phase::running)
          : std::chrono::system_clock::duration(0);
  const auto delay = [&](std::chrono::seconds initial) {
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::ceil<std::chrono::milliseconds>(initial - since_start));
  };
  Runtime& runtime = look.runtime;
  const store::Key key = look.key;
  if (spec.readiness) {
    runtime.readiness = std::make_unique<Probe>(
        parts_.scheduler, parts_.probes, *spec.readiness, address,
        Probe::Timing{delay(spec.readiness->initial_delay), eager_readiness}, runtime.is_ready,
        [this, key](bool success, const std::string& why) {
          Runtime& probed = runtimes_.at(key);
          probed.is_ready = success;
          const store::ObjectPtr object = parts_.store.get(key);
          if (!success && object) {
            parts_.events.record(*object, EventType::warning, "virtset", "Unhealthy",
                                 "Readiness probe failed: " + why);
          }
          queue_.add(key);
        });
  }
  if (spec.liveness) {
    runtime.liveness = std::make_unique<Probe>(
        parts_.scheduler, parts_.probes, *spec.liveness, address,
        Probe::Timing{delay(spec.liveness->initial_delay + liveness_extra_delay), {}}, true,
        [this, key](bool success, const std::string& why) {
          if (success) return;
          runtimes_.at(key).is_dead = true;
          const store::ObjectPtr object = parts_.store.get(key);
          if (object) {
            parts_.events.record(*object, EventType::warning, "virtset", "Unhealthy",
                                 "Liveness probe failed: " + why + ", the instance is stopped");
          }
          queue_.add(key);
        });
  }
}

}  // namespace virtset
