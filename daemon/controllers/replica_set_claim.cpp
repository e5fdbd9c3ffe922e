#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "daemon/controllers/replica_set_controller.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

// Lets go of replicas that the selector does not find any more, and adopts instances that it finds
// and nobody manages. True if that changes anything: then the set is looked at again when it is
// done.
bool ReplicaSetController::claim(Look& look) {
  if (look.members) {
    for (const store::Key& key : std::exchange(look.members->unchecked, {})) {
      const auto instance = store_.get(key);
      if (!instance) continue;
      const Json& labels = api::member(*instance->document(), "metadata", "labels");
      if (!look.state.selector.matches(labels)) release(look, look.members->all.at(key));
    }
  }
  for (const store::Key& key : std::exchange(look.state.candidates, {})) adopt(look, key);
  return look.state.in_flight > 0;
}

// KubeVirt: wipes all owner references; the instance runs on as an orphan.
void ReplicaSetController::release(Look& look, const Replica& replica) {
  ++look.state.in_flight;
  store_.write(
      replica.key,
      [uid = replica.uid, owner = look.state.uid](const store::Object* current) {
        if (!current || current->uid() != uid) return Store::Mutation::nothing();
        Json document = *current->document();
        if (api::controller_uid(document) != owner) {
          return Store::Mutation::nothing();
        }
        document["metadata"].erase("ownerReferences");
        return api::put_or_finish(std::move(document));
      },
      [this, set = look.object, uid = look.state.uid,
       name = replica.key.name](const Store::Outcome& outcome) {
        if (outcome.error) {
          queue_.retry(set->key());
        } else if (outcome.changed) {
          events_.record(*set, EventType::normal, component, "SuccessfulRelease",
                         "Released virtual machine instance " + name +
                             ": its labels do not match the selector any more. It runs on alone.");
        }
        write_done(set->key(), uid, std::nullopt);
      });
}

// KubeVirt: whatever its phase. Two sets of the same selector: the first one wins.
void ReplicaSetController::adopt(Look& look, const store::Key& instance) {
  const auto candidate = store_.get(instance);
  if (!candidate) return;
  ++look.state.in_flight;
  Json owner{
      {"apiVersion", "kubevirt.io/v1"}, {"kind", look.key.kind}, {"name", look.key.name},
      {"uid", look.state.uid},          {"controller", true},    {"blockOwnerDeletion", true}};
  store_.write(
      instance,
      [this, uid = candidate->uid(), owner, set = look.key](const store::Object* current) {
        // As things are now: somebody may have been faster, or the set may be on its way out.
        const auto fresh = store_.get(set);
        const bool set_is_there =
            fresh && fresh->uid() == owner["uid"] && !api::is_deleting(*fresh->document());
        if (!current || current->uid() != uid || !set_is_there) return Store::Mutation::nothing();
        Json document = *current->document();
        if (!api::controller_of(document).is_null() || api::is_deleting(document)) {
          return Store::Mutation::nothing();
        }
        document["metadata"]["ownerReferences"] = Json::array({owner});
        return Store::Mutation::put(std::move(document));
      },
      [this, key = look.key, uid = look.state.uid, instance](const Store::Outcome& outcome) {
        const auto state = states_.find(key);
        if (outcome.error && state != states_.end()) {
          state->second.candidates.insert(instance);
          queue_.retry(key);
        }
        write_done(key, uid, std::nullopt);
      });
}

}  // namespace virtset
