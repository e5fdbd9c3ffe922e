#include "images/local_images.h"

#include <unistd.h>

#include <cerrno>

#include "images/files.h"
#include "images/seed_iso.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;

const fs::path& made(const fs::path& directory) {
  make_directory(directory);
  return directory;
}

}  // namespace

LocalImages::LocalImages(Options options)
    : vms_(made(options.directory) / "vms"),
      saved_(options.directory / "saved"),
      registry_(processes_, std::move(options.registry)),
      cache_(options.directory / "images", processes_, registry_, options.cache) {
  make_directory(vms_);
  make_directory(saved_);
}

ContainerDisk LocalImages::obtain(const std::string& reference, PullPolicy policy,
                                  const std::string& path) {
  return cache_.obtain(reference, policy, path);
}

std::map<std::string, MadeDisk> LocalImages::make_disks(const std::string& vm_uid,
                                                        const DiskPlan& plan) {
  const fs::path directory = vms_ / vm_uid;
  remove_tree(directory);
  if (plan.empty()) return {};
  make_directory(directory);
  try {
    std::map<std::string, MadeDisk> disks;
    for (const auto& planned : plan) {
      std::visit([&](const auto& disk) { disks[disk.name] = make(disk, directory); }, planned);
    }
    return disks;
  } catch (...) {
    std::error_code ignored;  // it is removed before the next attempt anyway
    fs::remove_all(directory, ignored);
    throw;
  }
}

MadeDisk LocalImages::make(const Overlay& overlay, const fs::path& directory) {
  const fs::path base = directory / (overlay.name + ".base");
  if (link(overlay.base.file.c_str(), base.c_str()) != 0) {
    if (errno == ENOENT) throw NotPresent("image " + overlay.base.digest + " was collected");
    throw_errno("cannot link " + overlay.base.file + " to", base);
  }
  const fs::path file = directory / (overlay.name + ".qcow2");
  create_qcow2(file, {"-F", overlay.base.format, "-b", base.string()});
  return {
      .file = file, .format = "qcow2", .backing_file = base, .backing_format = overlay.base.format};
}

// Unlike an image the volume stays where it is while a VM uses it. qemu-img need not open it, which
// may belong to QEMU's user.
MadeDisk LocalImages::make(const VolumeOverlay& overlay, const fs::path& directory) {
  const fs::path file = directory / (overlay.name + ".qcow2");
  create_qcow2(
      file, {"-u", "-F", "raw", "-b", overlay.file, "-o", "size=" + std::to_string(overlay.size)});
  return {.file = file,
          .format = "qcow2",
          .backing_file = overlay.file,
          .backing_format = "raw",
          .backing_is_private = true};
}

MadeDisk LocalImages::make(const EmptyDisk& disk, const fs::path& directory) {
  const fs::path file = directory / (disk.name + ".qcow2");
  create_qcow2(file, {"-o", "size=" + std::to_string(disk.capacity)});
  return {.file = file, .format = "qcow2"};
}

MadeDisk LocalImages::make(const SeedIso& iso, const fs::path& directory) {
  const fs::path file = directory / (iso.name + ".iso");
  write_seed_iso(file, iso.label, iso.files);
  return {.file = file, .format = "raw", .read_only = true};
}

void LocalImages::create_qcow2(const fs::path& file, const std::vector<std::string>& arguments) {
  ProcessSpec spec{.program = "qemu-img", .arguments = {"create", "-q", "-f", "qcow2"}};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.arguments.push_back(file.string());
  ProcessResult result;
  try {
    result = processes_.run(spec);
  } catch (const ProcessFailed& error) {
    throw DiskFailed(error.what(), false);
  }
  if (result.exit_code == 0) return;
  throw DiskFailed("qemu-img create: " + result.errors,
                   result.errors.find("No space left") != std::string::npos);
}

void LocalImages::remove_disks(const std::string& vm_uid) { remove_tree(vms_ / vm_uid); }

std::set<std::string> LocalImages::vms_with_disks() {
  std::set<std::string> uids;
  for (const auto& entry : fs::directory_iterator(vms_)) uids.insert(entry.path().filename());
  return uids;
}

}  // namespace virtset::images
