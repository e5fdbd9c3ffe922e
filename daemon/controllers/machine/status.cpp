#include "api/kinds/virtualmachineinstance/status.h"

#include <set>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachine/rules.h"
#include "daemon/controllers/machine/controller.h"

namespace virtset {

using api::Phase;
using store::Json;
using store::Store;

namespace {

bool is_false(const Json& status, const char* type, const char* reason) {
  const Json& condition = api::find_condition(status, type);
  return api::text(api::member(condition, "status")) == "False" &&
         api::text(api::member(condition, "reason")) == reason;
}

// KubeVirt: conditions of the virtual machine's own; all others are those of its instance.
bool is_own(const std::string& type) {
  return type == "Failure" || type == "RestartRequired" || type == "Ready";
}

void mirror_conditions(Json& status, const Json& instance_status) {
  const Json theirs = api::member(instance_status, "conditions");
  std::set<std::string> gone;
  for (const Json& condition : api::member(status, "conditions")) {
    const std::string type = api::text(api::member(condition, "type"));
    if (!is_own(type) && api::find_condition(instance_status, type).is_null()) gone.insert(type);
  }
  for (const std::string& type : gone) api::remove_condition(status, type);
  for (const Json& condition : theirs) {
    const std::string type = api::text(api::member(condition, "type"));
    Json& own = status["conditions"];
    const auto it = std::find_if(own.begin(), own.end(),
                                 [&](const Json& known) { return known["type"] == type; });
    if (it == own.end()) {
      own.push_back(condition);
    } else {
      *it = condition;
    }
  }
}

// What a live instance waits for before it starts, in KubeVirt's words; "Starting" if nothing is
// wrong.
std::string waiting_status(const Json& status) {
  if (is_false(status, "Synchronized", "FailedPvcNotFound")) return "ErrorPvcNotFound";
  if (is_false(status, "PodScheduled", "Unschedulable")) return "ErrorUnschedulable";
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff"}) {
    if (is_false(status, "Synchronized", reason)) return reason;
  }
  return "Starting";
}

}  // namespace

// KubeVirt: the first that applies, in this order.
std::string MachineController::printable_status(const Look& look, Step step, const Json& status) {
  if (api::is_deleting(*look.document)) return "Terminating";
  const bool is_there = look.instance && !look.is_final();
  if (is_there && (look.is_leaving() || step == Step::remove)) return "Stopping";
  if (is_there && api::phase_of(*look.run) == Phase::running) {
    const bool paused = api::condition_is_true(api::member(*look.run, "status"), "Paused");
    return paused ? "Paused" : "Running";
  }
  if (is_there) return waiting_status(api::member(*look.run, "status"));
  if (!look.disks_wait.empty()) return look.disks_wait;
  if (step == Step::create && !look.name_taken) return "Starting";
  return status.contains("startFailure") ? "CrashLoopBackOff" : "Stopped";
}

// Says how things are. The step is under way.
void MachineController::report(const Look& look, Step step, Json status) {
  const auto now = scheduler_.now();
  if (!status.is_object()) status = Json::object();
  const Json instance_status = look.instance ? api::member(*look.run, "status") : Json::object();
  status["created"] = look.instance != nullptr;
  status["ready"] = api::condition_is_true(instance_status, "Ready");
  mirror_conditions(status, instance_status);
  if (!look.instance) {
    api::set_condition(status, {"Ready", false, "VMINotExists", "VMI does not exist"}, now);
  } else if (api::find_condition(instance_status, "Ready").is_null()) {
    api::set_condition(
        status, {"Ready", false, "VMIConditionMissing", "VMI is missing the Ready condition"}, now);
  }
  if (look.state.failure) {
    api::set_condition(
        status, {"Failure", true, look.state.failure->reason, look.state.failure->message}, now);
  } else {
    api::remove_condition(status, "Failure");
  }
  if (look.is_live() &&
      api::annotation(*look.run, api::template_annotation) != api::template_hash(look.spec())) {
    api::set_condition(status,
                       {"RestartRequired", true, "RestartRequired",
                        "a non-live-updatable field was changed in the template spec"},
                       now);
  } else {
    api::remove_condition(status, "RestartRequired");
  }
  if (const Json addresses = api::addresses_of(instance_status); !addresses.empty()) {
    status["interfaces"] = addresses;
  }
  const Json& metadata = (*look.document)["metadata"];
  status["desiredGeneration"] = api::integer(api::member(metadata, "generation"), 0);
  if (look.instance) {
    const std::string generation = api::annotation(*look.run, "kubevirt.io/vm-generation");
    status["observedGeneration"] = std::atoll(generation.c_str());
  }
  status["printableStatus"] = printable_status(look, step, status);
  write_status(look, std::move(status));
}

void MachineController::write_status(const Look& look, Json status) {
  if (status == api::member(*look.document, "status")) return;
  write(
      look, look.key,
      [uid = look.object->uid(), revision = look.object->revision(),
       status = std::move(status)](const store::Object* current) mutable {
        if (!current || current->uid() != uid) return Store::Mutation::nothing();
        // Somebody asked for something meanwhile: it is looked at again with that.
        if (current->revision() != revision) return Store::Mutation::nothing();
        Json document = *current->document();
        document["status"] = std::move(status);
        return api::put_or_finish(std::move(document));
      },
      nullptr);
}

}  // namespace virtset
