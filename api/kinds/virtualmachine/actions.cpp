#include "api/kinds/virtualmachine/actions.h"

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "api/kinds/virtualmachineinstance/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

// What an action looks at, and what it changes.
struct Machine {
  Json document;
  const Json& instance;
  const Json& options;
  RunStrategy strategy = strategy_of(document["spec"]);
  StateChanges pending = StateChanges::of(member(document, "status"));

  std::string name() const { return text(member(document, "metadata", "name")); }
  std::string uid() const { return text(member(instance, "metadata", "uid")); }
  bool has_instance() const { return instance.is_object(); }
  bool is_final() const { return has_instance() && api::is_final(phase_of(instance)); }
  // One that is on its way out does not count.
  bool is_live() const { return has_instance() && !is_final() && !is_deleting(instance); }
};

ApiError conflict(const Machine& machine, const std::string& why) {
  ApiError error(409, "Conflict",
                 "Operation cannot be fulfilled on virtualmachine.kubevirt.io \"" + machine.name() +
                     "\": " + why);
  error.subject = ApiError::Subject{kubevirt_group, "virtualmachines", machine.name(), ""};
  return error;
}

ApiError not_supported(const Machine& machine, const std::string& action) {
  return conflict(machine, std::string(to_string(machine.strategy)) + " does not support manual " +
                               action + " requests");
}

ApiError bad_option(const std::string& why) { return ApiError(400, "BadRequest", why); }

std::optional<std::int64_t> grace_option(const Json& options, const char* name) {
  const Json& value = member(options, name);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number_integer() || value < 0) {
    throw bad_option(std::string(name) + " must be an integer of at least 0, in seconds");
  }
  return value.get<std::int64_t>();
}

// KubeVirt: a stop may take the place of what is pending; nothing else may.
void note(Machine& machine, StateChanges wanted) {
  const bool lone_stop = wanted.stop && !wanted.start;
  if (machine.pending != StateChanges{} && !lone_stop) {
    throw conflict(machine, "unable to complete request: stop/start already underway");
  }
  machine.pending = std::move(wanted);
}

void start(Machine& machine) {
  if (truth(member(machine.options, "paused"))) {
    throw bad_option("paused: not supported by this version of virtset");
  }
  switch (machine.strategy) {
    case RunStrategy::always:
    case RunStrategy::once:
      throw not_supported(machine, "start");
    case RunStrategy::halted:
      set_strategy(machine.document["spec"], RunStrategy::always);
      return;
    case RunStrategy::rerun_on_failure:
      if (machine.is_final() && phase_of(machine.instance) == Phase::failed) {
        throw conflict(machine, "RerunOnFailure does not support starting VM from failed state");
      }
      break;
    case RunStrategy::manual:
      break;
  }
  if (machine.is_live()) throw conflict(machine, "VM is already running");
  StateChanges wanted{.start = true};
  if (machine.is_final()) wanted.stop = machine.uid();
  note(machine, wanted);
}

void stop(Machine& machine) {
  const auto grace = grace_option(machine.options, "gracePeriod");
  StateChanges wanted;
  if (machine.has_instance() && !machine.is_final()) {
    wanted.stop = machine.uid();
    wanted.grace_period = grace;
  }
  switch (machine.strategy) {
    case RunStrategy::always:
    case RunStrategy::once:
      set_strategy(machine.document["spec"], RunStrategy::halted);
      // Halted stops it; the request only says how fast.
      machine.pending = grace ? wanted : StateChanges{};
      return;
    case RunStrategy::halted:
      if (!wanted.stop || !grace) throw conflict(machine, "VM is not running");
      break;
    default:
      if (!wanted.stop) throw conflict(machine, "VM is not running");
  }
  note(machine, wanted);
}

void restart(Machine& machine) {
  const auto grace = grace_option(machine.options, "gracePeriodSeconds");
  if (grace.value_or(0) > 0) {
    throw bad_option("gracePeriodSeconds must be absent, or 0 to restart by force");
  }
  if (machine.strategy == RunStrategy::halted || machine.strategy == RunStrategy::once) {
    throw not_supported(machine, "restart");
  }
  if (!machine.is_live()) throw conflict(machine, "VM is not running");
  note(machine, {.start = true, .stop = machine.uid(), .grace_period = grace});
}

}  // namespace

StateChanges StateChanges::of(const Json& status) {
  StateChanges changes;
  for (const Json& request : member(status, "stateChangeRequests")) {
    if (text(member(request, "action")) == "Start") changes.start = true;
    if (text(member(request, "action")) != "Stop") continue;
    changes.stop = text(member(request, "uid"));
    const Json& grace = member(request, "data", "gracePeriodSeconds");
    if (grace.is_number_integer()) changes.grace_period = grace.get<std::int64_t>();
  }
  return changes;
}

void StateChanges::write_to(Json& status) const {
  Json requests = Json::array();
  if (stop) {
    Json request{{"action", "Stop"}, {"uid", *stop}};
    if (grace_period) request["data"] = {{"gracePeriodSeconds", *grace_period}};
    requests.push_back(std::move(request));
  }
  if (start) requests.push_back({{"action", "Start"}});
  if (requests.empty()) {
    status.erase("stateChangeRequests");
  } else {
    status["stateChangeRequests"] = std::move(requests);
  }
}

Json act_on_machine(const std::string& action, Json document, const Json& instance,
                    const Json& options) {
  if (!options.is_null() && !options.is_object()) throw bad_option("the body must be an object");
  Machine machine{std::move(document), instance, options};
  if (action == "start") {
    start(machine);
  } else if (action == "stop") {
    stop(machine);
  } else if (action == "restart") {
    restart(machine);
  } else {
    throw ApiError(404, "NotFound", "the server could not find the requested resource");
  }
  Json& status = machine.document["status"];
  if (!status.is_object()) status = Json::object();
  machine.pending.write_to(status);
  // KubeVirt: whoever asks for something does not wait for a back-off.
  status.erase("startFailure");
  return std::move(machine.document);
}

}  // namespace virtset::api
