// The status of an instance: phases and what follows from them (KubeVirt:
// VirtualMachineInstancePhase).
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/kinds/times.h"

namespace virtset::api {

enum class Phase { pending, scheduling, scheduled, running, succeeded, failed };

const char* to_string(Phase phase);
// Of a stored instance; what is not known counts as pending.
Phase phase_of(const nlohmann::json& instance);
inline bool is_final(Phase phase) { return phase == Phase::succeeded || phase == Phase::failed; }

// KubeVirt: the condition Ready is always there, and says this in each phase but Running.
void set_guest_not_running(nlohmann::json& status, Time now);

// Enters a phase, and notes when it was entered first. A final phase is never left.
void enter_phase(nlohmann::json& status, Phase phase, Time now);

// What outlives the instance of what it was given: names, MACs and addresses of its interfaces.
nlohmann::json addresses_of(const nlohmann::json& status);

// When the phase was entered first, or the epoch.
Time phase_entered_at(const nlohmann::json& instance, Phase phase);

// KubeVirt: the launcher of a running instance is gone, so that nobody knows how it fares; a set
// replaces it at once.
inline constexpr const char* reason_process_gone = "PodTerminating";

}  // namespace virtset::api
