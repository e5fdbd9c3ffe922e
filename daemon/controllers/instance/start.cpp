#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "daemon/back_off.h"
#include "daemon/controllers/instance/controller.h"
#include "images/registry.h"

namespace virtset {

using api::Phase;
using store::Json;

namespace {

// What kept it Pending does so no more.
void enter_scheduling(Json& status, api::Time now) {
  api::enter_phase(status, Phase::scheduling, now);
  api::remove_condition(status, "PodScheduled");
}

ImagePuller::Wanted wanted_image(const api::ContainerDiskSource& source) {
  return {source.image, images::parse_pull_policy(source.pull_policy, source.image), source.path};
}

}  // namespace

// Neither final nor being deleted: what is the next step towards a running domain?
void InstanceController::go_forward(Look& look) {
  if (look.domain) {
    keep_running(look);
    return;
  }
  const bool started = look.phase() == Phase::scheduled || look.phase() == Phase::running;
  if (const auto end = parts_.domains.end_of(look.runtime.uuid); end && started) {
    finish(look, *end);
    return;
  }
  if (look.phase() == Phase::running) {
    // Gone while nobody looked. Without the hypervisor nobody can know.
    if (parts_.domains.synced()) finish(look, {.unseen = true});
    return;
  }
  if (look.runtime.start_ordered) {
    // Its event is on the way, unless a list that is newer than the start does not have it.
    if (!parts_.domains.synced() || parts_.domains.generation() <= look.runtime.believe_from)
      return;
    look.runtime.start_ordered = false;
    look.runtime.disks.reset();
  }
  prepare_and_start(look);
}

void InstanceController::prepare_and_start(Look& look) {
  if (!parts_.domains.synced()) {
    report_waiting(
        look, {"Synchronized", false, "HypervisorUnavailable", parts_.domains.why_not_synced()},
        true);
    return;
  }
  // A start whose outcome is not known yet must not be ordered again.
  if (parts_.domains.generation() < look.runtime.believe_from) return;
  // From here on it is known that there is no domain.
  if (!may_leave_pending(look) || !may_try_again(look)) return;
  const api::InstanceSpec spec = look.spec();
  if (!look.runtime.disks && !has_volumes(look, spec)) return;
  if (!has_slot(look, spec) || !has_images(look, spec) || !has_addresses(look, spec)) return;
  if (!turns_.take(look.key)) return;
  if (!look.runtime.disks && !make_disks(look, spec)) return;
  // Durable before the start is ordered: see the top of controller.h.
  Json status = scheduled_status(look, spec);
  if (status != look.status()) {
    write_status(look, std::move(status));
    return;
  }
  order_start(look, spec);
}

// Kubernetes: cordoning keeps new ones from being scheduled; those that are go on.
bool InstanceController::may_leave_pending(Look& look) {
  if (!cordoned_ || look.phase() != Phase::pending) return true;
  report_waiting(
      look,
      {"PodScheduled", false, "Unschedulable",
       "the node is cordoned (kubectl uncordon " + options_.node_name + " lets it start)"},
      true);
  return false;
}

bool InstanceController::may_try_again(Look& look) {
  const Json& failure = api::member(look.status(), "startFailure");
  // An image has its own back-off, in the puller.
  if (failure.contains("image")) return true;
  const auto left = wait_left(api::member(failure, "retryAfterTimestamp"), parts_.scheduler.now(),
                              options_.longest_back_off);
  if (left) queue_.add_after(look.key, *left);
  return !left;
}

// The promise that a set never has more active domains than replicas is kept here.
bool InstanceController::has_slot(Look& look, const api::InstanceSpec& spec) {
  const auto refusal = slots_.take({look.key, look.runtime.set, limit_of_set(look.document()),
                                    spec.memory_request_bytes + options_.memory_overhead});
  if (!refusal) return true;
  report_waiting(look,
                 {"PodScheduled", false,
                  refusal->set_is_full ? "WaitingForReplica" : "Unschedulable", refusal->message},
                 !refusal->set_is_full);
  return false;
}

std::optional<std::int64_t> InstanceController::limit_of_set(const Json& instance) const {
  const Json& owner = api::controller_of(instance);
  if (api::text(api::member(owner, "kind")) != api::replica_set_kind) return std::nullopt;
  const auto set = parts_.store.get({api::kubevirt_group, api::replica_set_kind,
                                     api::text(api::member(instance, "metadata", "namespace")),
                                     api::text(api::member(owner, "name"))});
  if (!set || set->uid() != api::text(api::member(owner, "uid"))) return std::nullopt;
  return api::integer(api::member(*set->document(), "spec", "replicas"), 1);
}

bool InstanceController::has_images(Look& look, const api::InstanceSpec& spec) {
  bool all = true;
  for (const api::DiskSpec& disk : spec.disks) {
    const auto* source = std::get_if<api::ContainerDiskSource>(&disk.source);
    if (!source || look.runtime.disks || look.runtime.images.contains(disk.name)) continue;
    const ImagePuller::Answer answer = puller_.need(look.key, wanted_image(*source));
    if (answer.disk) {
      look.runtime.images[disk.name] = *answer.disk;
      continue;
    }
    all = false;
    Json status = look.status();
    if (answer.failure) {
      const auto& failure = *answer.failure;
      enter_scheduling(status, parts_.scheduler.now());
      status["startFailure"] = {{"consecutiveFailCount", failure.failures},
                                {"retryAfterTimestamp", api::format_time(failure.retry_at)},
                                {"image", source->image},
                                {"message", failure.message}};
      api::set_condition(status, {"Synchronized", false, failure.reason, failure.message},
                         parts_.scheduler.now());
      const std::string trouble = failure.reason + std::to_string(failure.failures);
      if (look.runtime.last_trouble != trouble) {
        record(look, EventType::warning, failure.reason, failure.message);
      }
      look.runtime.last_trouble = trouble;
      write_status(look, std::move(status));
      return false;
    }
    if (answer.takes_long && look.phase() == Phase::pending) {
      enter_scheduling(status, parts_.scheduler.now());
      record(look, EventType::normal, "Pulling", "Pulling image \"" + source->image + "\"");
      write_status(look, std::move(status));
      return false;
    }
  }
  return all;
}

bool InstanceController::has_addresses(Look& look, const api::InstanceSpec& spec) {
  if (spec.interfaces.empty()) return true;
  if (!parts_.network.ready()) {
    report_waiting(look, {"Synchronized", false, "NetworkNotReady", parts_.network.why_not_ready()},
                   true);
    return false;
  }
  AddressPool& addresses = parts_.network.addresses();
  for (const api::InterfaceSpec& interface : spec.interfaces) {
    const std::string owner = lease_prefix(look.key) + interface.name;
    if (addresses.lease(owner, interface.mac)) continue;
    const bool taken = !interface.mac.empty() && !addresses.owner_of(interface.mac).empty();
    report_failure(look, "FailedAddress",
                   taken
                       ? "the MAC address " + interface.mac + " is in use by another instance"
                       : "the pod network has no free address; make it larger with --network-cidr");
    return false;
  }
  return true;
}

// Under which there may be the memory that it is to go on from; empty: it boots.
std::string InstanceController::restore_key(const Look& look) const {
  return kept_state(look, api::restore_annotation);
}

// The status of an instance whose disks and addresses are there.
Json InstanceController::scheduled_status(const Look& look, const api::InstanceSpec& spec) const {
  const auto now = parts_.scheduler.now();
  Json status = look.status();
  api::enter_phase(
      status, Phase::pending,
      api::parse_time(look.document()["metadata"]["creationTimestamp"].get<std::string>())
          .value_or(now));
  api::enter_phase(status, Phase::scheduling, now);
  api::enter_phase(status, Phase::scheduled, now);
  status["nodeName"] = options_.node_name;
  api::remove_condition(status, "PodScheduled");
  if (api::find_condition(status, "DataVolumesReady").is_object()) {
    api::set_condition(
        status,
        {"DataVolumesReady", true, "AllDVsReady", "All of the VMI's DVs are bound and not running"},
        now);
  }
  if (!spec.interfaces.empty()) {
    Json interfaces = Json::array();
    for (const api::InterfaceSpec& interface : spec.interfaces) {
      const auto lease =
          parts_.network.addresses().lease(lease_prefix(look.key) + interface.name, interface.mac);
      interfaces.push_back({{"name", interface.name},
                            {"mac", lease->mac},
                            {"ipAddress", lease->address},
                            {"ipAddresses", Json::array({lease->address})},
                            {"infoSource", "domain"},
                            {"queueCount", 1}});
    }
    status["interfaces"] = std::move(interfaces);
  }
  return status;
}

hypervisor::Domain InstanceController::describe(const Look& look,
                                                const api::InstanceSpec& spec) const {
  hypervisor::Domain domain{.name = look.key.ns + "_" + look.key.name, .uuid = spec.uuid};
  domain.mark = {options_.installation, look.key.ns, look.key.name, look.runtime.uid,
                 images::sha256_digest(look.document()["spec"].dump()).substr(7, 16)};
  domain.emulated = options_.emulate;
  domain.machine = spec.machine;
  domain.cpu = {spec.sockets, spec.cores, spec.threads, spec.cpu_model, spec.cpu_limit_millis};
  domain.memory_bytes = spec.memory_bytes;
  domain.serial = spec.serial;
  domain.rng = spec.rng;
  domain.panic = spec.panic_device;
  for (const api::DiskSpec& disk : spec.disks) {
    const images::MadeDisk& made = look.runtime.disks->at(disk.name);
    hypervisor::Disk device{
        .name = disk.name,
        .device = disk.cdrom ? hypervisor::Disk::Device::cdrom : hypervisor::Disk::Device::disk,
        .bus = disk.bus,
        .path = made.file,
        .format = made.format};
    if (!made.backing_file.empty()) {
      device.backing =
          hypervisor::Backing{made.backing_file, made.backing_format, made.backing_is_private};
    }
    device.shareable = made.shareable;
    device.read_only = disk.read_only || disk.cdrom || (made.read_only && disk.bus == "virtio");
    device.serial = disk.serial;
    device.cache = disk.cache;
    device.boot_order = disk.boot_order;
    domain.disks.push_back(std::move(device));
  }
  for (const api::InterfaceSpec& interface : spec.interfaces) {
    const auto lease =
        parts_.network.addresses().lease(lease_prefix(look.key) + interface.name, interface.mac);
    domain.interfaces.push_back({.name = interface.name,
                                 .network = parts_.network.name(),
                                 .mac = lease->mac,
                                 .model = interface.model,
                                 .boot_order = interface.boot_order});
  }
  return domain;
}

void InstanceController::order_start(Look& look, const api::InstanceSpec& spec) {
  const hypervisor::Domain domain = describe(look, spec);
  std::vector<hypervisor::Reservation> reservations;
  for (const api::InterfaceSpec& interface : spec.interfaces) {
    const auto lease =
        parts_.network.addresses().lease(lease_prefix(look.key) + interface.name, interface.mac);
    if (lease->needs_reservation) reservations.push_back({lease->mac, lease->address});
  }
  parts_.domains.expect(domain.uuid, domain.mark, domain.name);
  look.runtime.job = true;
  parts_.jobs.submit(
      Lane::start,
      [&hypervisor = parts_.hypervisor, &images = parts_.images, network = parts_.network.name(),
       domain = hypervisor::Domain(domain), reservations, restores = !restore_key(look).empty(),
       abandoned = look.runtime.abandoned]() mutable {
        if (*abandoned) throw images::Cancelled("the object is being deleted");
        for (const auto& reservation : reservations) hypervisor.reserve(network, reservation);
        if (restores) {
          // A memory is used once: not for a hypervisor that is not there.
          hypervisor.versions();
          domain.memory_file = images.use_memory(domain.mark.uid);
        }
        hypervisor.start(domain);
        if (restores) images.forget_memory(domain.mark.uid);
      },
      [this, key = look.key, uid = look.runtime.uid](Result<std::monostate>& result) {
        start_finished(key, uid, result);
      });
}

void InstanceController::start_finished(const store::Key& key, const std::string& uid,
                                        Result<std::monostate>& result) {
  const auto it = runtimes_.find(key);
  const store::ObjectPtr object = parts_.store.get(key);
  // The instance waits for its jobs before it goes, so this is never another's.
  if (it == runtimes_.end() || it->second.uid != uid || !object) return;
  Runtime& runtime = it->second;
  runtime.job = false;
  queue_.add(key);
  Look look{key, object, runtime, nullptr};
  try {
    result.get();
    runtime.start_ordered = true;
    runtime.believe_from = parts_.domains.generation();
    record(look, EventType::normal, "Created", "VirtualMachineInstance defined.");
  } catch (const images::Cancelled&) {
    parts_.domains.expect_no_more(runtime.uuid);
    runtime.start_abandoned = true;
  } catch (const hypervisor::Unavailable& error) {
    // It may have been started: the next list says.
    runtime.disks.reset();
    runtime.believe_from = parts_.domains.generation() + 1;
    spdlog::warn("{}/{}: {}", key.ns, key.name, error.what());
    parts_.hypervisor.relist();
  } catch (const std::exception& error) {
    runtime.disks.reset();
    parts_.domains.expect_no_more(runtime.uuid);
    parts_.domains.forget_end(runtime.uuid);
    parts_.network.ensure();
    report_failure(look, "SyncFailed", error.what());
  }
}

}  // namespace virtset
