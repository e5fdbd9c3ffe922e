#include "daemon/controllers/namespace_controller.h"

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;
using Mutation = Store::Mutation;

namespace {

// Each is a document to be written, so that thousands do not hold up the loop.
constexpr int deletions_per_turn = 200;
// kubectl delete -f of a namespace and of what is in it names each of them; Kubernetes waits for
// five seconds, so that those are still there.
constexpr std::chrono::seconds grace{2};
// When to look again at what is being written.
constexpr std::chrono::milliseconds under_way{50};

}  // namespace

NamespaceController::NamespaceController(Store& store, api::Scheduler& scheduler,
                                         const api::Kinds& kinds)
    : store_(store),
      scheduler_(scheduler),
      kinds_(kinds),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void NamespaceController::start() {
  const api::Kind& kind = *kinds_.find(api::core_group, api::namespace_kind);
  const store::Key key{api::core_group, api::namespace_kind, "", "default"};
  Json object = api::admit_new(kind, {{"metadata", {{"name", "default"}}}}, {},
                               api::FieldValidation::strict, scheduler_.now())
                    .object;
  store_.write(
      key,
      [object = std::move(object)](const store::Object* current) {
        return current ? Mutation::nothing() : Mutation::put(object);
      },
      nullptr);
  for (const auto& ns : store_.list(api::core_group, api::namespace_kind)) {
    if (api::is_deleting(*ns->document())) {
      terminating_.emplace(ns->key().name, scheduler_.steady_now());
      queue_.add(ns->key());
    }
  }
}

void NamespaceController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.kind == api::namespace_kind && key.group == api::core_group) {
    if (change.type == store::Change::Type::deleted) {
      terminating_.erase(key.name);
      queue_.forget(key);
    } else if (api::is_deleting(*change.object->document())) {
      terminating_.emplace(key.name, scheduler_.steady_now() + grace);
      queue_.add(key);
    }
  } else if (change.type == store::Change::Type::deleted && terminating_.contains(key.ns)) {
    queue_.add({api::core_group, api::namespace_kind, "", key.ns});
  }
}

void NamespaceController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object || !api::is_deleting(*object->document())) return;
  if (store_.busy(key)) {
    queue_.add_after(key, under_way);
    return;
  }
  // Writes of one look that fail together are one failure.
  const auto done = [this, key,
                     failed = std::make_shared<bool>(false)](const Store::Outcome& outcome) {
    if (outcome.error && !std::exchange(*failed, true)) queue_.retry(key);
  };
  try {
    const bool empty = delete_content(key, done);
    // While something is left, the end of each object leads back here.
    store_.write(
        key,
        [uid = object->uid(), empty](const store::Object* current) {
          if (!current || current->uid() != uid) return Mutation::nothing();
          Json document = *current->document();
          document["status"]["phase"] = "Terminating";
          if (empty) document["spec"].erase("finalizers");
          if (document == *current->document()) return Mutation::nothing();
          return api::put_or_finish(std::move(document));
        },
        done);
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

// True if there is nothing left, nor anything on its way. Throws Overloaded.
bool NamespaceController::delete_content(const store::Key& ns, const Store::Done& done) {
  bool empty = true;
  bool again = false;
  int left = deletions_per_turn;
  const auto wait = terminating_.at(ns.name) - scheduler_.steady_now();
  for (const api::Kind& kind : kinds_.all()) {
    if (!kind.namespaced) continue;
    for (const auto& object : store_.list(kind.group, kind.kind, ns.name)) {
      empty = false;
      if (wait > wait.zero()) {
        queue_.add_after(ns, std::chrono::ceil<WorkQueue::Duration>(wait));
        return false;
      }
      again = again || left == 0;
      if (left == 0) break;
      if (api::is_deleting(*object->document())) continue;
      if (store_.busy(object->key())) {
        again = true;
        continue;
      }
      --left;
      delete_object(*object, done);
    }
  }
  // It may also be a creation that was admitted before the namespace was deleted.
  again = again || (empty && store_.busy_in_namespace(ns.name));
  if (again) queue_.add_after(ns, under_way);
  return empty && !again;
}

void NamespaceController::delete_object(const store::Object& object, const Store::Done& done) {
  store_.write(
      object.key(),
      [uid = object.uid(), now = scheduler_.now()](const store::Object* current) {
        if (!current || current->uid() != uid) return Mutation::nothing();
        return api::begin_deletion(*current->document(), api::Propagation::background, std::nullopt,
                                   now);
      },
      done);
}

}  // namespace virtset
