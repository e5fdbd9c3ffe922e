#include "daemon/controllers/machine/controller.h"

#include <cstdlib>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachine/rules.h"
#include "api/kinds/virtualmachineinstance/status.h"
#include "daemon/back_off.h"

namespace virtset {

using api::Phase;
using api::RunStrategy;
using api::StateChanges;
using store::Json;
using store::Store;

namespace {

// What must be durable before anything is done because of it.
bool says_the_same(const Json& a, const Json& b) {
  for (const char* field : {"stateChangeRequests", "startFailure", "runStrategy"}) {
    if (api::member(a, field) != api::member(b, field)) return false;
  }
  return true;
}

bool restarts_by_itself(RunStrategy strategy) {
  return strategy == RunStrategy::always || strategy == RunStrategy::rerun_on_failure;
}

}  // namespace

MachineController::MachineController(Store& store, api::Scheduler& scheduler, EventRecorder& events,
                                     Options options)
    : store_(store),
      scheduler_(scheduler),
      events_(events),
      options_(options),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

bool MachineController::Look::is_final() const {
  return instance && api::is_final(api::phase_of(*run));
}

bool MachineController::Look::is_leaving() const { return instance && api::is_deleting(*run); }

void MachineController::start() {
  for (const auto& machine : store_.list(api::kubevirt_group, api::machine_kind)) {
    queue_.add(machine->key());
  }
}

void MachineController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.group == api::kubevirt_group && key.kind == api::machine_kind) {
    if (change.type == store::Change::Type::deleted) {
      states_.erase(key);
      queue_.forget(key);
    } else {
      queue_.add(key);
    }
  } else if (key.group == api::kubevirt_group && key.kind == api::instance_kind) {
    queue_.add({api::kubevirt_group, api::machine_kind, key.ns, key.name});
  } else if (key.group == api::cdi_group && key.kind == api::data_volume_kind) {
    const Json& owner = api::controller_of(*change.object->document());
    if (api::text(api::member(owner, "kind")) != api::machine_kind) return;
    queue_.add(
        {api::kubevirt_group, api::machine_kind, key.ns, api::text(api::member(owner, "name"))});
  }
}

void MachineController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = store_.get(key);
  if (!object) return;
  State& state = states_[key];
  if (state.uid != object->uid()) {
    state = State{};
    state.uid = object->uid();
  }
  // Never on what was ordered and is not seen yet.
  if (state.in_flight > 0) return;
  if (scheduler_.steady_now() >= state.hold_until) state.failure.reset();
  Look look{key, object, object->document(), state, nullptr, nullptr};
  if (!take_in_instance(look)) return;
  if (api::is_deleting(*look.document)) {
    tear_down(look);
    return;
  }
  ensure_disks(look);
  Json status = settle(look);
  if (!says_the_same(status, api::member(*look.document, "status"))) {
    report(look, Step::none, std::move(status));
    return;
  }
  const Step step = next_step(look, status);
  perform(look, step, status);
  report(look, step, std::move(status));
}

// KubeVirt: the virtual machine goes when its instance is gone, or at once if that is left behind.
void MachineController::tear_down(Look& look) {
  const bool orphans = api::has_finalizer(*look.document, api::orphan_finalizer);
  if (look.instance && !orphans) {
    if (!look.is_leaving()) remove_instance(look, std::nullopt);
    report(look, Step::none, api::member(*look.document, "status"));
    return;
  }
  if (!api::has_finalizer(*look.document, api::machine_finalizer)) return;
  write(look, look.key, api::release(look.object->uid(), api::machine_finalizer), nullptr);
}

// False if it is being adopted.
bool MachineController::take_in_instance(Look& look) {
  const store::ObjectPtr instance =
      store_.get({api::kubevirt_group, api::instance_kind, look.key.ns, look.key.name});
  if (!instance) return true;
  const auto document = instance->document();
  const Json& owner = api::controller_of(*document);
  if (api::text(api::member(owner, "uid")) == look.object->uid()) {
    look.instance = instance;
    look.run = document;
    return true;
  }
  // KubeVirt: one of this name that nobody manages becomes its own, whatever its labels.
  if (owner.is_null() && !api::is_deleting(*document) && !api::is_deleting(*look.document)) {
    adopt(look, instance->key(), instance->uid());
    return false;
  }
  look.name_taken = true;
  return true;
}

// The status with what is to be remembered: requests that are carried out go, starts that failed
// are counted.
Json MachineController::settle(Look& look) {
  const Json& known = api::member(*look.document, "status");
  Json status = known.is_object() ? known : Json::object();
  count_start(look, status);
  StateChanges pending = StateChanges::of(status);
  if (pending.stop && (!look.instance || look.instance->uid() != *pending.stop)) {
    pending.stop.reset();
    pending.grace_period.reset();
  }
  if (look.is_live() && !pending.stop) pending.start = false;
  const RunStrategy strategy = look.strategy();
  if (strategy == RunStrategy::rerun_on_failure) {
    // KubeVirt: started when it is switched to this, and again after a failure.
    const bool switched = api::text(api::member(known, "runStrategy")) != api::to_string(strategy);
    const bool has_failed =
        look.is_final() && !look.is_leaving() && api::phase_of(*look.run) == Phase::failed;
    if ((switched && !look.is_live()) || has_failed) pending.start = true;
  }
  if (strategy == RunStrategy::halted) pending.start = false;
  pending.write_to(status);
  status["runStrategy"] = api::to_string(strategy);
  return status;
}

// Notes a start that failed, once for each instance, and forgets earlier ones when it is stable.
void MachineController::count_start(Look& look, Json& status) {
  const auto now = scheduler_.now();
  const RunStrategy strategy = look.strategy();
  if (strategy == RunStrategy::manual || strategy == RunStrategy::halted) {
    status.erase("startFailure");
    return;
  }
  if (!look.instance || look.is_leaving()) return;
  const Json failure = api::member(status, "startFailure");
  const auto running_since = api::phase_entered_at(*look.run, Phase::running);
  const bool ran = running_since != api::Time();
  if (!look.is_final()) {
    if (!ran || failure.is_null()) return;
    const auto left = running_since + options_.stable - now;
    if (left <= std::chrono::seconds(0) || left > options_.stable) {
      status.erase("startFailure");
    } else {
      queue_.add_after(look.key, std::chrono::ceil<WorkQueue::Duration>(left));
    }
    return;
  }
  if (api::text(api::member(failure, "lastFailedVMIUID")) == look.instance->uid()) return;
  const auto ended = api::phase_entered_at(*look.run, api::phase_of(*look.run));
  if (ran && ended - running_since >= options_.stable) {
    status.erase("startFailure");
    return;
  }
  const auto count = api::integer(api::member(failure, "consecutiveFailCount"), 0) + 1;
  // One that ran is started again at once, the first time.
  const auto steps = std::min<std::int64_t>(ran ? count - 1 : count, 100);
  std::chrono::milliseconds delay = options_.first_back_off * steps * steps;
  if (delay.count() > 0) delay += std::chrono::milliseconds(std::rand() % (delay.count() / 2 + 1));
  delay = std::min<std::chrono::milliseconds>(delay, options_.longest_back_off);
  status["startFailure"] = {{"consecutiveFailCount", count},
                            {"lastFailedVMIUID", look.instance->uid()},
                            {"retryAfterTimestamp", api::format_time(now + delay)}};
}

// KubeVirt: the table of run strategies.
MachineController::Step MachineController::next_step(Look& look, const Json& status) {
  const StateChanges pending = StateChanges::of(status);
  const RunStrategy strategy = look.strategy();
  if (look.instance) {
    const bool asked = pending.stop.has_value();
    const bool ended = look.is_final() && restarts_by_itself(strategy);
    const bool stops = asked || ended || strategy == RunStrategy::halted;
    if (look.is_leaving()) {
      // The only thing left to ask for is that it goes faster.
      const auto grace =
          api::integer(api::member(*look.run, "metadata", "deletionGracePeriodSeconds"), INT64_MAX);
      return asked && pending.grace_period.value_or(INT64_MAX) < grace ? Step::remove : Step::none;
    }
    return stops ? Step::remove : Step::none;
  }
  const bool wanted = strategy == RunStrategy::always || strategy == RunStrategy::once ||
                      (strategy != RunStrategy::halted && pending.start);
  if (!wanted || !look.disks_wait.empty() || !may_start(look, status)) return Step::none;
  return Step::create;
}

// Whether back-off is over. KubeVirt: it is not for Once.
bool MachineController::may_start(Look& look, const Json& status) {
  if (!restarts_by_itself(look.strategy())) return true;
  const auto left = wait_left(api::member(status, "startFailure", "retryAfterTimestamp"),
                              scheduler_.now(), 2 * options_.longest_back_off);
  if (left) queue_.add_after(look.key, *left);
  return !left;
}

}  // namespace virtset
