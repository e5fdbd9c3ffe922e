#include "daemon/controllers/saved_machine_controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachineinstance/status.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;
using Mutation = Store::Mutation;

namespace {

store::Key of_kind(const store::Key& key, const char* group, const char* kind) {
  return {group, kind, key.ns, key.name};
}

}  // namespace

SavedMachineController::SavedMachineController(Store& store, api::Scheduler& scheduler, Jobs& jobs,
                                               images::Images& images,
                                               std::map<std::string, std::uint64_t> found)
    : store_(store),
      scheduler_(scheduler),
      jobs_(jobs),
      images_(images),
      found_(std::move(found)),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void SavedMachineController::start() {
  for (const auto& saved : store_.list(api::virtset_group, api::saved_machine_kind)) {
    found_.erase(saved->uid());
    queue_.add(saved->key());
  }
  for (const auto& [uid, bytes] : std::exchange(found_, {})) {
    jobs_.clear_away("the saved state " + uid + ", which belongs to nothing",
                     [&images = images_, uid = uid] { images.discard(uid); });
  }
}

void SavedMachineController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.group == api::virtset_group && key.kind == api::saved_machine_kind) {
    if (change.type == store::Change::Type::deleted) {
      queue_.forget(key);
    } else {
      queue_.add(key);
    }
    return;
  }
  if (key.group == api::core_group && key.kind == api::claim_kind) {
    if (api::is_deleting(*change.object->document())) claim_goes(key);
    return;
  }
  const bool concerns_us = key.group == api::kubevirt_group &&
                           (key.kind == api::machine_kind || key.kind == api::instance_kind);
  if (!concerns_us) return;
  const store::Key saved = of_kind(key, api::virtset_group, api::saved_machine_kind);
  if (store_.get(saved)) queue_.add(saved);
}

// A memory is worth nothing without the disks that it knows, and would keep them from going.
void SavedMachineController::claim_goes(const store::Key& claim) {
  for (const auto& saved : store_.list(api::virtset_group, api::saved_machine_kind, claim.ns)) {
    const auto document = saved->document();
    const Json& claims = api::member(*document, "spec", "claims");
    if (std::find(claims.begin(), claims.end(), claim.name) != claims.end()) {
      queue_.add(saved->key());
    }
  }
}

bool SavedMachineController::has_lost_a_claim(const store::Object& saved) const {
  const auto document = saved.document();
  if (!api::holds_claims(*document)) return false;
  for (const Json& name : api::member(*document, "spec", "claims")) {
    const auto claim =
        store_.get({api::core_group, api::claim_kind, saved.key().ns, api::text(name)});
    if (claim && api::is_deleting(*claim->document())) return true;
  }
  return false;
}

void SavedMachineController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object || busy_.contains(key)) return;
  const auto document = object->document();
  const store::ObjectPtr instance =
      store_.get(of_kind(key, api::kubevirt_group, api::instance_kind));
  if (api::is_deleting(*document)) {
    // One that is being saved may still leave files; its end leads back here.
    const bool may_come =
        instance && api::is_deleting(*instance->document()) &&
        api::annotation(*instance->document(), api::save_annotation) == object->uid();
    if (!may_come) discard(key, *object);
    return;
  }
  const auto begin_deletion = [now = scheduler_.now()](Json current) {
    return api::begin_deletion(std::move(current), std::nullopt, std::nullopt, now);
  };
  const std::string saved_uid = api::text(api::member(*document, "spec", "virtualMachineUID"));
  const store::ObjectPtr machine = store_.get(of_kind(key, api::kubevirt_group, api::machine_kind));
  // One that was left behind is not the machine's any more.
  const bool runs_on = instance && api::controller_uid(*instance->document()) == saved_uid;
  if (!machine && !runs_on && !api::member(*document, "status").contains("phase")) {
    look_at_files(key, *object);
    return;
  }
  if (!runs_on && has_lost_a_claim(*object)) {
    write(key, object->uid(), begin_deletion);
    return;
  }
  if (!machine || machine->uid() == saved_uid) return;
  // The next one has what it needs when it runs, or at once where that is in its description.
  const auto next = machine->document();
  const bool goes_on = api::annotation(*next, api::restore_annotation) == object->uid();
  const bool is_heir = api::controller_uid(*next) == api::controller_uid(*document);
  if (!goes_on && !is_heir) return;
  const bool has_memory = api::integer(api::member(*document, "status", "memoryBytes"), 0) > 0;
  const auto phase = instance ? api::phase_of(*instance->document()) : api::Phase::pending;
  const bool runs = phase == api::Phase::running || api::is_final(phase);
  if (goes_on && has_memory && !runs) return;
  write(key, object->uid(), begin_deletion);
}

// The virtual machine is gone: has it left its memory?
void SavedMachineController::look_at_files(const store::Key& key, const store::Object& object) {
  busy_.insert(key);
  jobs_.submit(
      Lane::disk,
      [&images = images_, uid = object.uid()] {
        const auto states = images.set_aside_states();
        const auto it = states.find(uid);
        return it == states.end() ? std::uint64_t{0} : it->second;
      },
      [this, key, uid = object.uid()](Result<std::uint64_t>& result) {
        busy_.erase(key);
        std::uint64_t bytes = 0;
        try {
          bytes = result.get();
        } catch (const std::exception& error) {
          spdlog::error("{}/{}: {}", key.ns, key.name, error.what());
          queue_.retry(key);
          return;
        }
        write(key, uid, [bytes](Json current) {
          const bool wanted = api::truth(api::member(current, "spec", "memory"));
          current["status"] = {{"phase", "Saved"}, {"memoryBytes", bytes}};
          if (wanted && bytes == 0) {
            current["status"]["message"] = "the memory was not saved: the next one boots";
          }
          return api::put_or_finish(std::move(current));
        });
      });
}

void SavedMachineController::discard(const store::Key& key, const store::Object& object) {
  busy_.insert(key);
  jobs_.submit(
      Lane::disk, [&images = images_, uid = object.uid()] { images.discard(uid); },
      [this, key, uid = object.uid()](Result<std::monostate>& result) {
        busy_.erase(key);
        try {
          result.get();
        } catch (const std::exception& error) {
          spdlog::error("{}/{}: {}", key.ns, key.name, error.what());
          queue_.retry(key);
          return;
        }
        write(key, uid, [](Json current) {
          api::remove_finalizer(current, api::saved_machine_finalizer);
          return api::put_or_finish(std::move(current));
        });
      });
}

void SavedMachineController::write(const store::Key& key, const std::string& uid,
                                   std::function<Mutation(Json document)> change) {
  try {
    store_.write(
        key,
        [uid, change = std::move(change)](const store::Object* current) {
          if (!current || current->uid() != uid) return Mutation::nothing();
          return change(*current->document());
        },
        [this, key](const Store::Outcome& outcome) {
          busy_.erase(key);
          if (outcome.error) {
            queue_.retry(key);
          } else {
            queue_.forget(key);
            queue_.add(key);
          }
        });
    busy_.insert(key);
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

}  // namespace virtset
