#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/controller.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

constexpr std::int64_t default_progress_deadline_s = 600;  // Kubernetes: of Deployments
constexpr const char* complete_reason = "RolloutComplete";
constexpr const char* updating_reason = "ReplicasUpdating";
constexpr const char* stopped_reason = "ProgressDeadlineExceeded";

void set_count(Json& status, const char* field, std::size_t count) {
  if (count > 0) {
    status[field] = count;
  } else {
    status.erase(field);
  }
}

std::chrono::seconds progress_deadline(const std::string& annotation) {
  const auto given = api::scaled(annotation, 0, api::Rounding::down);
  return std::chrono::seconds(given.value_or(default_progress_deadline_s));
}

}  // namespace

void PoolController::report(Look& look) {
  Json& status = look.status;
  const bool was_paused = !api::find_condition(status, "ReplicaPaused").is_null();
  // KubeVirt: the numbers are those from before this pass, and include what is being deleted.
  set_count(status, "replicas", look.members.all.size());
  set_count(status, "readyReplicas", look.members.ready);
  status["labelSelector"] = look.state.selector.to_string();
  status["observedGeneration"] = look.generation();
  const Progress& progress = plan(look).progress;
  if (!look.is_proactive()) {
    // Nobody waits for an end of it.
    api::remove_condition(status, "Progressing");
    status.erase("lastProgressTime");
  } else if (!look.paused() && !api::is_deleting(*look.document)) {
    report_progress(look, progress, was_paused);
  }
  set_count(status, "updatedReplicas", progress.updated);
  set_count(status, "updatedReadyReplicas", progress.done);
  write_status(look);
}

// As Kubernetes does it for Deployments: it goes on while something becomes better, has stopped
// when nothing has for too long, and is complete once and for all when all is well.
void PoolController::report_progress(Look& look, const Progress& progress, bool was_paused) {
  Json& status = look.status;
  const auto now = scheduler_.now();
  const std::string old_reason =
      api::text(api::member(api::find_condition(status, "Progressing"), "reason"));
  const std::string count =
      std::to_string(progress.updated) + " of " + std::to_string(look.wanted()) + " updated";
  bool gets_on = was_paused;
  if (!compare(look, api::text(api::member(status, "updateRevision"))).machine) {
    if (!compare(look, target_revision(look)).machine) return;  // not stored yet
    status["updateRevision"] = target_revision(look);
    gets_on = true;
  } else if (old_reason == complete_reason && progress.pending == 0) {
    api::set_condition(status, {"Progressing", true, complete_reason, count}, now);
    return;
  }
  const std::size_t all = look.members.all.size();
  if (progress.complete() && all >= static_cast<std::size_t>(look.wanted()) &&
      look.members.surge == 0) {
    status["currentRevision"] = status["updateRevision"];
    status.erase("lastProgressTime");
    api::set_condition(status, {"Progressing", true, complete_reason, count}, now);
    return;
  }
  const auto before = [&](const char* field) {
    return static_cast<std::size_t>(api::integer(api::member(status, field), 0));
  };
  gets_on = gets_on || old_reason == complete_reason ||
            progress.updated > before("updatedReplicas") ||
            progress.done > before("updatedReadyReplicas");
  auto last = api::parse_time(api::text(api::member(status, "lastProgressTime")));
  if (gets_on || !last || *last > now) {
    last = now;
    status["lastProgressTime"] = api::format_time(now);
  }
  const auto deadline =
      progress_deadline(api::text(look.annotation(api::progress_deadline_annotation)));
  const bool stopped = now - *last >= deadline;
  const std::string waiting = what_is_missing(look);
  if (!stopped) {
    api::set_condition(status,
                       {"Progressing", true, updating_reason,
                        count + (waiting.empty() ? "" : ", waiting for " + waiting)},
                       now);
    queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(*last + deadline - now) +
                                   std::chrono::milliseconds(1));
    return;
  }
  const std::string message = count + ", no progress for " + std::to_string(deadline.count()) +
                              " s" + (waiting.empty() ? "" : ": waiting for " + waiting);
  api::set_condition(status, {"Progressing", false, stopped_reason, message}, now);
  if (old_reason != stopped_reason) {
    events_.record(*look.object, EventType::warning, component, stopped_reason, message);
  }
}

// Whom the roll-out waits for, and why. Empty if for nobody.
std::string PoolController::what_is_missing(Look& look) {
  constexpr std::size_t most = 3;
  std::string names;
  std::size_t count = 0;
  const auto add = [&](const std::string& text) { names += (count++ == 0 ? "" : ", ") + text; };
  for (const store::Key& key : look.members.deleting) {
    if (count < most) add(key.name + " to be deleted");
  }
  for (const store::Key& key : look.members.unavailable) {
    if (count == most) break;
    const auto machine = store_.get(key);
    if (!machine) continue;
    const auto document = machine->document();
    const Json& status = api::member(*document, "status");
    const std::string state = api::text(api::member(status, "printableStatus"));
    const std::string why = api::text(api::member(api::find_condition(status, "Ready"), "message"));
    std::string text = key.name + " to become ready";
    if (!state.empty() && state != "Running") text += " (" + state + ")";
    if (!why.empty()) text += " (" + why + ")";
    add(text);
  }
  const std::size_t all = look.members.deleting.size() + look.members.unavailable.size();
  if (count > 0 && all > count) names += " and " + std::to_string(all - count) + " more";
  return names;
}

void PoolController::write_status(Look& look) {
  Json& status = look.status;
  const auto now = scheduler_.now();
  const bool paused = look.paused();
  const bool said_paused = !api::find_condition(status, "ReplicaPaused").is_null();
  const bool fails_now = look.pass().tell(status);
  if (paused && !said_paused) {
    api::set_condition(
        status, {"ReplicaPaused", true, "SuccessfulPaused", "Pool controller is paused"}, now);
  } else if (!paused && said_paused) {
    api::remove_condition(status, "ReplicaPaused");
  }
  if (status == api::member(*look.document, "status")) return;
  try {
    store_.write(
        look.key, api::replace_status(look.state.uid, status),
        [this, key = look.key, uid = look.state.uid, object = look.object, paused, said_paused,
         failure = look.pass().failure(), fails_now](const Store::Outcome& outcome) {
          const auto it = states_.find(key);
          if (it != states_.end() && it->second.uid == uid) it->second.writing = false;
          if (outcome.error) {
            queue_.retry(key);
            return;
          }
          queue_.add(key);
          if (fails_now) {
            events_.record(*object, EventType::warning, component, failure->reason,
                           failure->message);
          }
          if (paused != said_paused) {
            events_.record(*object, EventType::normal, component,
                           paused ? "SuccessfulPaused" : "SuccessfulResume",
                           paused ? "Pool is paused" : "Pool is unpaused");
          }
        });
    look.state.writing = true;
  } catch (const store::Overloaded&) {
    queue_.retry(look.key);
  }
}

}  // namespace virtset
