#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "daemon/controllers/pool/annotations.h"
#include "daemon/controllers/pool/controller.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

constexpr const char* during = "error preserving state: ";

// Disks that the machine may own: KubeVirt looks at these.
std::set<std::string> disks_of(const Json& machine) {
  std::set<std::string> names;
  const Json& spec = api::member(machine, "spec");
  for (const Json& disk : api::member(spec, "dataVolumeTemplates")) {
    names.insert(api::text(api::member(disk, "metadata", "name")));
  }
  for (const Json& volume : api::member(spec, "template", "spec", "volumes")) {
    names.insert(api::text(api::member(volume, "dataVolume", "name")));
    names.insert(api::text(api::member(volume, "persistentVolumeClaim", "claimName")));
  }
  names.erase("");
  return names;
}

bool is_to_be_kept(const std::string& preservation) {
  return preservation == "Offline" || preservation == "Online";
}

}  // namespace

// What is kept of the last machine of this name, if this pool had it.
store::ObjectPtr PoolController::saved_of(const Look& look, const std::string& name) const {
  auto saved = store_.get({api::virtset_group, api::saved_machine_kind, look.key.ns, name});
  return saved && api::controller_uid(*saved->document()) == look.state.uid ? saved : nullptr;
}

// Before a machine whose state is to outlive it is deleted, who it was is written down, and whether
// its memory is wanted. False if that is under way: then it must not be deleted yet.
bool PoolController::is_written_down(Look& look, const PoolMember& member,
                                     const std::string& preservation) {
  const auto machine = store_.get(member.key);
  if (!is_to_be_kept(preservation) || !machine) return true;
  const store::Key key{api::virtset_group, api::saved_machine_kind, member.key.ns, member.key.name};
  const Order what{"FailedScaleIn", during};
  const auto instance =
      store_.get({api::kubevirt_group, api::instance_kind, member.key.ns, member.key.name});
  Json record =
      api::saved_machine(*machine->document(), instance ? *instance->document() : Json(),
                         api::controller_reference(*look.document), preservation == "Online");
  if (const auto known = store_.get(key)) {
    return is_the_record(look, member, *known, api::truth(record["spec"]["memory"]));
  }
  auto object = admit(look, key, std::move(record), what);
  if (!object) return false;
  look.order(key, what,
             [this, object = std::move(*object), pool = look.key,
              uid = look.state.uid](const store::Object* current) mutable {
               if (current || !api::may_own(store_, pool, uid)) return Store::Mutation::nothing();
               return Store::Mutation::put(std::move(object));
             });
  return false;
}

// Whether what is written down is about this machine, and says enough. Otherwise it is brought up
// to date, or makes room.
bool PoolController::is_the_record(Look& look, const PoolMember& member, const store::Object& known,
                                   bool with_memory) {
  const auto document = known.document();
  const Order what{"FailedScaleIn", during};
  if (api::controller_uid(*document) != look.state.uid) {
    const Json& owner = api::controller_of(*document);
    look.fail(what, "the SavedVirtualMachine " + known.key().name + " of " +
                        (owner.is_null() ? "nobody"
                                         : api::text(api::member(owner, "kind")) + " " +
                                               api::text(api::member(owner, "name"))) +
                        " is in the way");
    return false;
  }
  if (api::is_deleting(*document)) return false;  // its end leads back here
  const bool is_its_own =
      api::text(api::member(*document, "spec", "virtualMachineUID")) == member.uid;
  const auto machine = store_.get(member.key);
  const bool is_heir =
      machine && api::annotation(*machine->document(), api::restore_annotation) == known.uid();
  if (is_heir && !is_its_own) {
    // It has not begun to go on from there: what was kept for it is kept for the next one.
    look.order(known.key(), what,
               [uid = known.uid(), member_uid = member.uid](const store::Object* current) {
                 if (!current || current->uid() != uid) return Store::Mutation::nothing();
                 Json next = *current->document();
                 next["spec"]["virtualMachineUID"] = member_uid;
                 next.erase("status");
                 return api::put_or_finish(std::move(next));
               });
    return false;
  }
  if (is_its_own &&
      (is_heir || api::truth(api::member(*document, "spec", "memory")) == with_memory)) {
    return true;
  }
  forget_saved(look, known);
  return false;
}

void PoolController::forget_saved(Look& look, const store::Object& saved) {
  if (api::is_deleting(*saved.document())) return;
  look.order(saved.key(), {"FailedScaleIn", during},
             [uid = saved.uid(), now = scheduler_.now()](const store::Object* current) {
               if (!current || current->uid() != uid) return Store::Mutation::nothing();
               return api::begin_deletion(*current->document(), std::nullopt, std::nullopt, now);
             });
}

// Takes the machine's disks from it, if they are to outlive it; the next machine of its name takes
// them up. True if that is under way: then it must not go yet.
bool PoolController::preserve_state(Look& look, const PoolMember& member) {
  const auto machine = store_.get(member.key);
  if (!machine) return false;
  const auto document = machine->document();
  // We noted it when we deleted it; if somebody else did, KubeVirt: as for opportunistic scale-in.
  // Its memory is then gone before anybody could ask for it.
  const Json& noted = api::member(*document, "metadata", "annotations", preservation_annotation);
  const std::string preservation =
      api::text(noted.is_null() ? api::member(look.spec(), "scaleInStrategy", "opportunistic",
                                              "statePreservation")
                                : noted);
  if (!is_to_be_kept(preservation)) return false;
  const bool is_ending = api::is_deleting(*look.document);
  if (noted.is_null() && !is_ending && !is_written_down(look, member, "Offline")) return true;
  bool ordered = false;
  for (const std::string& name : disks_of(*document)) {
    for (const auto& [group, kind] : {std::pair(api::cdi_group, api::data_volume_kind),
                                      std::pair(api::core_group, api::claim_kind)}) {
      const store::Key disk{group, kind, member.key.ns, name};
      const auto object = store_.get(disk);
      if (!object || api::controller_uid(*object->document()) != member.uid) continue;
      ordered = true;
      look.order(disk, {"FailedScaleIn", during},
                 [owner = member.uid](const store::Object* current) {
                   if (!current || api::controller_uid(*current->document()) != owner) {
                     return Store::Mutation::nothing();
                   }
                   Json kept = *current->document();
                   api::remove_owners(kept, {owner});
                   return api::put_or_finish(std::move(kept));
                 });
    }
  }
  return ordered;
}

// What was written down of machines that were not deleted after all.
void PoolController::forget_unused(Look& look) {
  const auto saved = saved_.find(look.state.uid);
  if (saved == saved_.end()) return;
  for (const store::Key& key : saved->second) {
    const auto object = store_.get(key);
    const auto member =
        look.members.all.find({api::kubevirt_group, api::machine_kind, key.ns, key.name});
    if (!object || member == look.members.all.end() || member->second.deleting) continue;
    const auto document = object->document();
    if (api::text(api::member(*document, "spec", "virtualMachineUID")) == member->second.uid) {
      forget_saved(look, *object);
    }
  }
}

}  // namespace virtset
