#include "daemon/controllers/garbage_collector.h"

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;
using Mutation = Store::Mutation;

namespace {

// Each is a document to be written, so that a set of thousands does not hold up the loop.
constexpr int dependents_per_turn = 200;

const Json& owner_references(const Json& object) {
  return api::member(object, "metadata", "ownerReferences");
}

// The references of an object without those to this owner.
Json without_owner(Json document, const std::string& uid) {
  Json kept = Json::array();
  for (const Json& reference : owner_references(document)) {
    if (api::text(api::member(reference, "uid")) != uid) kept.push_back(reference);
  }
  if (kept.empty()) {
    document["metadata"].erase("ownerReferences");
  } else {
    document["metadata"]["ownerReferences"] = std::move(kept);
  }
  return document;
}

}  // namespace

GarbageCollector::GarbageCollector(Store& store, api::Scheduler& scheduler, const api::Kinds& kinds)
    : store_(store),
      scheduler_(scheduler),
      kinds_(kinds),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void GarbageCollector::start() {
  for (const api::Kind& kind : kinds_.all()) {
    for (const auto& object : store_.list(kind.group, kind.kind)) {
      take_in(*object);
      queue_.add(object->key());
    }
  }
}

bool GarbageCollector::take_in(const store::Object& object) {
  std::set<std::string> owners;
  for (const Json& reference : owner_references(*object.document())) {
    owners.insert(api::text(api::member(reference, "uid")));
  }
  const auto known = owners_.find(object.key());
  if (known == owners_.end() ? owners.empty() : known->second == owners) return false;
  take_out(object.key());
  for (const std::string& uid : owners) dependents_[uid].insert(object.key());
  if (!owners.empty()) owners_[object.key()] = std::move(owners);
  return true;
}

void GarbageCollector::take_out(const store::Key& key) {
  const auto it = owners_.find(key);
  if (it == owners_.end()) return;
  for (const std::string& uid : it->second) {
    const auto dependents = dependents_.find(uid);
    dependents->second.erase(key);
    if (dependents->second.empty()) dependents_.erase(dependents);
  }
  owners_.erase(it);
}

void GarbageCollector::observe(const store::Change& change) {
  const store::Object& object = *change.object;
  if (object.key().kind == api::event_kind) return;  // Kubernetes: events have no part in this
  if (change.type == store::Change::Type::deleted) {
    take_out(object.key());
    queue_.forget(object.key());
    look_at_dependents(object.uid());
    look_at_owners(object);
    return;
  }
  const bool owners_changed = take_in(object);
  const bool deleting = api::is_deleting(*object.document());
  if (owners_changed || deleting) queue_.add(object.key());
  // Those that it has left may wait for that.
  if (owners_changed && change.previous) look_at_owners(*change.previous);
  const bool begins = deleting && change.previous && !api::is_deleting(*change.previous->document());
  if (begins) look_at_dependents(object.uid());
}

void GarbageCollector::look_at_owners(const store::Object& dependent) {
  for (const Json& reference : owner_references(*dependent.document())) {
    if (const auto owner = owner_of(dependent, reference)) queue_.add(owner->key());
  }
}

void GarbageCollector::look_at_dependents(const std::string& uid) {
  const auto dependents = dependents_.find(uid);
  if (dependents == dependents_.end()) return;
  for (const store::Key& key : dependents->second) queue_.add(key);
}

store::ObjectPtr GarbageCollector::owner_of(const store::Object& dependent,
                                            const Json& reference) const {
  const std::string version = api::text(api::member(reference, "apiVersion"));
  const auto slash = version.find('/');
  const std::string group = slash == std::string::npos ? "" : version.substr(0, slash);
  const api::Kind* kind = kinds_.find(group, api::text(api::member(reference, "kind")));
  if (!kind) return nullptr;
  // A namespaced owner is looked for in the namespace of its dependent.
  const store::ObjectPtr owner =
      store_.get({group, kind->kind, kind->namespaced ? dependent.key().ns : "",
                  api::text(api::member(reference, "name"))});
  const bool same = owner && owner->uid() == api::text(api::member(reference, "uid"));
  return same ? owner : nullptr;
}

void GarbageCollector::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object) return;
  const auto document = object->document();
  if (!api::is_deleting(*document)) {
    collect_if_unowned(*object);
  } else if (api::has_finalizer(*document, api::orphan_finalizer)) {
    orphan_dependents(*object);
  } else if (api::has_finalizer(*document, api::foreground_finalizer)) {
    wait_for_dependents(*object);
  }
}

// Any owner that is there and stays keeps it; those that are gone are forgotten.
void GarbageCollector::collect_if_unowned(const store::Object& object) {
  const auto document = object.document();
  std::vector<std::string> gone;
  bool kept = false;
  bool waited_for = false;
  for (const Json& reference : owner_references(*document)) {
    const store::ObjectPtr owner = owner_of(object, reference);
    if (!owner) {
      gone.push_back(api::text(api::member(reference, "uid")));
      continue;
    }
    const auto owner_document = owner->document();
    const bool waits = api::is_deleting(*owner_document) &&
                       api::has_finalizer(*owner_document, api::foreground_finalizer);
    kept = kept || !waits;
    waited_for = waited_for || waits;
  }
  if (gone.empty() && !waited_for) return;
  if (kept) {
    if (gone.empty()) return;
    write(object.key(), object.uid(), [gone](Json changed) {
      for (const std::string& uid : gone) changed = without_owner(std::move(changed), uid);
      return Mutation::put(std::move(changed));
    });
    return;
  }
  const bool has_dependents = dependents_.contains(object.uid());
  write(object.key(), object.uid(),
        [now = scheduler_.now(), foreground = waited_for && has_dependents](Json changed) {
          return api::begin_deletion(
              std::move(changed),
              foreground ? std::optional(api::Propagation::foreground) : std::nullopt, std::nullopt,
              now);
        });
}

void GarbageCollector::orphan_dependents(const store::Object& owner) {
  const auto dependents = dependents_.find(owner.uid());
  if (dependents != dependents_.end()) {
    // Some at a time; each change of one leads back here.
    int left = dependents_per_turn;
    for (const store::Key& key : dependents->second) {
      const store::ObjectPtr dependent = store_.get(key);
      if (!dependent || store_.busy(key)) continue;
      if (left-- == 0) break;
      write(key, dependent->uid(), [uid = owner.uid()](Json changed) {
        return api::put_or_finish(without_owner(std::move(changed), uid));
      });
    }
    return;
  }
  write(owner.key(), owner.uid(), [](Json changed) {
    api::remove_finalizer(changed, api::orphan_finalizer);
    return api::put_or_finish(std::move(changed));
  });
}

void GarbageCollector::wait_for_dependents(const store::Object& owner) {
  const auto dependents = dependents_.find(owner.uid());
  if (dependents != dependents_.end()) {
    for (const store::Key& key : dependents->second) {
      const store::ObjectPtr dependent = store_.get(key);
      if (!dependent) continue;
      for (const Json& reference : owner_references(*dependent->document())) {
        const bool blocks = api::text(api::member(reference, "uid")) == owner.uid() &&
                            api::truth(api::member(reference, "blockOwnerDeletion"));
        // Its end leads back here.
        if (blocks) return;
      }
    }
  }
  write(owner.key(), owner.uid(), [](Json changed) {
    api::remove_finalizer(changed, api::foreground_finalizer);
    return api::put_or_finish(std::move(changed));
  });
}

void GarbageCollector::write(const store::Key& key, const std::string& uid,
                             std::function<Mutation(Json document)> change) {
  try {
    store_.write(
        key,
        [uid, change](const store::Object* current) {
          if (!current || current->uid() != uid) return Mutation::nothing();
          Mutation mutation = change(*current->document());
          const bool same = mutation.type == Mutation::Type::put &&
                            mutation.document == *current->document();
          return same ? Mutation::nothing() : mutation;
        },
        [this, key](const Store::Outcome& outcome) {
          if (outcome.error) queue_.retry(key);
        });
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

}  // namespace virtset
