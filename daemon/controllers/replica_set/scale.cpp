#include <algorithm>
#include <tuple>

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "daemon/controllers/replica_set/controller.h"

namespace virtset {

using store::Json;
using store::Store;

void ReplicaSetController::scale(Look& look, bool may_create) {
  const auto wanted = static_cast<std::size_t>(
      std::max<std::int64_t>(0, api::integer(api::member(look.spec(), "replicas"), 1)));
  const std::size_t active = look.active();
  if (active < wanted && may_create) {
    create(look, std::min(wanted - active, options_.burst));
  } else if (active > wanted) {
    remove(look, std::min(active - wanted, options_.burst));
  }
}

void ReplicaSetController::create(Look& look, std::size_t count) {
  // They are all made from one template: if one is refused the others would be too.
  for (std::size_t i = 0; i < count && !look.pass().has_failed(); ++i) create_one(look);
}

void ReplicaSetController::create_one(Look& look) {
  const Json& set_template = look.spec()["template"];
  const Json& metadata = api::member(set_template, "metadata");
  // KubeVirt: the template's name, else its generateName, else the set's name; without a dash.
  std::string base = api::text(api::member(metadata, "name"));
  if (base.empty()) base = api::text(api::member(metadata, "generateName"));
  if (base.empty()) base = look.key.name;
  Json instance{{"metadata",
                 {{"generateName", base},
                  {"labels", api::member(metadata, "labels")},
                  {"annotations", api::member(metadata, "annotations")},
                  {"ownerReferences", Json::array({api::controller_reference(*look.document)})}}},
                {"spec", api::member(set_template, "spec")}};
  const api::Kind& kind = *api::builtin_kinds().find(api::kubevirt_group, api::instance_kind);
  store::Key key{api::kubevirt_group, api::instance_kind, look.key.ns, ""};
  Order order{.failure = "FailedCreate",
              .done_reason = "SuccessfulCreate",
              .failed_reason = "FailedCreate",
              .failed_message = "Error creating virtual machine instance: "};
  try {
    const api::Destination destination{look.key.ns, [&](const std::string& name) {
                                         key.name = name;
                                         return store_.get(key) || store_.busy(key);
                                       }};
    Json object = api::admit_new(kind, std::move(instance), destination,
                                 api::FieldValidation::ignore, scheduler_.now())
                      .object;
    key.name = object["metadata"]["name"];
    order.done_message =
        "Started the virtual machine by creating the new virtual machine instance " + key.name;
    look.pass().order(look.object, key, order,
                      [this, object = std::move(object), set = look.key,
                       uid = look.state.uid](const store::Object* current) mutable {
                        if (current)
                          throw std::runtime_error(current->key().name + " already exists");
                        // The set may have been deleted since.
                        if (!api::may_own(store_, set, uid)) return Store::Mutation::nothing();
                        return Store::Mutation::put(std::move(object));
                      });
  } catch (const std::exception& error) {
    look.pass().fail(*look.object, order, error.what());
  }
}

// Not ready first, then the newest.
void ReplicaSetController::remove(Look& look, std::size_t count) {
  std::vector<const Replica*> victims;
  for (const auto& [key, replica] : look.members->all) {
    if (replica.state == Replica::State::active) victims.push_back(&replica);
  }
  std::sort(victims.begin(), victims.end(), [](const Replica* a, const Replica* b) {
    return std::tie(a->ready, b->created, b->key) < std::tie(b->ready, a->created, a->key);
  });
  for (std::size_t i = 0; i < count && i < victims.size(); ++i) {
    remove_one(look, *victims[i], false);
  }
}

void ReplicaSetController::remove_finished(Look& look) {
  if (!look.members) return;
  std::size_t removed = 0;
  for (const store::Key& key : look.members->finished) {
    if (removed++ == options_.burst) return;
    remove_one(look, look.members->all.at(key), true);
  }
}

void ReplicaSetController::remove_one(Look& look, const Replica& replica, bool finished) {
  const Order order{
      .failure = "FailedDelete",
      .done_reason = "SuccessfulDelete",
      .done_message = (finished ? "Deleted finished virtual machine: "
                                : "Stopped the virtual machine by deleting the virtual machine "
                                  "instance ") +
                      replica.uid,
      .failed_reason = "FailedDelete",
      .failed_message = (finished ? "Error deleting finished virtual machine "
                                  : "Error deleting virtual machine instance ") +
                        replica.key.name + ": "};
  look.pass().order(
      look.object, replica.key, order,
      [this, uid = replica.uid, set = look.key, owner = look.state.uid,
       now = scheduler_.now()](const store::Object* current) {
        // The gate before anything is destroyed: still this instance, still this set's, and the
        // set is not paused.
        const auto fresh = store_.get(set);
        const bool allowed = current && current->uid() == uid && fresh && fresh->uid() == owner &&
                             api::controller_uid(*current->document()) == owner &&
                             !api::truth(api::member(*fresh->document(), "spec", "paused"));
        if (!allowed) return Store::Mutation::nothing();
        return api::begin_deletion(*current->document(), std::nullopt, std::nullopt, now);
      });
}

}  // namespace virtset
