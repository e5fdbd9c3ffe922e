// Writes the ISO9660 images from which guests read their configuration.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace virtset::images {

// `files` go to the root of the image, with Joliet and Rock Ridge names. In process: an external
// tool takes a hundred times as long. Throws DiskFailed.
void write_seed_iso(const std::filesystem::path& target, const std::string& label,
                    const std::map<std::string, std::string>& files);

}  // namespace virtset::images
