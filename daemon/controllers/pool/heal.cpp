#include <algorithm>

#include "api/kinds/duration.h"
#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/back_off.h"
#include "daemon/controllers/pool/controller.h"

namespace virtset {

using store::Json;

namespace {

constexpr std::int64_t default_threshold = 3;                // KubeVirt
constexpr std::chrono::minutes default_failing_duration{5};  // KubeVirt

std::chrono::milliseconds failing_duration(const Json& healing) {
  const auto given =
      api::parse_duration(api::text(api::member(healing, "minFailingToStartDuration")));
  return given.value_or(default_failing_duration);
}

// The entry of a machine in status.healing, or null.
Json* entry_of(Json& status, const std::string& name) {
  if (!status.contains("healing")) return nullptr;
  for (Json& entry : status["healing"]) {
    if (api::text(api::member(entry, "name")) == name) return &entry;
  }
  return nullptr;
}

}  // namespace

// Looks at those that are not well: KubeVirt's failures to start, and a guest that never became
// ready, if that was asked for. One that a disk error has paused is only restarted.
void PoolController::heal(Look& look) {
  forget_healed(look);
  if (!look.spec().contains("autohealing")) return;
  const api::Time now = scheduler_.now();
  const Json& strategy = api::member(look.spec(), "scaleInStrategy", "proactive");
  // Not its memory: that is what is not well.
  std::string configured = api::text(api::member(strategy, "statePreservation"));
  if (configured == "Online") configured = "Offline";
  std::size_t healed = 0;
  for (const store::Key& key : look.members.unavailable) {
    const PoolMember& member = look.members.all.at(key);
    auto due = heal_time(look, member);
    if (!due) continue;
    if (const Json* entry = entry_of(look.status, key.name)) {
      const auto left = wait_left(api::member(*entry, "retryAfterTimestamp"), now,
                                  2 * options_.longest_heal_back_off);
      if (left) due = std::max(*due, now + *left);
    }
    if (*due > now) {
      queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(*due - now) +
                                     std::chrono::milliseconds(1));
      continue;
    }
    if (healed++ == options_.burst) return;
    const bool only_restart = member.io_error_since != api::Time();
    // KubeVirt gives it new disks whatever the cause.
    const std::string preservation = member.keeps_disks ? "Offline" : configured;
    if (!only_restart && !is_written_down(look, member, preservation)) continue;
    note_healed(look, key.name);
    if (only_restart) {
      restart_guest(look, member, "FailedUpdate", "error during healing: ");
    } else {
      delete_machine(look, member, preservation, std::nullopt, "FailedScaleIn",
                     "error during healing: ");
    }
  }
}

// From when on it may be healed; nothing if there is no reason to.
std::optional<api::Time> PoolController::heal_time(const Look& look,
                                                   const PoolMember& member) const {
  const Json& healing = look.spec()["autohealing"];
  const auto failing_for = failing_duration(healing);
  if (member.io_error_since != api::Time()) return member.io_error_since + failing_for;
  if (member.lacks_disk) return std::nullopt;
  const auto threshold =
      api::integer(api::member(healing, "startUpFailureThreshold"), default_threshold);
  if (member.start_failures >= threshold) return api::Time();
  if (member.not_ready_since == api::Time()) return std::nullopt;
  std::optional<api::Time> due;
  if (member.failing) due = member.not_ready_since + failing_for;
  const auto patience =
      api::parse_duration(api::text(look.annotation(api::heal_never_ready_annotation)));
  if (patience && member.never_ready_since != api::Time()) {
    const api::Time time = member.never_ready_since + *patience;
    due = due ? std::min(*due, time) : time;
  }
  return due;
}

// What does not help is done ever more rarely, also after a restart of the daemon.
void PoolController::note_healed(Look& look, const std::string& name) const {
  Json* entry = entry_of(look.status, name);
  if (!entry) {
    look.status["healing"].push_back({{"name", name}});
    entry = &look.status["healing"].back();
  }
  const auto count = api::integer(api::member(*entry, "count"), 0) + 1;
  const auto delay = back_off(count, options_.first_heal_back_off, options_.longest_heal_back_off);
  (*entry)["count"] = count;
  (*entry)["retryAfterTimestamp"] = api::format_time(scheduler_.now() + delay);
}

// Those that have been well for a while, or are not of the pool any more.
void PoolController::forget_healed(Look& look) {
  if (!look.status.contains("healing")) return;
  const api::Time now = scheduler_.now();
  const bool at_count =
      look.members.all.size() - look.members.surge >= static_cast<std::size_t>(look.wanted());
  Json kept = Json::array();
  for (const Json& entry : look.status["healing"]) {
    const auto member = look.members.all.find({api::kubevirt_group, api::machine_kind, look.key.ns,
                                               api::text(api::member(entry, "name"))});
    // While one is missing it may be this one that comes back.
    if (member == look.members.all.end()) {
      if (!at_count) kept.push_back(entry);
      continue;
    }
    const api::Time since = member->second.ready_since;
    if (!member->second.available || since + options_.healthy > now) kept.push_back(entry);
    if (member->second.available && since + options_.healthy > now) {
      queue_.add_after(look.key,
                       std::chrono::ceil<WorkQueue::Duration>(since + options_.healthy - now) +
                           std::chrono::milliseconds(1));
    }
  }
  if (!look.spec().contains("autohealing")) kept.clear();
  if (kept.empty()) {
    look.status.erase("healing");
  } else {
    look.status["healing"] = std::move(kept);
  }
}

}  // namespace virtset
