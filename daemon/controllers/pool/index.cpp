#include "daemon/controllers/pool/index.h"

#include <algorithm>
#include <charconv>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachine/actions.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "api/kinds/virtualmachineinstance/status.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/annotations.h"
#include "daemon/controllers/pool/template.h"

namespace virtset {

namespace {

using nlohmann::json;

// Kubernetes: what is no number is 0, and "+5" and "007" are none.
std::int64_t deletion_cost(const json& document) {
  const std::string text = api::annotation(document, "controller.kubernetes.io/pod-deletion-cost");
  std::int32_t cost = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, cost);
  const bool canonical = error == std::errc() && stop == end && std::to_string(cost) == text;
  return canonical ? cost : 0;
}

// KubeVirt: those that autohealing looks at. Not in it, unlike there: DataVolumeError. Here that is
// a disk that was lost or is somebody else's, and healing would let it be deleted for good.
void read_failure(const std::string& state, PoolMember& member) {
  static const std::set<std::string> other_causes = {"ErrorUnschedulable", "ErrImagePull",
                                                     "ImagePullBackOff"};
  member.keeps_disks = other_causes.contains(state);
  member.lacks_disk = state == "DataVolumeError";
  member.failing = !member.ready && (member.keeps_disks || state == "CrashLoopBackOff" ||
                                     state == "ErrorPvcNotFound");
}

// KubeVirt's run strategies under which a machine without a guest stays so.
bool is_meant_to_be_off(const json& machine, bool guest_is_final, bool has_guest) {
  const json& status = api::member(machine, "status");
  const api::StateChanges asked = api::StateChanges::of(status);
  const bool ended = guest_is_final || !has_guest;
  switch (const auto strategy = api::strategy_of(api::member(machine, "spec"))) {
    case api::RunStrategy::always:
      return false;
    case api::RunStrategy::halted:
      return true;
    case api::RunStrategy::once:
      return guest_is_final;
    case api::RunStrategy::manual:
      return ended && !asked.start;
    case api::RunStrategy::rerun_on_failure:
      // Started when the strategy is new, and after a failure.
      return ended && !asked.start &&
             api::text(api::member(status, "runStrategy")) == api::to_string(strategy);
  }
  return false;
}

api::Time transition_of(const json& condition) {
  return api::parse_time(api::text(api::member(condition, "lastTransitionTime")))
      .value_or(api::Time());
}

void read_guest(const store::Object& guest, const json& machine_status, PoolMember& member,
                bool& is_final) {
  const auto document = guest.document();
  const json& status = api::member(*document, "status");
  const api::Phase phase = api::phase_of(*document);
  member.guest_uid = guest.uid();
  is_final = api::is_final(phase);
  const bool ending =
      api::is_deleting(*document) || api::StateChanges::of(machine_status).stop == member.guest_uid;
  member.version.has_guest = !is_final && !ending;
  if (member.version.has_guest) {
    member.version.guest =
        api::text(api::member(*document, "metadata", "labels", api::pool_revision_label));
  }
  member.available = member.ready && !member.deleting && member.version.has_guest &&
                     phase == api::Phase::running && api::condition_is_true(status, "Ready");
  const json& paused = api::find_condition(status, "Paused");
  if (phase == api::Phase::running && !ending) {
    // That it is not ready is then what was said when it began to run, give or take the second.
    const auto began = api::phase_entered_at(*document, api::Phase::running);
    const json& ready = api::find_condition(status, "Ready");
    const bool never = !member.ready && paused.is_null() &&
                       transition_of(ready) <= began + std::chrono::seconds(1);
    if (never) member.never_ready_since = began;
  }
  if (api::text(api::member(paused, "status")) == "True" &&
      api::text(api::member(paused, "reason")) == "PausedIOError") {
    member.io_error_since = transition_of(paused);
  }
}

PoolMember read(const store::Object& machine, const store::Object* guest) {
  const auto document = machine.document();
  const json& metadata = (*document)["metadata"];
  const json& status = api::member(*document, "status");
  const json& ready = api::find_condition(status, "Ready");
  PoolMember member{.key = machine.key(), .uid = machine.uid()};
  member.owner = api::controller_uid(*document);
  member.created = api::text(api::member(metadata, "creationTimestamp"));
  member.index = index_of(machine.key().name);
  member.cost = deletion_cost(*document);
  member.deleting = api::is_deleting(*document);
  member.finalizer = api::has_finalizer(*document, api::pool_finalizer);
  member.ready = api::text(api::member(ready, "status")) == "True";
  member.label_hash = std::hash<json>()(api::member(metadata, "labels"));
  member.version.machine = api::text(api::member(metadata, "labels", api::pool_revision_label));
  // None is made where machines have disks of their own; whoever says so of one that has must not
  // lose them for it.
  member.version.surge = api::annotation(*document, surge_annotation) == "true" &&
                         api::member(*document, "spec", "dataVolumeTemplates").empty();
  member.start_failures =
      api::integer(api::member(status, "startFailure", "consecutiveFailCount"), 0);
  read_failure(api::text(api::member(status, "printableStatus")), member);
  (member.ready ? member.ready_since : member.not_ready_since) = transition_of(ready);
  bool guest_is_final = false;
  if (guest) read_guest(*guest, status, member, guest_is_final);
  member.version.dormant =
      !member.version.has_guest && is_meant_to_be_off(*document, guest_is_final, guest != nullptr);
  return member;
}

}  // namespace

std::set<std::string> PoolIndex::update(const store::Object& machine, const store::Object* guest) {
  std::set<std::string> owners;
  PoolMember member = read(machine, guest);
  bool check = true;
  bool unchecked = false;
  if (const auto before = take_out(member.key, unchecked)) {
    check = unchecked || before->label_hash != member.label_hash || before->owner != member.owner;
    owners.insert(before->owner);
    // The condition's time is also that of its reason; what counts is how long it has lasted.
    const bool still = before->uid == member.uid && !before->ready && !member.ready;
    if (still && before->not_ready_since != api::Time()) {
      member.not_ready_since = std::min(member.not_ready_since, before->not_ready_since);
    }
  }
  if (member.owner.empty()) return owners;
  owners.insert(member.owner);
  owners_[member.key] = member.owner;
  PoolMembers& members = members_[member.owner];
  if (check) members.unchecked.insert(member.key);
  if (member.ready) ++members.ready;
  if (member.version.surge) ++members.surge;
  if (member.deleting) {
    members.deleting.insert(member.key);
  } else {
    PoolMembers::Group& group = members.versions[member.version];
    group.members.insert(member.key);
    if (member.available) ++group.available;
    if (!member.available && !member.version.dormant) members.unavailable.insert(member.key);
  }
  members.all.emplace(member.key, std::move(member));
  return owners;
}

std::set<std::string> PoolIndex::remove(const store::Key& machine) {
  bool unchecked = false;
  const auto member = take_out(machine, unchecked);
  return member ? std::set<std::string>{member->owner} : std::set<std::string>();
}

std::optional<PoolMember> PoolIndex::take_out(const store::Key& machine, bool& unchecked) {
  const auto owner = owners_.find(machine);
  if (owner == owners_.end()) return std::nullopt;
  const auto it = members_.find(owner->second);
  PoolMembers& members = it->second;
  const PoolMember member = members.all.extract(machine).mapped();
  unchecked = members.unchecked.erase(machine) > 0;
  members.deleting.erase(machine);
  members.unavailable.erase(machine);
  if (member.ready) --members.ready;
  if (member.version.surge) --members.surge;
  if (!member.deleting) {
    const auto group = members.versions.find(member.version);
    group->second.members.erase(machine);
    if (member.available) --group->second.available;
    if (group->second.members.empty()) members.versions.erase(group);
  }
  if (members.all.empty()) members_.erase(it);
  owners_.erase(owner);
  return member;
}

PoolMembers* PoolIndex::members(const std::string& pool) {
  const auto it = members_.find(pool);
  return it == members_.end() ? nullptr : &it->second;
}

}  // namespace virtset
