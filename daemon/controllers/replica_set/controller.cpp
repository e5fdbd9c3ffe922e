#include "daemon/controllers/replica_set/controller.h"

#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "daemon/back_off.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

bool is_paused(const Json& spec) { return api::truth(api::member(spec, "paused")); }

}  // namespace

ReplicaSetController::ReplicaSetController(Store& store, api::Scheduler& scheduler,
                                           EventRecorder& events, Options options)
    : store_(store),
      scheduler_(scheduler),
      events_(events),
      options_(options),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void ReplicaSetController::start() {
  for (const auto& instance : store_.list(api::kubevirt_group, api::instance_kind)) {
    index_.update(*instance);
  }
  for (const auto& set : store_.list(api::kubevirt_group, api::replica_set_kind)) {
    state_of(*set);
    queue_.add(set->key());
  }
}

void ReplicaSetController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.group != api::kubevirt_group) return;
  if (key.kind == api::instance_kind) {
    instance_changed(change);
  } else if (key.kind == api::replica_set_kind) {
    if (change.type == store::Change::Type::deleted) {
      sets_.erase(change.object->uid());
      states_.erase(key);
      queue_.forget(key);
    } else {
      state_of(*change.object);
      queue_.add(key);
    }
  }
}

void ReplicaSetController::instance_changed(const store::Change& change) {
  const bool gone = change.type == store::Change::Type::deleted;
  const std::set<std::string> owners =
      gone ? index_.remove(*change.object) : index_.update(*change.object);
  for (const std::string& uid : owners) {
    const auto set = sets_.find(uid);
    if (set != sets_.end()) queue_.add(set->second);
  }
  if (!gone) offer_for_adoption(*change.object);
}

void ReplicaSetController::offer_for_adoption(const store::Object& instance) {
  const auto document = instance.document();
  if (!api::is_adoptable(*document)) return;
  const Json& labels = api::member(*document, "metadata", "labels");
  for (auto& [key, state] : states_) {
    if (key.ns != instance.key().ns || !state.selector.matches(labels)) continue;
    state.candidates.insert(instance.key());
    queue_.add(key);
  }
}

ReplicaSetController::State& ReplicaSetController::state_of(const store::Object& set) {
  State& state = states_[set.key()];
  if (state.uid != set.uid()) {
    sets_.erase(state.uid);
    state = State{};
    state.uid = set.uid();
    state.pass = Pass::over({store_, scheduler_, events_, queue_, component}, set.key());
    sets_[set.uid()] = set.key();
  }
  return state;
}

// False if the set cannot be worked on; admission refuses such sets, so this one is a leftover.
bool ReplicaSetController::take_in_selector(Look& look) {
  const Json& spec = look.spec();
  const Json& selector = api::member(spec, "selector");
  const Json& labels = api::member(spec, "template", "metadata", "labels");
  State& state = look.state;
  try {
    if (selector != state.selector_source) {
      state.selector = api::LabelSelector::from_object(selector);
      state.selector_source = selector;
      // Everything may have changed sides.
      if (look.members) {
        for (const auto& [key, replica] : look.members->all) look.members->unchecked.insert(key);
      }
      for (const auto& [key, orphan] : index_.orphans(look.key.ns)) {
        const auto instance = store_.get(key);
        const bool matches = instance && state.selector.matches(api::member(*instance->document(),
                                                                            "metadata", "labels"));
        if (matches) state.candidates.insert(key);
      }
    }
  } catch (const api::BadSelector&) {
    state.selector_source = nullptr;
  }
  const bool usable = !state.selector_source.is_null() && !labels.empty() &&
                      spec.contains("template") && state.selector.matches(labels);
  if (!usable && !state.complained) {
    spdlog::error(
        "{}/{}: the selector does not match the labels of the template; the set is left alone",
        look.key.ns, look.key.name);
  }
  state.complained = !usable;
  return usable;
}

void ReplicaSetController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object) return;
  State& state = state_of(*object);
  // Never on stale counts: what was ordered must be seen first.
  if (state.pass->is_under_way() || state.writing) return;
  const auto document = object->document();
  Look look{key, object, document, state, index_.members(state.uid)};
  if (!take_in_selector(look)) return;
  const bool deleting = api::is_deleting(*document);
  const bool paused = is_paused(look.spec());
  const auto generation = api::integer(api::member(*document, "metadata", "generation"), 0);
  Pass& pass = look.pass();
  bool may_act = !deleting && pass.begin(generation);
  if (may_act && claim(look)) return;
  if (pass.has_failed()) {
    pass.end_if_idle();
    may_act = false;
  }

  Json status =
      api::member(*document, "status").is_object() ? (*document)["status"] : Json::object();
  const bool may_create = count_crashes(look, status);
  const std::size_t active = look.active();
  const std::size_t ready = look.ready();
  if (may_act && !paused) {
    // Replaced first and removed after, in the same pass.
    scale(look, may_create);
    if (!pass.has_failed()) remove_finished(look);
    pass.end_if_idle();
  }
  // KubeVirt: the numbers are those from before this pass.
  if (active > 0 || status.contains("replicas")) status["replicas"] = active;
  if (active == 0) status.erase("replicas");
  status["readyReplicas"] = ready;
  if (ready == 0) status.erase("readyReplicas");
  status["labelSelector"] = state.selector.to_string();
  write_status(look, std::move(status));
}

void ReplicaSetController::write_status(Look& look, Json status) {
  const auto now = scheduler_.now();
  const bool paused = is_paused(look.spec());
  const bool said_paused = !api::find_condition(status, "ReplicaPaused").is_null();
  look.pass().tell(status);
  if (paused && !said_paused) {
    api::set_condition(status, {"ReplicaPaused", true, "Paused", "Controller got paused"}, now);
  } else if (!paused && said_paused) {
    api::remove_condition(status, "ReplicaPaused");
  }
  if (status == api::member(*look.document, "status")) return;
  const store::Key key = look.key;
  try {
    store_.write(
        key, api::replace_status(look.state.uid, std::move(status)),
        [this, key, paused, said_paused, object = look.object](const Store::Outcome& outcome) {
          const auto it = states_.find(key);
          if (it != states_.end() && it->second.uid == object->uid()) it->second.writing = false;
          if (outcome.error) {
            queue_.retry(key);
            return;
          }
          queue_.add(key);
          if (paused != said_paused) {
            events_.record(*object, EventType::normal, component,
                           paused ? "SuccessfulPaused" : "SuccessfulResumed",
                           paused ? "Paused" : "Resumed");
          }
        });
    look.state.writing = true;
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

// Notes replicas that ended soon after their start. False if the next one must wait.
bool ReplicaSetController::count_crashes(Look& look, Json& status) {
  const auto now = scheduler_.now();
  const Json& known = api::member(status, "startFailure");
  auto count = api::integer(api::member(known, "consecutiveFailCount"), 0);
  std::string last = api::text(api::member(known, "lastFailureTimestamp"));
  auto retry_at =
      api::parse_time(api::text(api::member(known, "retryAfterTimestamp"))).value_or(api::Time());
  // A clock that was set back must not stop a set for ever.
  if (retry_at > now + 2 * options_.longest_back_off) retry_at = now;
  if (count > 0 && now > retry_at + options_.stable) {
    count = 0;
    last.clear();
    status.erase("startFailure");
  }
  std::set<std::string> finished;
  bool failed = false;
  for (const store::Key& key : look.members ? look.members->finished : std::set<store::Key>()) {
    const Replica& replica = look.members->all.at(key);
    finished.insert(replica.uid);
    if (look.state.counted.contains(replica.uid)) continue;
    const bool ran = replica.running_since != api::Time();
    const bool early = !ran || now - replica.running_since < options_.stable;
    // Those that were there when the last one was counted belong to the same failure: a set of ten
    // that all crash at once has failed once.
    if (early && replica.created >= last) failed = true;
  }
  look.state.counted = std::move(finished);
  if (failed) {
    ++count;
    const auto delay =
        count == 1 ? std::chrono::seconds(0)
                   : back_off(count - 1, options_.first_back_off, options_.longest_back_off);
    retry_at = now + delay;
    status["startFailure"] = {{"consecutiveFailCount", count},
                              {"lastFailureTimestamp", api::format_time(now)},
                              {"retryAfterTimestamp", api::format_time(retry_at)}};
    if (delay.count() > 0) {
      events_.record(*look.object, EventType::warning, component, "BackOff",
                     "Back-off replacing replicas: " + std::to_string(count) +
                         " times in a row they ended soon after their start");
    }
  }
  if (count > 0) {
    const auto next = retry_at > now ? retry_at : retry_at + options_.stable;
    queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(next - now) +
                                   std::chrono::milliseconds(1));
  }
  return retry_at <= now;
}

}  // namespace virtset
