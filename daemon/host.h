// What this host is and what it can do.
#pragma once

#include <cstdint>
#include <filesystem>
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

// The name of a node on a host of this name: in lower case, with dashes for what a name of the API
// may not have, and short enough for a label.
std::string node_name_of(std::string host_name);

// The host as it is at a moment. What cannot be found out is empty or 0.
struct HostState {
  std::string host_name;
  std::string address;       // the host's own on its route out
  std::string architecture;  // in Go's words: "amd64", "arm64"
  std::string kernel;
  std::string os_image;  // "Debian GNU/Linux 12 (bookworm)"
  std::string machine_id;
  std::string system_uuid;
  std::string boot_id;
  unsigned cpus = 0;
  std::uint64_t memory = 0;            // bytes
  std::uint64_t available_memory = 0;  // bytes that can be had without swapping
  std::uint64_t disk = 0;              // bytes of the file system with the disks of VMs
  unsigned disk_used_percent = 0;      // of it, as the image cache counts
};

// Looks. Takes as long as the file system of `data_directory` does, so it is for jobs. An address
// of the interface `own_bridge` is not one by which the host is reached.
HostState look_at_host(const std::filesystem::path& data_directory, const std::string& own_bridge);

}  // namespace virtset
