#include <algorithm>

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachine/actions.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/controller.h"
#include "daemon/controllers/pool/template.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

const Json& update_policy(const Json& spec) {
  return api::member(spec, "updateStrategy", "proactive", "selectionPolicy");
}

store::Key guest_of(const store::Key& machine) {
  return {api::kubevirt_group, api::instance_kind, machine.ns, machine.name};
}

}  // namespace

// KubeVirt: a percentage is rounded down, and the least is 1. Its default is 100 %. Ours is what a
// surge does not make up for.
std::size_t PoolController::max_unavailable(const Look& look) const {
  const auto given =
      api::scaled(api::member(look.spec(), "maxUnavailable"), look.wanted(), api::Rounding::down);
  if (!given) return max_surge(look) > 0 ? 0 : 1;
  return static_cast<std::size_t>(std::max<std::int64_t>(1, *given));
}

// Kubernetes: a percentage is rounded up.
std::size_t PoolController::max_surge(const Look& look) const {
  if (!look.is_proactive()) return 0;
  const auto given =
      api::scaled(look.annotation(api::max_surge_annotation), look.wanted(), api::Rounding::up);
  return static_cast<std::size_t>(std::max<std::int64_t>(0, given.value_or(0)));
}

// Those that have not been ready for long enough to be trusted (Kubernetes: minReadySeconds).
std::size_t PoolController::not_settled(Look& look, const PoolMembers::Group& group) {
  const auto wanted =
      api::scaled(look.annotation(api::min_ready_annotation), 0, api::Rounding::down);
  if (!wanted || *wanted == 0 || group.available == 0) return 0;
  std::size_t count = 0;
  const api::Time now = scheduler_.now();
  for (const store::Key& key : group.members) {
    const PoolMember& member = look.members.all.at(key);
    const api::Time trusted = member.ready_since + std::chrono::seconds(*wanted);
    if (!member.available || trusted <= now) continue;
    ++count;
    queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(trusted - now) +
                                   std::chrono::milliseconds(1));
  }
  return count;
}

PoolController::Plan& PoolController::plan(Look& look) {
  if (!look.plan) look.plan = make_plan(look);
  return *look.plan;
}

// Where a machine stands follows from two revisions: the one that it is made from, and the one that
// its guest was started from.
PoolController::Plan PoolController::make_plan(Look& look) {
  Plan plan;
  Progress& progress = plan.progress;
  const bool proactive = look.is_proactive();
  const PoolSelectors selectors(update_policy(look.spec()));
  progress.moving = look.members.deleting.size();
  for (const store::Key& key : look.members.deleting) {
    if (!look.members.all.at(key).version.surge) ++progress.to_move;
  }
  for (const auto& [version, group] : look.members.versions) {
    const Sameness machine = compare(look, version.machine);
    const Sameness guest = version.has_guest ? compare(look, version.guest) : machine;
    const bool runs_it = version.has_guest ? guest.guest : version.dormant && machine.machine;
    if (runs_it && !version.surge) progress.updated += group.members.size();
    const std::size_t ready = version.dormant ? group.members.size() : group.available;
    progress.ready += ready;
    if (machine.machine && guest.guest) {
      const std::size_t settled = ready - (version.dormant ? 0 : not_settled(look, group));
      progress.done += settled;
      progress.moving += group.members.size() - settled;
      if (!version.surge) progress.to_move += group.members.size() - settled;
      continue;
    }
    if (!proactive && machine.machine) continue;  // the guest is left to whoever restarts it
    const bool disks_change = machine.known && !machine.disks;
    const bool is_gated = proactive && !version.dormant && (disks_change || !guest.guest);
    for (const store::Key& key : group.members) {
      if (!selectors.everything()) {
        const auto object = store_.get(key);
        if (!object || !selectors.match(*object->document())) continue;
      }
      ++progress.pending;
      if (is_gated && !version.surge) ++progress.to_move;
      (is_gated ? plan.gated : plan.free).push_back(&look.members.all.at(key));
      if (machine.machine) plan.guest_is_left.insert(key);
    }
  }
  return plan;
}

void PoolController::update(Look& look) {
  if (api::member(look.spec(), "updateStrategy").contains("unmanaged")) return;
  Plan& todo = plan(look);
  const bool has_target =
      compare(look, api::text(api::member(look.status, "updateRevision"))).machine;
  if (todo.progress.pending == 0 && has_target) {
    relabel_guests(look);
    return;
  }
  if (!ensure_revision(look, {"FailedUpdate", "error during update: "})) return;
  std::size_t count = 0;
  for (const PoolMember* member : todo.free) {
    if (count++ == options_.burst) return;
    update_machine(look, *member);
  }
  update_gated(look, todo);
}

// One step further with as many as may be unavailable at a time. Those that have the template, or
// are about to have it, and are not ready stand in the way of the others whoever is to blame: a
// template with which nothing becomes ready is tried no further. A machine that is not ready costs
// nothing, so that one which an earlier template has broken can always be mended.
void PoolController::update_gated(Look& look, Plan& plan) {
  const auto wanted = static_cast<std::size_t>(look.wanted());
  const std::size_t unavailable = max_unavailable(look);
  const std::size_t most = unavailable + max_surge(look);
  const std::size_t least_ready = wanted > unavailable ? wanted - unavailable : 0;
  std::size_t moving = plan.progress.moving;
  std::size_t ready = plan.progress.ready;
  if (moving >= most) return;
  const std::string policy = api::text(api::member(update_policy(look.spec()), "sortPolicy"));
  sort_for_update(plan.gated, policy, plan.guest_is_left);
  for (const PoolMember* member : plan.gated) {
    if (moving >= most) return;
    if (member->ready && ready <= least_ready) return;
    if (member->available) --ready;
    ++moving;
    const Sameness machine = compare(look, member->version.machine);
    if (plan.guest_is_left.contains(member->key)) {
      restart_guest(look, *member, "FailedUpdate", "error during update: ");
    } else if (machine.known && !machine.disks) {
      // KubeVirt: disks are made anew with their machine, under the same name.
      delete_machine(look, *member, "", api::Propagation::foreground, "FailedUpdate",
                     "error during update: ");
    } else {
      update_machine(look, *member);
    }
  }
}

void PoolController::update_machine(Look& look, const PoolMember& member) {
  const PoolRevision* before = revisions_.find(look.state.uid, member.version.machine);
  const std::string name = member.key.name;
  Json old_template;
  if (before) {
    old_template = indexed_template(*before->spec, member.index);
    stamp_revision(old_template, before->key.name);
  }
  Json next = indexed_template(look.spec(), member.index);
  stamp_revision(next, target_revision(look));
  look.order(
      member.key,
      {"FailedUpdate", "error during update: ", "SuccessfulUpdate",
       "Updated VM " + member.key.ns + "/" + name, "FailedUpdate",
       "Error updating virtual machine " + member.key.ns + "/" + name + ": "},
      gated(look, member,
            [old_template = std::move(old_template),
             next = std::move(next)](const store::Object* current) -> Store::Mutation {
              const auto document = current->document();
              if (api::is_deleting(*document)) return Store::Mutation::nothing();
              const api::Kind& kind =
                  *api::builtin_kinds().find(api::kubevirt_group, api::machine_kind);
              return Store::Mutation::put(
                  api::admit_change(kind, *document, with_template(*document, old_template, next),
                                    api::Part::all, api::FieldValidation::ignore)
                      .object);
            }));
}

// KubeVirt deletes the instance, for the machine to make it anew. With a run strategy under which
// that does not happen by itself, the machine is asked to.
void PoolController::restart_guest(Look& look, const PoolMember& member, const char* failure,
                                   const char* during) {
  const auto machine = store_.get(member.key);
  if (!machine) return;
  const auto strategy = api::strategy_of(api::member(*machine->document(), "spec"));
  const bool ask =
      strategy == api::RunStrategy::manual || strategy == api::RunStrategy::rerun_on_failure;
  const std::string name = member.key.ns + "/" + member.key.name;
  const Order what{failure,
                   during,
                   "SuccessfulDelete",
                   "Successfully updated resource " + name,
                   "FailedUpdate",
                   "Error updating virtual machine " + name + ": "};
  look.order(ask ? member.key : guest_of(member.key), what,
             gated(look, member,
                   [ask, guest = member.guest_uid,
                    now = scheduler_.now()](const store::Object* current) -> Store::Mutation {
                     Json document = *current->document();
                     if (!ask) {
                       if (current->uid() != guest) return Store::Mutation::nothing();
                       return api::begin_deletion(std::move(document), std::nullopt, std::nullopt,
                                                  now);
                     }
                     // What somebody has asked for in the meantime comes first.
                     auto changes = api::StateChanges::of(api::member(document, "status"));
                     if (changes.start || changes.stop) return Store::Mutation::nothing();
                     changes.start = true;
                     changes.stop = guest;
                     changes.write_to(document["status"]);
                     return Store::Mutation::put(std::move(document));
                   }));
}

// KubeVirt: a guest that a new template does not concern is of that revision from now on.
void PoolController::relabel_guests(Look& look) {
  std::size_t count = 0;
  for (const auto& [version, group] : look.members.versions) {
    if (!version.has_guest || version.guest == version.machine) continue;
    if (!compare(look, version.machine).machine || !compare(look, version.guest).guest) continue;
    for (const store::Key& key : group.members) {
      if (count++ == options_.burst) return;
      const PoolMember& member = look.members.all.at(key);
      look.order(guest_of(key), {"FailedUpdate", "error during update: "},
                 gated(look, member,
                       [guest = member.guest_uid, revision = version.machine](
                           const store::Object* current) -> Store::Mutation {
                         if (current->uid() != guest) return Store::Mutation::nothing();
                         Json document = *current->document();
                         document["metadata"]["labels"][api::pool_revision_label] = revision;
                         return Store::Mutation::put(std::move(document));
                       }));
    }
  }
}

}  // namespace virtset
