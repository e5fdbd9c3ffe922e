#include "api/kinds/virtualmachineinstance/status.h"

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr Phase all_phases[] = {Phase::pending, Phase::scheduling, Phase::scheduled,
                                Phase::running, Phase::succeeded,  Phase::failed};

}  // namespace

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::pending:
      return "Pending";
    case Phase::scheduling:
      return "Scheduling";
    case Phase::scheduled:
      return "Scheduled";
    case Phase::running:
      return "Running";
    case Phase::succeeded:
      return "Succeeded";
    case Phase::failed:
      return "Failed";
  }
  return "";
}

Phase phase_of(const Json& instance) {
  const std::string name = text(member(instance, "status", "phase"));
  for (const Phase phase : all_phases) {
    if (name == to_string(phase)) return phase;
  }
  return Phase::pending;
}

void set_guest_not_running(Json& status, Time now) {
  set_condition(status, {"Ready", false, "GuestNotRunning", "Guest VM is not reported as running"},
                now);
}

void enter_phase(Json& status, Phase phase, Time now) {
  const std::string current = text(member(status, "phase"));
  if (current == to_string(Phase::succeeded) || current == to_string(Phase::failed)) return;
  status["phase"] = to_string(phase);
  if (phase != Phase::running) set_guest_not_running(status, now);
  Json& entered = status["phaseTransitionTimestamps"];
  for (const Json& entry : entered) {
    if (entry["phase"] == to_string(phase)) return;
  }
  entered.push_back({{"phase", to_string(phase)}, {"phaseTransitionTimestamp", format_time(now)}});
}

Time phase_entered_at(const Json& instance, Phase phase) {
  for (const Json& entry : member(instance, "status", "phaseTransitionTimestamps")) {
    if (text(member(entry, "phase")) != to_string(phase)) continue;
    return parse_time(text(member(entry, "phaseTransitionTimestamp"))).value_or(Time());
  }
  return Time();
}

Json addresses_of(const Json& status) {
  Json list = Json::array();
  for (const Json& interface : member(status, "interfaces")) {
    Json kept;
    for (const char* field : {"name", "mac", "ipAddress"}) {
      if (interface.contains(field)) kept[field] = interface[field];
    }
    if (kept.contains("mac")) list.push_back(std::move(kept));
  }
  return list;
}

}  // namespace virtset::api
