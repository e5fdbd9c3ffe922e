#include <spdlog/spdlog.h>

#include "api/kinds/admission.h"
#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachine/rules.h"
#include "daemon/controllers/machine/controller.h"
#include "store/errors.h"

namespace virtset {

using api::StateChanges;
using store::Json;
using store::Store;

namespace {

const std::string create_error = "Error creating virtual machine instance: ";

// An object that is not there becomes one.
Json object_or_empty(const Json& json) { return json.is_object() ? json : Json::object(); }

// The cards keep their addresses over the runs of the instance.
void keep_addresses(Json& interfaces, const Json& known) {
  for (Json& interface : interfaces) {
    if (!api::text(api::member(interface, "macAddress")).empty()) continue;
    for (const Json& entry : known) {
      const Json& mac = api::member(entry, "mac");
      if (mac.is_string() && api::member(entry, "name") == interface["name"]) {
        interface["macAddress"] = mac;
      }
    }
  }
}

}  // namespace

void MachineController::perform(Look& look, Step step, const Json& status) {
  const auto now = scheduler_.steady_now();
  if (step == Step::none) return;
  if (now < look.state.hold_until) {
    queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(look.state.hold_until - now));
    return;
  }
  if (step == Step::remove) {
    remove_instance(look, StateChanges::of(status).grace_period);
  } else if (look.name_taken) {
    // Its change or end leads back here.
    look.state.failure = {"FailedCreate", "there is a virtual machine instance " + look.key.name +
                                              " that something else manages"};
    if (api::find_condition(status, "Failure").is_null()) {
      events_.record(*look.object, EventType::warning, component, "FailedCreate",
                     create_error + look.state.failure->message);
    }
  } else {
    create_instance(look, status);
  }
}

void MachineController::create_instance(Look& look, const Json& status) {
  const Json& machine_template = look.spec()["template"];
  const Json& metadata = api::member(machine_template, "metadata");
  Json labels = object_or_empty(api::member(metadata, "labels"));
  labels["vm.kubevirt.io/name"] = look.key.name;
  Json annotations = object_or_empty(api::member(metadata, "annotations"));
  annotations["kubevirt.io/vm-generation"] =
      std::to_string(api::integer(api::member(*look.document, "metadata", "generation"), 0));
  if (const std::string state = api::annotation(*look.document, api::restore_annotation);
      !state.empty()) {
    annotations[api::restore_annotation] = state;
  }
  annotations[api::template_annotation] = api::template_hash(look.spec());
  Json instance{{"metadata",
                 {{"name", look.key.name},
                  {"labels", std::move(labels)},
                  {"annotations", std::move(annotations)},
                  {"ownerReferences", Json::array({api::controller_reference(*look.document)})}}},
                {"spec", api::member(machine_template, "spec")}};
  const store::Key key{api::kubevirt_group, api::instance_kind, look.key.ns, look.key.name};
  try {
    const api::Kind& kind = *api::builtin_kinds().find(key.group, key.kind);
    Json object = api::admit_new(kind, std::move(instance), {look.key.ns, nullptr},
                                 api::FieldValidation::ignore, scheduler_.now())
                      .object;
    if (Json& devices = object["spec"]["domain"]["devices"]; devices.contains("interfaces")) {
      keep_addresses(devices["interfaces"], api::member(status, "interfaces"));
    }
    store_new(
        look, key, std::move(object), "SuccessfulCreate",
        "Started the virtual machine by creating the new virtual machine instance " + key.name);
  } catch (const std::exception& error) {
    failed(look, "FailedCreate", error.what(), create_error);
  }
}

// Unless there is one, or the machine is on its way out.
void MachineController::store_new(const Look& look, const store::Key& key, Json object,
                                  const std::string& reason, const std::string& message) {
  write(
      look, key,
      [this, object = std::move(object), machine = look.key,
       uid = look.object->uid()](const store::Object* current) mutable {
        if (current || !api::may_own(store_, machine, uid)) return Store::Mutation::nothing();
        return Store::Mutation::put(std::move(object));
      },
      [this, machine = look.object, reason, message](const Store::Outcome& outcome) {
        if (outcome.changed) {
          events_.record(*machine, EventType::normal, component, reason, message);
        }
      });
}

void MachineController::remove_instance(Look& look, std::optional<std::int64_t> grace_period) {
  // Whoever deletes the machine may want its memory.
  const std::string save_as =
      api::is_deleting(*look.document) ? api::annotation(*look.document, api::save_annotation) : "";
  write(
      look, look.instance->key(),
      [uid = look.instance->uid(), owner = look.object->uid(), grace_period, save_as,
       now = scheduler_.now()](const store::Object* current) {
        // The gate before anything is destroyed: still this instance, and still ours.
        const bool allowed =
            current && current->uid() == uid && api::controller_uid(*current->document()) == owner;
        if (!allowed) return Store::Mutation::nothing();
        Json document = *current->document();
        if (!save_as.empty()) document["metadata"]["annotations"][api::save_annotation] = save_as;
        return api::begin_deletion(std::move(document), std::nullopt, grace_period, now);
      },
      [this, object = look.object, uid = look.instance->uid()](const Store::Outcome& outcome) {
        if (outcome.changed) {
          events_.record(
              *object, EventType::normal, component, "SuccessfulDelete",
              "Stopped the virtual machine by deleting the virtual machine instance " + uid);
        }
      });
}

void MachineController::adopt(Look& look, const store::Key& key, const std::string& uid) {
  write(
      look, key,
      [this, uid, owner = api::controller_reference(*look.document),
       machine = look.key](const store::Object* current) {
        if (!current || current->uid() != uid || !api::may_own(store_, machine, owner["uid"])) {
          return Store::Mutation::nothing();
        }
        Json document = *current->document();
        if (!api::is_adoptable(document)) return Store::Mutation::nothing();
        document["metadata"]["ownerReferences"].push_back(owner);
        return Store::Mutation::put(std::move(document));
      },
      nullptr);
}

// Makes the DataVolumes of the templates, and takes over those that an earlier virtual machine of
// this name has left behind.
void MachineController::ensure_disks(Look& look) {
  for (const Json& disk : api::member(look.spec(), "dataVolumeTemplates")) {
    const store::Key key{api::cdi_group, api::data_volume_kind, look.key.ns,
                         api::text(api::member(disk, "metadata", "name"))};
    const store::ObjectPtr found = store_.get(key);
    if (!found) {
      look.disks_wait = "Provisioning";
      create_disk(look, disk);
      continue;
    }
    const auto document = found->document();
    const Json& owner = api::controller_of(*document);
    if (api::is_deleting(*document)) {
      look.disks_wait = "Provisioning";
    } else if (owner.is_null()) {
      adopt(look, key, found->uid());
    } else if (api::text(api::member(owner, "uid")) != look.object->uid()) {
      look.disks_wait = "DataVolumeError";
      look.state.failure = {"FailedDataVolume", "DataVolume " + key.name + " belongs to " +
                                                    api::text(owner["kind"]) + " " +
                                                    api::text(owner["name"])};
    }
    const std::string phase = api::text(api::member(*document, "status", "phase"));
    if (phase == "Succeeded" || !look.disks_wait.empty()) continue;
    look.disks_wait = phase == "Failed"                     ? "DataVolumeError"
                      : phase.empty() || phase == "Pending" ? "WaitingForVolumeBinding"
                                                            : "Provisioning";
  }
}

void MachineController::create_disk(Look& look, const Json& disk) {
  Json metadata{{"name", disk["metadata"]["name"]},
                {"labels", object_or_empty(api::member(disk, "metadata", "labels"))},
                {"annotations", object_or_empty(api::member(disk, "metadata", "annotations"))},
                {"ownerReferences", Json::array({api::controller_reference(*look.document)})}};
  // KubeVirt: by which it finds them again.
  metadata["labels"]["kubevirt.io/created-by"] = look.object->uid();
  const store::Key key{api::cdi_group, api::data_volume_kind, look.key.ns,
                       api::text(metadata["name"])};
  try {
    const api::Kind& kind = *api::builtin_kinds().find(key.group, key.kind);
    Json object =
        api::admit_new(kind, {{"metadata", metadata}, {"spec", disk["spec"]}},
                       {look.key.ns, nullptr}, api::FieldValidation::ignore, scheduler_.now())
            .object;
    store_new(look, key, std::move(object), "SuccessfulDataVolumeCreate",
              "Created DataVolume " + key.name);
  } catch (const std::exception& error) {
    failed(look, "FailedDataVolumeCreate", error.what(), "Error creating DataVolume: ");
  }
}

// A step of its own: the machine is looked at again when it is done.
void MachineController::write(const Look& look, const store::Key& key, Store::Mutate mutate,
                              std::function<void(const Store::Outcome&)> done) {
  try {
    store_.write(key, std::move(mutate),
                 [this, machine = look.key, uid = look.object->uid(), object = look.object, key,
                  done = std::move(done)](const Store::Outcome& outcome) {
                   const auto it = states_.find(machine);
                   if (it == states_.end() || it->second.uid != uid) return;
                   State& state = it->second;
                   --state.in_flight;
                   if (outcome.error) {
                     const std::string why = what(outcome.error);
                     spdlog::warn("{}/{}: {} {}: {}", machine.ns, machine.name, key.kind, key.name,
                                  why);
                     state.failure = {"FailedWrite", why};
                     state.hold_until = scheduler_.steady_now() + queue_.retry(machine);
                     return;
                   }
                   queue_.forget(machine);
                   queue_.add(machine);
                   if (done) done(outcome);
                 });
    ++look.state.in_flight;
  } catch (const store::Overloaded&) {
    queue_.retry(look.key);
  }
}

void MachineController::failed(const Look& look, const std::string& reason,
                               const std::string& message, const std::string& event) {
  events_.record(*look.object, EventType::warning, component, reason, event + message);
  look.state.failure = {reason, message};
  look.state.hold_until = scheduler_.steady_now() + queue_.retry(look.key);
}

}  // namespace virtset
