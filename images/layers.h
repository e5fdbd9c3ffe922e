// Takes the one disk file out of the layers of a container image.
//
// Layers are what strangers wrote. Nothing of them is ever created under a name they chose: the
// disk is written to a path of ours, and links, devices and paths that climb are refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace virtset::images {

// Writes to `target` the file that a container of these layers would see at `path`, or, if `path`
// is empty, the only file below /disk/ (KubeVirt: "/disk must contain exactly one entry"). Layers
// are given lowest first, as tar, compressed or not. Zeros become holes. Throws BadImage,
// DiskFailed; then `target` may be there half-written.
void extract_disk(const std::vector<std::filesystem::path>& layers, const std::string& path,
                  const std::filesystem::path& target, std::uint64_t largest);

}  // namespace virtset::images
