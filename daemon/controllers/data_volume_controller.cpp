#include "daemon/controllers/data_volume_controller.h"

#include "api/kinds/admission.h"
#include "api/kinds/conditions.h"
#include "api/kinds/datavolume/rules.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

constexpr const char* component = "datavolume-controller";

store::Key claim_of(const store::Key& data_volume) {
  return {api::core_group, api::claim_kind, data_volume.ns, data_volume.name};
}

bool is_copy(const Json& data_volume) {
  return api::member(data_volume, "spec", "source").contains("pvc");
}

// What the claim is to be filled from: CDI's annotations.
Json source_annotations(const std::string& ns, const Json& source) {
  if (const Json& http = api::member(source, "http"); http.is_object()) {
    Json annotations{{api::source_annotation, "http"}, {api::endpoint_annotation, http["url"]}};
    if (http.contains("checksum")) annotations[api::checksum_annotation] = http["checksum"];
    return annotations;
  }
  if (const Json& registry = api::member(source, "registry"); registry.is_object()) {
    return {{api::source_annotation, "registry"}, {api::endpoint_annotation, registry["url"]}};
  }
  if (const Json& pvc = api::member(source, "pvc"); pvc.is_object()) {
    const std::string from = api::text(api::member(pvc, "namespace"));
    return {{api::clone_annotation, (from.empty() ? ns : from) + "/" + api::text(pvc["name"])}};
  }
  return {{api::source_annotation, "none"}};
}

// CDI's names of what the claim says in its own.
std::string phase_for(const Json& data_volume, const Json& claim) {
  const std::string claim_phase = api::text(api::member(claim, "status", "phase"));
  if (claim_phase == "Bound") return "Succeeded";
  if (claim_phase == "Lost") return "Failed";
  const std::string stage = api::text(api::member(claim, "status", "provisioning", "stage"));
  const std::string verb = is_copy(data_volume) ? "Clone" : "Import";
  if (stage == "Scheduled" || stage == "Waiting") return verb + "Scheduled";
  if (stage == "InProgress" || stage == "Failed") return verb + "InProgress";
  return "Pending";
}

}  // namespace

DataVolumeController::DataVolumeController(Store& store, api::Scheduler& scheduler,
                                           EventRecorder& events)
    : store_(store),
      scheduler_(scheduler),
      events_(events),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void DataVolumeController::start() {
  for (const auto& object : store_.list(api::cdi_group, api::data_volume_kind)) {
    queue_.add(object->key());
  }
}

void DataVolumeController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  const bool ours = key.group == api::cdi_group && key.kind == api::data_volume_kind;
  if (ours && change.type == store::Change::Type::deleted) {
    queue_.forget(key);
  } else if (ours) {
    queue_.add(key);
  } else if (key.group == api::core_group && key.kind == api::claim_kind) {
    queue_.add({api::cdi_group, api::data_volume_kind, key.ns, key.name});
  }
}

void DataVolumeController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  // Its claim goes by its owner reference.
  if (!object || api::is_deleting(*object->document())) return;
  const store::ObjectPtr claim = store_.get(claim_of(key));
  try {
    switch (whose(*object->document(), claim.get())) {
      case Claim::absent:
        create_claim(key, *object);
        break;
      case Claim::adoptable:
        adopt_claim(key, *object);
        break;
      default:
        break;
    }
    write_status(key, *object);
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  } catch (const std::exception& error) {
    // Admission has its reasons; they may go away with a new version of the daemon.
    events_.record(*object, EventType::warning, component, "ErrClaimNotValid", error.what());
    queue_.retry(key);
  }
}

DataVolumeController::Claim DataVolumeController::whose(const Json& data_volume,
                                                        const store::Object* claim) const {
  if (!claim) return Claim::absent;
  const auto document = claim->document();
  const Json& owner = api::controller_of(*document);
  const Json& metadata = api::member(data_volume, "metadata");
  if (api::is_deleting(*document)) return Claim::leaving;
  if (api::text(api::member(owner, "uid")) == api::text(api::member(metadata, "uid"))) {
    return Claim::ours;
  }
  const std::string made_for = api::annotation(*document, api::populated_for_annotation);
  const bool left_behind = owner.is_null() && made_for == api::text(api::member(metadata, "name"));
  return left_behind ? Claim::adoptable : Claim::foreign;
}

void DataVolumeController::create_claim(const store::Key& key, const store::Object& data_volume) {
  const auto document = data_volume.document();
  Json annotations = source_annotations(key.ns, api::member(*document, "spec", "source"));
  annotations[api::populated_for_annotation] = key.name;
  Json claim{{"metadata",
              {{"name", key.name},
               {"annotations", std::move(annotations)},
               {"ownerReferences", Json::array({api::controller_reference(*document)})}}},
             {"spec", api::claim_part(api::member(*document, "spec"))}};
  if (const Json& labels = api::member(*document, "metadata", "labels"); labels.is_object()) {
    claim["metadata"]["labels"] = labels;
  }
  const api::Kind& kind = *api::builtin_kinds().find(api::core_group, api::claim_kind);
  Json admitted =
      api::admit_new(kind, std::move(claim), {key.ns, [](const std::string&) { return false; }},
                     api::FieldValidation::ignore, scheduler_.now())
          .object;
  store_.write(
      claim_of(key),
      [this, key, uid = data_volume.uid(),
       admitted = std::move(admitted)](const store::Object* current) mutable {
        // It may have been deleted, or somebody else may have made one.
        if (current || !api::may_own(store_, key, uid)) return Store::Mutation::nothing();
        return Store::Mutation::put(std::move(admitted));
      },
      [this, key](const Store::Outcome& outcome) {
        if (outcome.error) queue_.retry(key);
      });
}

void DataVolumeController::adopt_claim(const store::Key& key, const store::Object& data_volume) {
  store_.write(
      claim_of(key),
      [this, reference = api::controller_reference(*data_volume.document()),
       of = data_volume.document()](const store::Object* current) {
        if (!current || whose(*of, current) != Claim::adoptable) return Store::Mutation::nothing();
        Json document = *current->document();
        document["metadata"]["ownerReferences"].push_back(reference);
        return Store::Mutation::put(std::move(document));
      },
      [this, key](const Store::Outcome& outcome) {
        if (outcome.error) queue_.retry(key);
      });
}

Json DataVolumeController::status_for(const Json& data_volume, const store::Object* object) const {
  const auto now = scheduler_.now();
  Json status = api::member(data_volume, "status");
  if (!status.is_object()) status = Json::object();
  const std::string name = api::text(api::member(data_volume, "metadata", "name"));
  const Claim claim = whose(data_volume, object);
  const std::string verb = is_copy(data_volume) ? "Clone" : "Import";
  const auto says = [&](const char* type, bool holds, const std::string& reason,
                        const std::string& message) {
    api::set_condition(status, {type, holds, reason, message}, now);
  };
  if (claim != Claim::ours) {
    status["phase"] = "Pending";
    status["progress"] = "N/A";
    status.erase("claimName");
    std::string reason = "NotFound";
    std::string message = "No PVC found";
    if (claim == Claim::leaving) {
      reason = "Terminating";
      message = "PVC " + name + " is being deleted, waiting for it to be gone";
    } else if (claim == Claim::foreign) {  // CDI's words
      reason = "ErrResourceExists";
      message = "Resource \"" + name + "\" already exists and is not managed by DataVolume";
    }
    says("Bound", false, reason, message);
    says("Running", false, "", "");
    says("Ready", false, reason, message);
    return status;
  }
  const Json& document = *object->document();
  const std::string phase = phase_for(data_volume, document);
  const Json& provisioning = api::member(document, "status", "provisioning");
  const std::string progress = api::text(api::member(provisioning, "progress"));
  status["phase"] = phase;
  status["claimName"] = name;
  status["progress"] = phase == "Succeeded" ? "100.0%" : progress.empty() ? "N/A" : progress;
  if (const Json& count = api::member(provisioning, "restartCount"); count.is_number()) {
    status["restartCount"] = count;
  }
  const bool done = phase == "Succeeded";
  const std::string claim_phase = api::text(api::member(document, "status", "phase"));
  says("Bound", done, claim_phase, "PVC " + name + " " + claim_phase);
  const Json& populated = api::find_condition(api::member(document, "status"), "Populated");
  if (done) {
    says("Running", false, "Completed", verb + " Complete");
  } else if (populated.is_object()) {
    says("Running", false, api::text(api::member(populated, "reason")),
         api::text(api::member(populated, "message")));
  } else {
    says("Running", phase.ends_with("InProgress"), phase, "");
  }
  says("Ready", done, done ? "" : "TransferRunning", "");
  return status;
}

void DataVolumeController::write_status(const store::Key& key, const store::Object& data_volume) {
  auto before = std::make_shared<Json>();
  store_.write(
      key,
      [this, key, uid = data_volume.uid(), before](const store::Object* current) {
        if (!current || current->uid() != uid) return Store::Mutation::nothing();
        Json document = *current->document();
        const auto claim = store_.get(claim_of(key));
        Json status = status_for(document, claim.get());
        *before = api::member(document, "status");
        if (status == *before) return Store::Mutation::nothing();
        document["status"] = std::move(status);
        return api::put_or_finish(std::move(document));
      },
      [this, key, before](const Store::Outcome& outcome) {
        if (outcome.error) {
          queue_.retry(key);
        } else if (outcome.changed) {
          tell(*outcome.object, *before, api::member(*outcome.object->document(), "status"));
        }
      });
}

// What has changed, as events. CDI's reasons where it has some.
void DataVolumeController::tell(const store::Object& data_volume, const Json& before,
                                const Json& after) const {
  const std::string phase = api::text(api::member(after, "phase"));
  const bool copy = is_copy(*data_volume.document());
  const std::string& name = data_volume.key().name;
  if (phase != api::text(api::member(before, "phase"))) {
    if (phase == "Succeeded") {
      events_.record(
          data_volume, EventType::normal, component, copy ? "CloneSucceeded" : "ImportSucceeded",
          "Successfully " + std::string(copy ? "cloned" : "imported") + " into PVC " + name);
    } else if (phase != "Pending") {
      events_.record(data_volume, EventType::normal, component, phase, phase + " into PVC " + name);
    }
  }
  for (const char* type : {"Running", "Bound"}) {
    const Json& condition = api::find_condition(after, type);
    const std::string message = api::text(api::member(condition, "message"));
    const std::string reason = api::text(api::member(condition, "reason"));
    const Json& earlier = api::find_condition(before, type);
    const bool trouble = type == std::string("Running") ? !message.empty() && reason != "Completed"
                                                        : reason == "ErrResourceExists";
    if (trouble && message != api::text(api::member(earlier, "message"))) {
      events_.record(data_volume, EventType::warning, component, reason, message);
    }
  }
}

}  // namespace virtset
