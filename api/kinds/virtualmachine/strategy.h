// When a virtual machine runs (KubeVirt: VirtualMachineRunStrategy).
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace virtset::api {

enum class RunStrategy { always, rerun_on_failure, manual, halted, once };

const char* to_string(RunStrategy strategy);
// Nothing if there is none of this name.
std::optional<RunStrategy> parse_strategy(std::string_view name);

// The one in effect for the spec of a virtual machine. KubeVirt: halted where it says nothing.
RunStrategy strategy_of(const nlohmann::json& spec);
// Makes the spec say so, in the spelling that it uses already where that can say it.
void set_strategy(nlohmann::json& spec, RunStrategy strategy);

}  // namespace virtset::api
