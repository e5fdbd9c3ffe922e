// Reads which images an OCI or docker archive holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace virtset::images {

struct ArchivedImage {
  std::string reference;  // under which it becomes present
  std::string source;     // for skopeo, e.g. "docker-archive:/path/x.tar:repository:tag"
};

// Throws BadImage if the file is no such archive. A name that is only a tag, which is what most
// tools write into OCI archives, belongs to an image that is named like the file.
std::vector<ArchivedImage> list_archive(const std::filesystem::path& archive);

}  // namespace virtset::images
