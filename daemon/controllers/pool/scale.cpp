#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/annotations.h"
#include "daemon/controllers/pool/controller.h"
#include "daemon/controllers/pool/template.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

// It says so when its machine is gone and its files have been looked at.
bool is_ready_to_be_taken_up(const Json& saved) {
  return !api::is_deleting(saved) && api::member(saved, "status").contains("phase");
}

}  // namespace

// True if nothing had to be changed: then the pool is at count, or has more than that and may not
// do anything about it.
bool PoolController::scale(Look& look) {
  // Those of a surge are counted on their own.
  const std::size_t surge = look.members.surge;
  const std::size_t regular = look.members.all.size() - surge;
  const auto wanted = static_cast<std::size_t>(look.wanted());
  // KubeVirt: those that are being deleted count, so a name is used again when it is free, and
  // there is never one too many.
  if (regular < wanted) {
    create(look, std::min(wanted - regular, options_.burst), false);
    return false;
  }
  if (regular > wanted) shrink(look, regular - wanted);
  const std::size_t surge_now = surge_wanted(look);
  if (surge > surge_now) end_surge(look, surge - surge_now);
  if (surge < surge_now && look.pass().may_go_on()) {
    create(look, std::min(surge_now - surge, options_.burst), true);
  }
  return look.pass().may_go_on();
}

// How many more than its replicas the pool may have while its machines are updated one after the
// other. They are the first to get the template, so one that does not work harms nobody. Without a
// roll-out there is none, whoever is not ready.
std::size_t PoolController::surge_wanted(Look& look) {
  const std::size_t most = max_surge(look);
  if (most == 0 && look.members.surge == 0) return 0;
  const Progress& progress = plan(look).progress;
  const std::string current = api::text(api::member(look.status, "currentRevision"));
  const std::string update = api::text(api::member(look.status, "updateRevision"));
  const bool rolls_out = progress.pending > 0 || (!current.empty() && current != update);
  return rolls_out ? std::min(most, progress.to_move) : 0;
}

void PoolController::end_surge(Look& look, std::size_t count) {
  for (auto it = look.members.all.rbegin(); it != look.members.all.rend() && count > 0; ++it) {
    const PoolMember& member = it->second;
    if (!member.version.surge) continue;
    --count;
    if (member.deleting) continue;
    delete_machine(look, member, "", std::nullopt, "FailedScaleIn", "error during update: ");
  }
}

// Takes the lowest free names. Whoever has one, it is not free.
void PoolController::create(Look& look, std::size_t count, bool surge) {
  const Order what{"FailedScaleOut", "error during scale out: ", "", "",
                   "FailedCreate",   "Error creating VM: "};
  if (!ensure_revision(look, what)) return;
  for (int index = 0; count > 0; ++index) {
    const store::Key key{api::kubevirt_group, api::machine_kind, look.key.ns,
                         look.key.name + "-" + std::to_string(index)};
    if (store_.get(key) || store_.busy(key)) continue;
    const auto saved = saved_of(look, key.name);
    if (saved && surge) continue;
    // What is kept for it is not ready to be taken up.
    if (saved && !is_ready_to_be_taken_up(*saved->document())) return;
    // They are all made from one template: if one is refused the others would be too.
    if (!create_one(look, index, surge)) return;
    --count;
  }
}

bool PoolController::create_one(Look& look, int index, bool surge) {
  const store::Key key{api::kubevirt_group, api::machine_kind, look.key.ns,
                       look.key.name + "-" + std::to_string(index)};
  const Order what{"FailedScaleOut",   "error during scale out: ",
                   "SuccessfulCreate", "Created VM " + key.ns + "/" + key.name,
                   "FailedCreate",     "Error creating VM: "};
  Json machine = indexed_template(look.spec(), index);
  stamp_revision(machine, target_revision(look));
  machine["metadata"]["name"] = key.name;
  if (surge) machine["metadata"]["annotations"][surge_annotation] = "true";
  machine["metadata"]["finalizers"] = {api::pool_finalizer};
  machine["metadata"]["ownerReferences"] = Json::array({api::controller_reference(*look.document)});
  if (const auto saved = saved_of(look, key.name)) {
    api::restore_machine(machine, *saved->document());
  }
  auto object = admit(look, key, std::move(machine), what);
  if (!object) return false;
  look.order(key, what,
             [this, object = std::move(*object), pool = look.key, uid = look.state.uid,
              generation = look.generation()](const store::Object* current) mutable {
               // Somebody was faster, or it is not wanted any more.
               if (current || !may_act(pool, uid, generation)) return Store::Mutation::nothing();
               return Store::Mutation::put(std::move(object));
             });
  return true;
}

void PoolController::shrink(Look& look, std::size_t excess) {
  const Json& strategy = api::member(look.spec(), "scaleInStrategy");
  if (strategy.contains("unmanaged") || strategy.contains("opportunistic")) return;
  // Those that are on their way out are part of it.
  const auto leaving = static_cast<std::size_t>(std::count_if(
      look.members.deleting.begin(), look.members.deleting.end(),
      [&](const store::Key& key) { return !look.members.all.at(key).version.surge; }));
  if (excess <= leaving) return;
  const Json& proactive = api::member(strategy, "proactive");
  const Json& policy = api::member(proactive, "selectionPolicy");
  const PoolSelectors selectors(policy);
  PoolMemberList victims;
  for (const auto& [key, member] : look.members.all) {
    if (member.deleting || member.version.surge) continue;
    if (!selectors.everything()) {
      const auto machine = store_.get(key);
      if (!machine || !selectors.match(*machine->document())) continue;
    }
    victims.push_back(&member);
  }
  sort_for_scale_in(victims, api::text(api::member(policy, "sortPolicy")));
  // The selectors may leave fewer than asked for.
  victims.resize(std::min({victims.size(), excess - leaving, options_.burst}));
  const std::string preservation = api::text(api::member(proactive, "statePreservation"));
  for (const PoolMember* member : victims) {
    if (!is_written_down(look, *member, preservation)) continue;
    delete_machine(look, *member, preservation, std::nullopt, "FailedScaleIn",
                   "error during scale in: ");
  }
}

// What is to become of its state is noted in the same write, for whoever has a part in its end.
void PoolController::delete_machine(Look& look, const PoolMember& member,
                                    const std::string& preservation,
                                    std::optional<api::Propagation> policy, const char* failure,
                                    const char* during) {
  const std::string name = member.key.ns + "/" + member.key.name;
  const auto saved = saved_of(look, member.key.name);
  const std::string memory = preservation == "Online" && saved ? saved->uid() : "";
  look.order(
      member.key,
      {failure, during, "SuccessfulDelete",
       "Deleted VM " + name + " with uid " + member.uid + " from pool", "FailedDelete",
       "Error deleting virtual machine " + name + ": "},
      gated(look, member,
            [preservation, memory, policy, now = scheduler_.now()](const store::Object* current) {
              Json document = *current->document();
              if (api::is_deleting(document)) return Store::Mutation::nothing();
              Json& metadata = document["metadata"];
              metadata["annotations"][preservation_annotation] =
                  preservation.empty() ? "Disabled" : preservation;
              if (!memory.empty()) metadata["annotations"][api::save_annotation] = memory;
              return api::begin_deletion(std::move(document), policy, std::nullopt, now);
            }));
}

}  // namespace virtset
