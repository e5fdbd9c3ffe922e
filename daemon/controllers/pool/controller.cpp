#include "daemon/controllers/pool/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachinepool/rules.h"

namespace virtset {

using store::Json;
using store::Store;

const Json& PoolController::Look::annotation(const char* name) const {
  return api::member(*document, "metadata", "annotations", name);
}

std::int64_t PoolController::Look::generation() const {
  return api::integer(api::member(*document, "metadata", "generation"), 0);
}

std::int64_t PoolController::Look::wanted() const {
  return std::max<std::int64_t>(0, api::integer(api::member(spec(), "replicas"), 1));
}

bool PoolController::Look::paused() const { return api::truth(api::member(spec(), "paused")); }

bool PoolController::Look::is_proactive() const {
  const Json& strategy = api::member(spec(), "updateStrategy");
  return !strategy.contains("unmanaged") && !strategy.contains("opportunistic");
}

PoolController::PoolController(Store& store, api::Scheduler& scheduler, EventRecorder& events,
                               Options options)
    : store_(store),
      scheduler_(scheduler),
      events_(events),
      options_(options),
      queue_(scheduler, [this](const store::Key& key) {
        if (key.kind == api::pool_kind) {
          reconcile(key);
        } else {
          release_stray(key);
        }
      }) {}

void PoolController::start() {
  for (const auto& pool : store_.list(api::pool_group, api::pool_kind)) {
    state_of(*pool);
    queue_.add(pool->key());
  }
  for (const auto& machine : store_.list(api::kubevirt_group, api::machine_kind)) {
    machine_changed(machine->key());
  }
  for (const auto& saved : store_.list(api::virtset_group, api::saved_machine_kind)) {
    saved_changed(*saved, false);
  }
  for (const auto& revision : store_.list(api::apps_group, api::controller_revision_kind)) {
    const std::string pool = revisions_.update(*revision);
    // Its pool may have gone before it.
    if (!pool.empty() && !pools_.contains(pool)) queue_.add(revision->key());
  }
}

void PoolController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  const bool gone = change.type == store::Change::Type::deleted;
  if (key.group == api::kubevirt_group && key.kind == api::machine_kind) {
    if (gone) {
      look_at_owners(index_.remove(key));
    } else {
      machine_changed(key);
    }
  } else if (key.group == api::kubevirt_group && key.kind == api::instance_kind) {
    machine_changed({key.group, api::machine_kind, key.ns, key.name});
  } else if (key.group == api::virtset_group && key.kind == api::saved_machine_kind) {
    saved_changed(*change.object, gone);
  } else if (key.group == api::pool_group && key.kind == api::pool_kind) {
    if (gone) {
      forget(*change.object);
    } else {
      state_of(*change.object);
      queue_.add(key);
    }
  } else if (key.group == api::apps_group && key.kind == api::controller_revision_kind) {
    const std::string pool =
        gone ? revisions_.remove(*change.object) : revisions_.update(*change.object);
    if (pool.empty()) return;
    if (const auto known = pools_.find(pool); known != pools_.end()) {
      states_.at(known->second).compared.clear();
      queue_.add(known->second);
    } else if (!gone) {
      queue_.add(key);
    }
  }
}

// Or its guest, which has its name, has.
void PoolController::machine_changed(const store::Key& key) {
  const auto machine = store_.get(key);
  if (!machine) return;
  const auto document = machine->document();
  const std::string owner = api::controller_uid(*document);
  const auto guest = store_.get({api::kubevirt_group, api::instance_kind, key.ns, key.name});
  look_at_owners(index_.update(*machine, guest.get()));
  if (!pools_.contains(owner) && api::has_finalizer(*document, api::pool_finalizer)) {
    queue_.add(key);
  }
}

void PoolController::saved_changed(const store::Object& saved, bool gone) {
  const std::string pool = api::controller_uid(*saved.document());
  // Whoever's it is, the pool of the machine of this name may have waited for its end.
  const store::Key key{api::kubevirt_group, api::machine_kind, saved.key().ns, saved.key().name};
  if (const auto machine = store_.get(key)) {
    look_at_owners({api::controller_uid(*machine->document())});
  }
  if (pool.empty()) return;
  if (!gone) {
    saved_[pool].insert(saved.key());
  } else if (const auto it = saved_.find(pool); it != saved_.end()) {
    it->second.erase(saved.key());
    if (it->second.empty()) saved_.erase(it);
  }
  look_at_owners({pool});
}

void PoolController::look_at_owners(const std::set<std::string>& uids) {
  for (const std::string& uid : uids) {
    const auto pool = pools_.find(uid);
    if (pool != pools_.end()) queue_.add(pool->second);
  }
}

void PoolController::forget(const store::Object& pool) {
  const std::string& uid = pool.uid();
  pools_.erase(uid);
  const auto state = states_.find(pool.key());
  if (state != states_.end() && state->second.uid == uid) states_.erase(state);
  queue_.forget(pool.key());
  // What it may have left behind, if somebody took its finalizer away.
  if (const auto* members = index_.members(uid)) {
    for (const auto& [key, member] : members->all) queue_.add(key);
  }
  if (const auto* revisions = revisions_.of(uid)) {
    for (const auto& [number, revision] : *revisions) queue_.add(revision.key);
  }
}

PoolController::State& PoolController::state_of(const store::Object& pool) {
  State& state = states_[pool.key()];
  if (state.uid != pool.uid()) {
    pools_.erase(state.uid);
    state = State{};
    state.uid = pool.uid();
    state.pass = Pass::over({store_, scheduler_, events_, queue_, component}, pool.key());
    pools_[pool.uid()] = pool.key();
  }
  return state;
}

// False if the pool cannot be worked on; admission refuses such pools, so this one is a leftover.
bool PoolController::take_in_selector(Look& look) {
  const Json& selector = api::member(look.spec(), "selector");
  State& state = look.state;
  try {
    if (selector != state.selector_source) {
      state.selector = api::LabelSelector::from_object(selector);
      state.selector_source = selector;
      for (const auto& [key, member] : look.members.all) look.members.unchecked.insert(key);
    }
  } catch (const api::BadSelector&) {
    state.selector_source = nullptr;
  }
  const bool usable = !state.selector_source.is_null() &&
                      state.selector.matches(
                          api::member(look.spec(), "virtualMachineTemplate", "metadata", "labels"));
  if (!usable && !state.complained) {
    spdlog::error(
        "{}/{}: the selector does not match the labels of the template; the pool is left alone",
        look.key.ns, look.key.name);
  }
  state.complained = !usable;
  return usable;
}

void PoolController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object) return;
  State& state = state_of(*object);
  // Never on stale counts: what was ordered must be seen first.
  if (state.pass->is_under_way() || state.writing) return;
  const auto document = object->document();
  PoolMembers none;
  PoolMembers* members = index_.members(state.uid);
  const Json& status = api::member(*document, "status");
  Look look{key,
            object,
            document,
            state,
            members ? *members : none,
            status.is_object() ? status : Json::object()};
  if (api::is_deleting(*document)) {
    finish_deletion(look);
    if (!look.pass().is_under_way()) report(look);
    return;
  }
  if (!take_in_selector(look) || !take_hold(look)) return;
  Pass& pass = look.pass();
  bool may_act = pass.begin(look.generation());
  if (may_act) claim(look);
  release_deleted(look);
  if (pass.is_under_way()) return;
  if (pass.has_failed()) {
    pass.end_if_idle();
    may_act = false;
  }
  if (may_act && !look.paused()) act(look);
  report(look);
}

// One kind of change at a time: each next one sees what the one before has done.
void PoolController::act(Look& look) {
  Pass& pass = look.pass();
  go_back(look);
  if (pass.may_go_on()) heal(look);
  if (pass.may_go_on() && scale(look)) {
    forget_unused(look);
    update(look);
    if (pass.may_go_on()) prune(look);
  }
  pass.end_if_idle();
}

// A new object as admission leaves it; nothing if that refuses it, which fails the pass.
std::optional<Json> PoolController::admit(Look& look, const store::Key& key, Json object,
                                          const Order& what) {
  const api::Kind& kind = *api::builtin_kinds().find(key.group, key.kind);
  try {
    return api::admit_new(kind, std::move(object), {key.ns, nullptr}, api::FieldValidation::ignore,
                          scheduler_.now())
        .object;
  } catch (const std::exception& error) {
    look.fail(what, error.what());
    return std::nullopt;
  }
}

// The gate before anything is changed or destroyed: still this machine, still this pool's, and the
// pool as this pass has seen it, not paused.
Store::Mutate PoolController::gated(const Look& look, const PoolMember& member,
                                    Store::Mutate mutate) const {
  return [this, pool = look.key, owner = look.state.uid, generation = look.generation(),
          machine = member.key, uid = member.uid,
          mutate = std::move(mutate)](const store::Object* current) {
    const auto fresh = store_.get(machine);
    const bool ours =
        fresh && fresh->uid() == uid && api::controller_uid(*fresh->document()) == owner;
    if (!current || !ours || !may_act(pool, owner, generation)) return Store::Mutation::nothing();
    return mutate(current);
  };
}

bool PoolController::may_act(const store::Key& key, const std::string& uid,
                             std::int64_t generation) const {
  const auto pool = store_.get(key);
  if (!pool || pool->uid() != uid) return false;
  const auto document = pool->document();
  return !api::is_deleting(*document) && !api::truth(api::member(*document, "spec", "paused")) &&
         api::integer(api::member(*document, "metadata", "generation"), 0) == generation;
}

}  // namespace virtset
