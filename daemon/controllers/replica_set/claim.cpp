#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "daemon/controllers/replica_set/controller.h"

namespace virtset {

using store::Json;
using store::Store;

// Lets go of replicas that the selector does not find any more, and adopts instances that it finds
// and nobody manages. True if that changes anything: then the set is looked at again when it is
// done. What is to be done is remembered until it has happened: the write may fail.
bool ReplicaSetController::claim(Look& look) {
  const auto labels_of = [](const store::Object& instance) {
    return api::member(*instance.document(), "metadata", "labels");
  };
  if (look.members) {
    std::erase_if(look.members->unchecked, [&](const store::Key& key) {
      const auto instance = store_.get(key);
      return !instance || look.state.selector.matches(labels_of(*instance));
    });
    for (const store::Key& key : look.members->unchecked) {
      release(look, look.members->all.at(key));
    }
  }
  std::erase_if(look.state.candidates, [&](const store::Key& key) {
    const auto instance = store_.get(key);
    return !instance || !api::is_adoptable(*instance->document()) ||
           !look.state.selector.matches(labels_of(*instance));
  });
  for (const store::Key& key : look.state.candidates) adopt(look, key);
  return look.pass().is_under_way();
}

// KubeVirt: wipes all owner references; the instance runs on as an orphan.
void ReplicaSetController::release(Look& look, const Replica& replica) {
  look.pass().order(
      look.object, replica.key,
      {"FailedUpdate", "error releasing " + replica.key.name + ": ", "SuccessfulRelease",
       "Released virtual machine instance " + replica.key.name +
           ": its labels do not match the selector any more. It runs on alone."},
      [uid = replica.uid, owner = look.state.uid](const store::Object* current) {
        if (!current || current->uid() != uid) return Store::Mutation::nothing();
        Json document = *current->document();
        if (api::controller_uid(document) != owner) return Store::Mutation::nothing();
        document["metadata"].erase("ownerReferences");
        return api::put_or_finish(std::move(document));
      });
}

// KubeVirt: whatever its phase. Two sets of the same selector: the first one wins.
void ReplicaSetController::adopt(Look& look, const store::Key& instance) {
  look.pass().order(
      look.object, instance, {"FailedUpdate", "error adopting " + instance.name + ": "},
      [this, uid = store_.get(instance)->uid(), set = look.key,
       owner = api::controller_reference(*look.document)](const store::Object* current) {
        // As things are now: somebody may have been faster, or the set may be on its way out.
        if (!current || current->uid() != uid || !api::may_own(store_, set, owner["uid"])) {
          return Store::Mutation::nothing();
        }
        Json document = *current->document();
        if (!api::is_adoptable(document)) return Store::Mutation::nothing();
        document["metadata"]["ownerReferences"] = Json::array({owner});
        return Store::Mutation::put(std::move(document));
      });
}

}  // namespace virtset
