// What start, stop and restart ask of a virtual machine (KubeVirt: the subresources of that name).
//
// They change the run strategy, or note a request that the controller carries out; both are kept,
// so that what was acknowledged happens also after a crash.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace virtset::api {

// KubeVirt: stateChangeRequests. Those that the status of a virtual machine still has.
struct StateChanges {
  bool start = false;
  std::optional<std::string> stop;           // the uid of the instance
  std::optional<std::int64_t> grace_period;  // of the stop, where it is not the instance's own

  static StateChanges of(const nlohmann::json& status);
  void write_to(nlohmann::json& status) const;

  friend bool operator==(const StateChanges&, const StateChanges&) = default;
};

// The machine as the action leaves it. `instance` is that of the same name, or null; `options` the
// body of the request. Throws ApiError: 400 for options that are none, 409 where the machine is not
// in a state for it, 404 for an action that there is not.
nlohmann::json act_on_machine(const std::string& action, nlohmann::json machine,
                              const nlohmann::json& instance, const nlohmann::json& options);

}  // namespace virtset::api
