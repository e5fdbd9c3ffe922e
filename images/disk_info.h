// What a disk image file is, according to qemu-img, which reads it under limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "images/process.h"

namespace virtset::images {

struct DiskInfo {
  std::string format;  // "raw" or "qcow2"
  std::uint64_t virtual_size = 0;
};

// Throws BadImage for anything but raw, or qcow2 that stands on its own: a backing or data file
// named by a stranger would be opened with our rights.
DiskInfo inspect_disk(const ProcessRunner& processes, const std::filesystem::path& file,
                      std::uint64_t largest_virtual_size);

}  // namespace virtset::images
