#include "daemon/controllers/instance/controller.h"

#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "api/kinds/savedvirtualmachine/saved.h"

namespace virtset {

using api::Phase;
using store::Json;

InstanceController::InstanceController(Parts parts, Options options)
    : parts_(parts),
      options_(std::move(options)),
      queue_(parts.scheduler, [this](const store::Key& key) { reconcile(key); }),
      puller_(
          parts.images, parts.jobs, parts.scheduler,
          [this](const store::Key& key) { queue_.add(key); }, options_.images),
      slots_(parts.guest_memory, [this](const store::Key& key) { queue_.add(key); }),
      turns_(options_.starts_at_once, [this](const store::Key& key) { queue_.add(key); }),
      planner_(parts.store, parts.volumes) {
  parts_.claims.on_freed([this](const store::Key& claim) { wake_those_that_await(claim); });
}

InstanceController::~InstanceController() = default;

const Json& InstanceController::Look::document() const {
  if (!parsed) parsed = object->document();
  return *parsed;
}

const Json& InstanceController::Look::status() const { return api::member(document(), "status"); }

bool InstanceController::Look::is_under_way() const {
  return runtime.job || runtime.writing || (runtime.start_ordered && !domain);
}

api::InstanceSpec InstanceController::Look::spec() const {
  return api::read_instance_spec(document()["spec"], key.name);
}

void InstanceController::start() {
  const auto objects = parts_.store.list(api::kubevirt_group, api::instance_kind);
  // The status of one whose address was given back, and to another, names it until the object is
  // gone. The other is the one that is not being deleted, or else the one that was written later.
  std::map<std::pair<bool, store::Revision>, store::ObjectPtr> order;
  for (const auto& object : objects) {
    order.emplace(std::pair(!api::is_deleting(*object->document()), object->revision()), object);
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    take_in(*it->second);
    queue_.add(it->second->key());
  }
  for (const auto& machine : parts_.store.list(api::kubevirt_group, api::machine_kind)) {
    restore_addresses(*machine, "status");
  }
  for (const auto& saved : parts_.store.list(api::virtset_group, api::saved_machine_kind)) {
    restore_addresses(*saved, "spec");
    hold_claims(*saved);
  }
  const auto node = parts_.store.get({api::core_group, api::node_kind, "", options_.node_name});
  if (node) node_changed(*node, true);
}

// What an instance had when an earlier run of the daemon ended is still its own.
void InstanceController::take_in(const store::Object& object) {
  const auto document = object.document();
  Runtime& runtime = runtime_of(object);
  if (api::is_final(runtime.phase)) return;
  const api::InstanceSpec spec = api::read_instance_spec((*document)["spec"], object.key().name);
  restore_addresses(object, "status");
  runtime.is_ready = api::condition_is_true(api::member(*document, "status"), "Ready");
  if (runtime.phase == Phase::scheduled || runtime.phase == Phase::running) {
    parts_.claims.restore(object.key(), planner_.claims(object.key(), spec));
  }
  if (runtime.phase != Phase::pending) {
    slots_.restore({object.key(), runtime.set, std::nullopt,
                    spec.memory_request_bytes + options_.memory_overhead});
  }
  const Json& failure = api::member(*document, "status", "startFailure");
  const auto retry_at = api::parse_time(api::text(api::member(failure, "retryAfterTimestamp")));
  if (!retry_at) return;
  for (const api::DiskSpec& disk : spec.disks) {
    const auto* source = std::get_if<api::ContainerDiskSource>(&disk.source);
    if (!source || api::text(api::member(failure, "image")) != source->image) continue;
    puller_.restore({source->image, images::parse_pull_policy(source->pull_policy, source->image),
                     source->path},
                    static_cast<int>(api::integer(api::member(failure, "consecutiveFailCount"), 1)),
                    *retry_at, api::text(api::member(failure, "message")));
  }
}

void InstanceController::restore_addresses(const store::Object& object, const char* part) {
  const auto document = object.document();
  for (const Json& interface : api::member(*document, part, "interfaces")) {
    parts_.network.addresses().restore(
        lease_prefix(object.key()) + api::text(api::member(interface, "name")),
        api::text(api::member(interface, "mac")), api::text(api::member(interface, "ipAddress")));
  }
}

// Unless they are kept for the next one of its name.
void InstanceController::release_addresses(const store::Key& key) {
  const auto saved =
      parts_.store.get({api::virtset_group, api::saved_machine_kind, key.ns, key.name});
  const bool kept = parts_.store.get({api::kubevirt_group, api::machine_kind, key.ns, key.name}) ||
                    (saved && !api::member(*saved->document(), "spec", "interfaces").empty());
  if (!kept) parts_.network.addresses().release(lease_prefix(key));
}

// Its instance may live on, and keeps what it has.
void InstanceController::keeper_gone(const store::Key& keeper) {
  const store::Key key{api::kubevirt_group, api::instance_kind, keeper.ns, keeper.name};
  const auto it = runtimes_.find(key);
  if (it == runtimes_.end() || it->second.cleaned) release_addresses(key);
}

std::string InstanceController::kept_state(const Look& look, const char* annotation) const {
  const std::string uid = api::annotation(look.document(), annotation);
  if (uid.empty()) return "";
  const auto saved =
      parts_.store.get({api::virtset_group, api::saved_machine_kind, look.key.ns, look.key.name});
  const bool is_right =
      saved && saved->uid() == uid && api::truth(api::member(*saved->document(), "spec", "memory"));
  return is_right ? uid : "";
}

void InstanceController::hold_claims(const store::Object& saved) {
  const store::Key& key = saved.key();
  const auto document = saved.document();
  // One that is being saved, or has been given its memory, has them itself.
  if (!api::holds_claims(*document) ||
      parts_.store.get({api::kubevirt_group, api::instance_kind, key.ns, key.name})) {
    return;
  }
  parts_.claims.restore(key, planner_.claims_of_saved(saved));
}

void InstanceController::saved_changed(const store::Object& saved, bool gone) {
  if (gone) keeper_gone(saved.key());
  if (gone || !api::holds_claims(*saved.document())) parts_.claims.release(saved.key());
}

// What has ended gives them back, or leaves them to its record.
void InstanceController::release_claims(const store::Key& key) {
  const store::Key record{api::virtset_group, api::saved_machine_kind, key.ns, key.name};
  const auto runtime = runtimes_.find(key);
  const auto saved = parts_.store.get(record);
  const bool is_kept = saved && runtime != runtimes_.end() && runtime->second.deleting &&
                       api::holds_claims(*saved->document());
  if (is_kept) parts_.claims.pass_on(key, record);
  parts_.claims.release(key);
}

InstanceController::Runtime& InstanceController::runtime_of(const store::Object& object) {
  Runtime& runtime = runtimes_[object.key()];
  if (runtime.uid == object.uid()) return runtime;
  // Another instance of the same name: the earlier one is gone.
  await_nothing(object.key(), runtime);
  by_uuid_.erase({runtime.uuid, object.key()});
  runtime = Runtime{};
  runtime.uid = object.uid();
  const auto document = object.document();
  runtime.uuid = api::domain_uuid((*document)["spec"]);
  runtime.set = api::controller_uid(*document);
  runtime.phase = api::phase_of(*document);
  runtime.deleting = api::is_deleting(*document);
  by_uuid_.emplace(runtime.uuid, object.key());
  return runtime;
}

void InstanceController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.kind == api::node_kind && key.group == api::core_group) {
    node_changed(*change.object, change.type != store::Change::Type::deleted);
    return;
  }
  wake_those_that_await(key);
  const bool gone = change.type == store::Change::Type::deleted;
  if (key.group == api::virtset_group && key.kind == api::saved_machine_kind) {
    saved_changed(*change.object, gone);
    return;
  }
  if (gone && key.group == api::kubevirt_group && key.kind == api::machine_kind) {
    keeper_gone(key);
    return;
  }
  if (key.group != api::kubevirt_group) return;
  if (key.kind == api::replica_set_kind) {
    slots_.limit_changed(change.object->uid());
    return;
  }
  if (key.kind != api::instance_kind) return;
  if (gone) {
    forget(key);
    return;
  }
  Runtime& runtime = runtime_of(*change.object);
  const auto document = change.object->document();
  runtime.phase = api::phase_of(*document);
  runtime.deleting = api::is_deleting(*document);
  const std::string set = api::controller_uid(*document);
  if (set != runtime.set) {
    runtime.set = set;
    slots_.owner_changed(key, set);
  }
  if (runtime.deleting) *runtime.abandoned = true;
  queue_.add(key);
}

// Noted here, because every instance that is started asks.
void InstanceController::node_changed(const store::Object& node, bool exists) {
  if (node.key().name != options_.node_name) return;
  const bool cordoned =
      exists && api::truth(api::member(*node.document(), "spec", "unschedulable"));
  if (cordoned == std::exchange(cordoned_, cordoned) || cordoned) return;
  for (const auto& [key, runtime] : runtimes_) {
    if (runtime.phase == Phase::pending) queue_.add(key);
  }
}

void InstanceController::forget(const store::Key& key) {
  const auto it = runtimes_.find(key);
  if (it == runtimes_.end()) return;
  const Runtime& runtime = it->second;
  release_addresses(key);
  parts_.domains.forget_end(runtime.uuid);
  await_nothing(key, it->second);
  release_claims(key);
  slots_.release(key);
  slots_.forget(key);
  turns_.forget(key);
  puller_.forget(key);
  queue_.forget(key);
  by_uuid_.erase({runtime.uuid, key});
  runtimes_.erase(it);
}

void InstanceController::domain_changed(const std::string& uuid) {
  const auto first = by_uuid_.lower_bound({uuid, {}});
  if (first == by_uuid_.end() || first->first != uuid) parts_.domains.forget_end(uuid);
  for (auto it = first; it != by_uuid_.end() && it->first == uuid; ++it) queue_.add(it->second);
}

void InstanceController::surroundings_changed() {
  for (const auto& [key, runtime] : runtimes_) {
    if (!runtime.cleaned) queue_.add(key);
  }
}

// A hypervisor that was killed and is there again may never say how a domain's start or end went.
void InstanceController::await_word(const Look& look) {
  Runtime& runtime = look.runtime;
  const bool unknown = runtime.start_ordered || parts_.domains.generation() < runtime.believe_from;
  const bool waits = look.domain ? look.domain->process_exited
                                 : unknown && !api::is_final(runtime.phase) &&
                                       !parts_.domains.end_of(runtime.uuid);
  if (!waits) {
    runtime.ask_at.reset();
    return;
  }
  const auto now = parts_.scheduler.steady_now();
  if (!runtime.ask_at) {
    runtime.patience = options_.first_patience;
    runtime.ask_at = now + runtime.patience;
  } else if (now >= *runtime.ask_at) {
    parts_.hypervisor.relist();
    runtime.patience = std::min(2 * runtime.patience, options_.longest_patience);
    runtime.ask_at = now + runtime.patience;
  }
  queue_.add_after(look.key, std::chrono::ceil<api::Scheduler::Duration>(*runtime.ask_at - now));
}

void InstanceController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = parts_.store.get(key);
  if (!object) return;
  Runtime& runtime = runtime_of(*object);
  if (runtime.job || runtime.writing) return;
  Look look{key, object, runtime, parts_.domains.find(runtime.uuid)};
  // One of the same UUID may be another's; see Strays.
  if (look.domain && look.domain->info.mark.uid != runtime.uid) look.domain = nullptr;
  // Its place in the set is free as soon as its process is gone: libvirt says so only later.
  if (look.domain && look.domain->process_exited) slots_.release(key);
  await_word(look);
  if (runtime.deleting) {
    tear_down(look);
  } else if (api::is_final(look.phase())) {
    clean_up(look);
  } else {
    go_forward(look);
    if (look.is_under_way()) return;
  }
  // Those that wait for anything else must not keep others waiting.
  turns_.give_back(key);
}

}  // namespace virtset
