// What the pool controller notes on virtual machines.
#pragma once

namespace virtset {

// "true": it is there for a roll-out only, beyond the pool's replicas.
inline constexpr const char* surge_annotation = "virtset.io/surge";

// In the write that deletes it.
// Disabled, Offline or Online: whether its disks are to outlive it.
inline constexpr const char* preservation_annotation = "virtset.io/state-preservation";

}  // namespace virtset
