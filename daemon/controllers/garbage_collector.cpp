#include "daemon/controllers/garbage_collector.h"

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;
using Mutation = Store::Mutation;

namespace {

const Json& owner_references(const Json& object) {
  return api::member(object, "metadata", "ownerReferences");
}

}  // namespace

GarbageCollector::GarbageCollector(Store& store, api::Scheduler& scheduler, const api::Kinds& kinds)
    : store_(store),
      scheduler_(scheduler),
      kinds_(kinds),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void GarbageCollector::start() {
  for (const api::Kind& kind : kinds_.all()) {
    if (kind.kind == api::event_kind) continue;
    for (const auto& object : store_.list(kind.group, kind.kind)) {
      take_in(*object);
      queue_.add(object->key());
    }
  }
}

bool GarbageCollector::take_in(const store::Object& object) {
  const auto document = object.document();
  std::set<std::string> owners;
  for (const Json& reference : owner_references(*document)) {
    if (kind_of(reference)) owners.insert(api::text(api::member(reference, "uid")));
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
  const bool begins =
      deleting && change.previous && !api::is_deleting(*change.previous->document());
  if (begins) look_at_dependents(object.uid());
}

void GarbageCollector::look_at_owners(const store::Object& dependent) {
  for (const auto& owner : owners_of(dependent)) queue_.add(owner->key());
}

void GarbageCollector::look_at_dependents(const std::string& uid) {
  const auto dependents = dependents_.find(uid);
  if (dependents == dependents_.end()) return;
  for (const store::Key& key : dependents->second) queue_.add(key);
}

// Null for one that we do not have, such as apps/v1 Deployment.
const api::Kind* GarbageCollector::kind_of(const Json& reference) const {
  const std::string version = api::text(api::member(reference, "apiVersion"));
  const auto slash = version.find('/');
  const std::string group = slash == std::string::npos ? "" : version.substr(0, slash);
  return kinds_.find(group, api::text(api::member(reference, "kind")));
}

store::ObjectPtr GarbageCollector::owner_of(const store::Object& dependent,
                                            const Json& reference) const {
  const api::Kind* kind = kind_of(reference);
  if (!kind) return nullptr;
  // A namespaced owner is looked for in the namespace of its dependent.
  const store::ObjectPtr owner =
      store_.get({kind->group, kind->kind, kind->namespaced ? dependent.key().ns : "",
                  api::text(api::member(reference, "name"))});
  const bool same = owner && owner->uid() == api::text(api::member(reference, "uid"));
  return same ? owner : nullptr;
}

std::vector<store::ObjectPtr> GarbageCollector::owners_of(const store::Object& dependent) const {
  const auto document = dependent.document();
  std::vector<store::ObjectPtr> owners;
  for (const Json& reference : owner_references(*document)) {
    if (auto owner = owner_of(dependent, reference)) owners.push_back(std::move(owner));
  }
  return owners;
}

GarbageCollector::Hold GarbageCollector::hold_of(const store::Object& dependent,
                                                 const Json& reference) const {
  // Nothing is deleted because of what we cannot know.
  if (!kind_of(reference)) return Hold::keeps;
  const store::ObjectPtr owner = owner_of(dependent, reference);
  if (!owner) return Hold::gone;
  const auto document = owner->document();
  if (!api::is_deleting(*document)) return Hold::keeps;
  if (api::has_finalizer(*document, api::orphan_finalizer)) return Hold::orphans;
  return api::has_finalizer(*document, api::foreground_finalizer) ? Hold::waits : Hold::keeps;
}

void GarbageCollector::reconcile(const store::Key& key) {
  try {
    // Decided when the write has its turn, so that what is being written now counts.
    store_.write(
        key,
        [this](const store::Object* current) {
          return current ? next_step(*current) : Mutation::nothing();
        },
        [this, key](const Store::Outcome& outcome) {
          if (outcome.error) queue_.retry(key);
        });
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

// Any owner that is there and stays keeps it. It is let go of by those that are gone, that wait for
// it to be gone, or that leave it behind; of the last also when it is being deleted itself.
Mutation GarbageCollector::next_step(const store::Object& object) const {
  const auto document = object.document();
  const bool deleting = api::is_deleting(*document);
  std::set<std::string> lost;
  bool kept = false;
  bool waited_for = false;
  for (const Json& reference : owner_references(*document)) {
    const Hold hold = hold_of(object, reference);
    kept = kept || hold == Hold::keeps || hold == Hold::orphans;
    waited_for = waited_for || hold == Hold::waits;
    if (hold == Hold::orphans || (hold != Hold::keeps && !deleting)) {
      lost.insert(api::text(api::member(reference, "uid")));
    }
  }
  if (lost.empty()) return deleting ? finish_deletion(object) : Mutation::nothing();
  if (kept) {
    Json freed = *document;
    api::remove_owners(freed, lost);
    return api::put_or_finish(std::move(freed));
  }
  const bool foreground = waited_for && dependents_.contains(object.uid());
  return api::begin_deletion(
      *document, foreground ? std::optional(api::Propagation::foreground) : std::nullopt,
      std::nullopt, scheduler_.now());
}

// Orphaning is over when all have let go, foreground deletion when those that block it are gone;
// the change of each leads back here.
Mutation GarbageCollector::finish_deletion(const store::Object& owner) const {
  const auto document = owner.document();
  const bool orphans = api::has_finalizer(*document, api::orphan_finalizer);
  const char* finalizer = orphans ? api::orphan_finalizer : api::foreground_finalizer;
  if (!api::has_finalizer(*document, finalizer)) return Mutation::nothing();
  if (orphans ? dependents_.contains(owner.uid()) : is_blocked(owner)) return Mutation::nothing();
  Json changed = *document;
  api::remove_finalizer(changed, finalizer);
  return api::put_or_finish(std::move(changed));
}

bool GarbageCollector::is_blocked(const store::Object& owner) const {
  const auto dependents = dependents_.find(owner.uid());
  if (dependents == dependents_.end()) return false;
  const std::set<std::string> ancestors = ancestors_of(owner);
  for (const store::Key& key : dependents->second) {
    const store::ObjectPtr dependent = store_.get(key);
    // Who waits for an ancestor of its own waits for itself.
    if (!dependent || ancestors.contains(dependent->uid())) continue;
    const auto document = dependent->document();
    for (const Json& reference : owner_references(*document)) {
      if (api::text(api::member(reference, "uid")) == owner.uid() &&
          api::truth(api::member(reference, "blockOwnerDeletion"))) {
        return true;
      }
    }
  }
  return false;
}

// The uids of its owners, theirs, and so on.
std::set<std::string> GarbageCollector::ancestors_of(const store::Object& object) const {
  std::set<std::string> uids;
  std::vector<store::ObjectPtr> open = owners_of(object);
  while (!open.empty()) {
    const store::ObjectPtr next = std::move(open.back());
    open.pop_back();
    if (!uids.insert(next->uid()).second) continue;
    for (auto& owner : owners_of(*next)) open.push_back(std::move(owner));
  }
  return uids;
}

}  // namespace virtset
