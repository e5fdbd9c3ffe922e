#include "api/kinds/admission.h"
#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/controller.h"

namespace virtset {

using store::Json;
using store::Store;

// KubeVirt: of the present state of the pool.
std::string PoolController::target_revision(const Look& look) const {
  return look.key.name + "-" + std::to_string(look.generation());
}

// Whether it is there. If not it is made, and the pool is looked at again.
bool PoolController::ensure_revision(Look& look, const Order& what) {
  const std::string name = target_revision(look);
  if (revisions_.find(look.state.uid, name)) return true;
  const store::Key key{api::apps_group, api::controller_revision_kind, look.key.ns, name};
  Json revision{{"metadata",
                 {{"name", name},
                  {"labels", {{pool_uid_label, look.state.uid}}},
                  {"ownerReferences", Json::array({api::controller_reference(*look.document)})}}},
                {"revision", look.generation()},
                {"data", look.spec()}};
  auto object = admit(look, key, std::move(revision), what);
  if (!object) return false;
  look.order(key, what,
             [this, object = std::move(*object), pool = look.key, uid = look.state.uid,
              generation = look.generation()](const store::Object* current) mutable {
               // Of an earlier pool of this name; it is on its way out.
               if (current) {
                 throw std::runtime_error("the ControllerRevision " + current->key().name +
                                          " of another pool is still there");
               }
               if (!may_act(pool, uid, generation)) return Store::Mutation::nothing();
               return Store::Mutation::put(std::move(object));
             });
  return false;
}

const Sameness& PoolController::compare(Look& look, const std::string& revision) {
  State& state = look.state;
  if (state.compared_generation != look.generation()) {
    state.compared.clear();
    state.compared_generation = look.generation();
  }
  const auto [it, is_new] = state.compared.try_emplace(revision);
  if (!is_new) return it->second;
  if (const PoolRevision* known = revisions_.find(state.uid, revision)) {
    it->second = compare_templates(api::member(*known->spec, "virtualMachineTemplate"),
                                   api::member(look.spec(), "virtualMachineTemplate"));
  }
  return it->second;
}

// Those that no machine and no guest refers to, but for the newest to which one can go back.
void PoolController::prune(Look& look) {
  std::set<std::string> used{target_revision(look)};
  for (const char* field : {"currentRevision", "updateRevision"}) {
    used.insert(api::text(api::member(look.status, field)));
  }
  for (const auto& [version, group] : look.members.versions) {
    used.insert({version.machine, version.guest});
  }
  for (const store::Key& key : look.members.deleting) {
    const PoolVersion& version = look.members.all.at(key).version;
    used.insert({version.machine, version.guest});
  }
  for (const PoolRevision& revision :
       revisions_.superfluous(look.state.uid, used, options_.templates_to_keep)) {
    look.order(revision.key, {"FailedRevisionPruning", "error during revision pruning: "},
               [uid = revision.uid](const store::Object* current) {
                 return current && current->uid() == uid ? Store::Mutation::remove()
                                                         : Store::Mutation::nothing();
               });
  }
}

// Somebody asks for an earlier template: it becomes the pool's, as if it had been applied.
void PoolController::go_back(Look& look) {
  const std::string number = api::text(look.annotation(api::rollback_annotation));
  if (number.empty()) return;
  const auto* revisions = revisions_.of(look.state.uid);
  const PoolRevision* found = nullptr;
  for (const auto& [at, revision] :
       revisions ? *revisions : std::map<std::int64_t, PoolRevision>()) {
    if (std::to_string(at) == number) found = &revision;
  }
  Json wanted = found ? api::member(*found->spec, "virtualMachineTemplate") : Json();
  if (!found) {
    events_.record(*look.object, EventType::warning, component, "RollbackRevisionNotFound",
                   "Unable to find the revision " + number + " to go back to.");
  }
  const api::Kind& kind = *api::builtin_kinds().find(api::pool_group, api::pool_kind);
  if (!wanted.is_null()) {
    Json next = *look.document;
    next["metadata"]["annotations"].erase(api::rollback_annotation);
    next["spec"]["virtualMachineTemplate"] = wanted;
    try {
      api::admit_change(kind, *look.document, std::move(next), api::Part::all,
                        api::FieldValidation::ignore);
    } catch (const api::ApiError& refused) {
      // To ask again would be answered in the same way, and nothing else would ever be done.
      wanted = nullptr;
      events_.record(*look.object, EventType::warning, component, "RollbackRefused",
                     "Unable to go back to revision " + number + ": " + refused.what());
    }
  }
  const bool goes_back = !wanted.is_null();
  look.order(
      look.key,
      {"FailedUpdate", "error going back: ", goes_back ? "SuccessfulRollback" : "",
       "Rolled back to revision " + number},
      [&kind, uid = look.state.uid, number,
       wanted = std::move(wanted)](const store::Object* current) -> Store::Mutation {
        if (!current || current->uid() != uid) return Store::Mutation::nothing();
        const auto document = current->document();
        Json next = *document;
        Json& annotations = next["metadata"]["annotations"];
        if (api::text(api::member(annotations, api::rollback_annotation)) != number) {
          return Store::Mutation::nothing();
        }
        annotations.erase(api::rollback_annotation);
        if (wanted.is_null()) return Store::Mutation::put(std::move(next));
        next["spec"]["virtualMachineTemplate"] = wanted;
        return Store::Mutation::put(api::admit_change(kind, *document, std::move(next),
                                                      api::Part::all, api::FieldValidation::ignore)
                                        .object);
      });
}

}  // namespace virtset
