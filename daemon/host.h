// What this host can do.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/options.h"

namespace virtset {

// Whether guests must be emulated: KVM needs /dev/kvm that can be used AND a CPU with vmx or svm. A
// virtual machine may have the former without the latter, and guests then hang on it for ever.
// `why` gets the reason.
bool must_emulate(Emulation wanted, std::string& why);

// Memory of the host, in bytes; for guests if `guest_memory_mib` does not say otherwise. 0: no
// limit.
std::uint64_t memory_for_guests(std::int64_t guest_memory_mib);

}  // namespace virtset
