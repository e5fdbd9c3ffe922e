#include "images/disk_info.h"

#include <nlohmann/json.hpp>

#include "images/errors.h"

namespace virtset::images {

DiskInfo inspect_disk(const ProcessRunner& processes, const std::filesystem::path& file,
                      std::uint64_t largest_virtual_size) {
  ProcessSpec spec{.program = "qemu-img", .arguments = {"info", "--output=json", file.string()}};
  // KubeVirt runs it under limits too: the header of an image can ask for any amount of memory.
  spec.address_space_bytes = 1ull << 30;
  spec.cpu_seconds = 10;
  const ProcessResult result = processes.run(spec);
  if (result.exit_code != 0) {
    throw BadImage("qemu-img cannot read the disk image: " + result.errors);
  }
  const auto info = nlohmann::json::parse(result.output, nullptr, false);
  if (!info.is_object()) throw BadImage("qemu-img gave no information about the disk image");
  DiskInfo disk{info.value("format", ""), info.value("virtual-size", std::uint64_t{0})};
  if (disk.format != "raw" && disk.format != "qcow2") {
    throw BadImage("the disk image has the format " + disk.format +
                   "; only raw and qcow2 are supported");
  }
  if (info.contains("backing-filename") || info.contains("full-backing-filename")) {
    throw BadImage("the disk image has a backing file, " + info.value("backing-filename", "") +
                   ", which a container disk must not have");
  }
  const auto& specific = info.value("format-specific", nlohmann::json::object());
  if (specific.is_object() &&
      specific.value("data", nlohmann::json::object()).contains("data-file")) {
    throw BadImage(
        "the disk image has an external data file, which a container disk must not have");
  }
  if (disk.virtual_size == 0) throw BadImage("the disk image is empty");
  if (disk.virtual_size > largest_virtual_size) {
    throw BadImage("the disk image has a virtual size of " + std::to_string(disk.virtual_size) +
                   " bytes; the limit is " + std::to_string(largest_virtual_size));
  }
  return disk;
}

}  // namespace virtset::images
