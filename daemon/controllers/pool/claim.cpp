#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/controller.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

// Puts our finalizer on the pool, also on a paused one; those of others stay. False if it was not
// there: then the pool is looked at again.
bool PoolController::take_hold(Look& look) {
  if (api::has_finalizer(*look.document, api::pool_finalizer)) return true;
  look.order(look.key, {"FailedUpdate", "error adding the finalizer: "},
             [uid = look.state.uid](const store::Object* current) {
               if (!current || current->uid() != uid || api::is_deleting(*current->document()) ||
                   api::has_finalizer(*current->document(), api::pool_finalizer)) {
                 return Store::Mutation::nothing();
               }
               Json document = *current->document();
               document["metadata"]["finalizers"].push_back(api::pool_finalizer);
               return Store::Mutation::put(std::move(document));
             });
  look.pass().end_if_idle();
  return false;
}

// Lets go of machines that the selector does not find any more. KubeVirt: wipes all owner
// references; the machine runs on alone.
void PoolController::claim(Look& look) {
  // One that is to go stays in it until it has gone: the write may fail.
  std::erase_if(look.members.unchecked, [&](const store::Key& key) {
    const auto machine = store_.get(key);
    return !machine ||
           look.state.selector.matches(api::member(*machine->document(), "metadata", "labels"));
  });
  for (const store::Key& key : look.members.unchecked) {
    const auto machine = store_.get(key);
    look.order(key,
               {"FailedUpdate", "error releasing: ", "SuccessfulRelease",
                "Released VM " + key.ns + "/" + key.name +
                    ": its labels do not match the selector any more. It runs on alone."},
               [uid = machine->uid(), owner = look.state.uid](const store::Object* current) {
                 if (!current || current->uid() != uid) return Store::Mutation::nothing();
                 Json document = *current->document();
                 if (api::controller_uid(document) != owner) return Store::Mutation::nothing();
                 document["metadata"].erase("ownerReferences");
                 api::remove_finalizer(document, api::pool_finalizer);
                 return api::put_or_finish(std::move(document));
               });
  }
}

// Takes our finalizer off the machines that are being deleted, whoever did that and whatever the
// strategies say (KubeVirt leaves some of them hanging), once the disks that are to stay are safe
// from the garbage collector.
void PoolController::release_deleted(Look& look) {
  for (const store::Key& key : look.members.deleting) {
    const PoolMember& member = look.members.all.at(key);
    if (!member.finalizer || preserve_state(look, member)) continue;
    look.order(key, {"FailedScaleIn", "error removing the finalizer: "},
               api::release(member.uid, api::pool_finalizer));
  }
}

// The pool goes when none of its machines depends on it any more; what becomes of them is up to the
// garbage collector. Its revisions go first, as nobody could find them after an orphaning.
void PoolController::finish_deletion(Look& look) {
  release_deleted(look);
  for (const auto& [key, member] : look.members.all) {
    if (!member.finalizer || member.deleting) continue;
    look.order(key, {"FailedUpdate", "error removing the finalizer: "},
               api::release(member.uid, api::pool_finalizer));
  }
  if (const auto* revisions = revisions_.of(look.state.uid)) {
    for (const auto& [number, revision] : *revisions) {
      look.order(revision.key, {"FailedRevisionPruning"},
                 [uid = revision.uid](const store::Object* current) {
                   return current && current->uid() == uid ? Store::Mutation::remove()
                                                           : Store::Mutation::nothing();
                 });
    }
  }
  if (look.pass().is_under_way()) return;
  if (look.pass().has_failed()) {
    look.pass().end_if_idle();
    return;
  }
  if (!api::has_finalizer(*look.document, api::pool_finalizer)) return;
  look.order(look.key, {"FailedUpdate"}, api::release(look.state.uid, api::pool_finalizer));
  look.pass().end_if_idle();
}

// A machine that has left its pool must not wait for it when it is deleted; a revision must not
// outlive its pool.
void PoolController::release_stray(const store::Key& key) {
  try {
    store_.write(
        key,
        [this](const store::Object* current) {
          if (!current) return Store::Mutation::nothing();
          Json document = *current->document();
          if (current->key().kind == api::controller_revision_kind) {
            const std::string pool =
                api::text(api::member(document, "metadata", "labels", pool_uid_label));
            return pool.empty() || pools_.contains(pool) ? Store::Mutation::nothing()
                                                         : Store::Mutation::remove();
          }
          const std::string owner = api::controller_uid(document);
          if (pools_.contains(owner) || !api::has_finalizer(document, api::pool_finalizer)) {
            return Store::Mutation::nothing();
          }
          api::remove_finalizer(document, api::pool_finalizer);
          return api::put_or_finish(std::move(document));
        },
        [this, key](const Store::Outcome& outcome) {
          if (outcome.error) {
            queue_.retry(key);
          } else {
            queue_.forget(key);
          }
        });
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

}  // namespace virtset
