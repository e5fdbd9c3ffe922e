#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "images/disk_info.h"
#include "images/files.h"
#include "images/local_images.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;

// Renamed before anybody goes on from it, so that nobody does so twice.
constexpr const char* memory_name = "memory";
constexpr const char* used_memory_name = "memory.used";

// What others have written into objects must not lead out of our directories.
const std::string& checked(const std::string& key) {
  if (!is_entry_name(key)) throw DiskFailed("\"" + key + "\" is no key of a saved state", false);
  return key;
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0)
    throw_errno("cannot move " + from.string() + " to", to);
  sync(to.parent_path());
  if (from.parent_path() != to.parent_path()) sync(from.parent_path());
}

}  // namespace

std::string LocalImages::memory_file(const std::string& vm_uid, std::uint64_t bytes) {
  demand_room(vms_, bytes);
  make_directory(vms_ / vm_uid);  // a VM without disks has none
  return vms_ / vm_uid / memory_name;
}

void LocalImages::set_aside(const std::string& vm_uid, const std::string& key) {
  const fs::path directory = vms_ / vm_uid;
  if (!fs::exists(directory / memory_name)) {
    remove_tree(directory);
    return;
  }
  remove_tree(saved_ / checked(key));
  rename_durably(directory, saved_ / checked(key));
}

std::optional<std::map<std::string, MadeDisk>> LocalImages::take_back(const std::string& key,
                                                                      const std::string& vm_uid) {
  const fs::path directory = vms_ / vm_uid;
  if (fs::exists(saved_ / checked(key))) {
    remove_tree(directory);
    rename_durably(saved_ / checked(key), directory);
  } else if (!fs::exists(directory / memory_name) && !fs::exists(directory / used_memory_name)) {
    return std::nullopt;
  }
  return find_disks(directory);
}

// As make() has named them.
std::map<std::string, MadeDisk> LocalImages::find_disks(const fs::path& directory) const {
  std::map<std::string, MadeDisk> disks;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const fs::path& file = entry.path();
    MadeDisk disk{.file = file, .format = "raw", .read_only = file.extension() == ".iso"};
    if (file.extension() == ".qcow2") {
      disk.format = "qcow2";
      fs::path base = file;
      base.replace_extension(".base");
      if (fs::exists(base)) {
        disk.backing_file = base;
        disk.backing_format = inspect_disk(processes_, base, UINT64_MAX).format;
      }
    } else if (!disk.read_only) {
      continue;
    }
    disks[file.stem()] = std::move(disk);
  }
  return disks;
}

std::string LocalImages::use_memory(const std::string& vm_uid) {
  const fs::path memory = vms_ / vm_uid / memory_name;
  if (!fs::exists(memory)) return {};
  const fs::path used = vms_ / vm_uid / used_memory_name;
  rename_durably(memory, used);
  return used;
}

void LocalImages::forget_memory(const std::string& vm_uid) {
  for (const char* name : {memory_name, used_memory_name}) {
    const fs::path file = vms_ / vm_uid / name;
    if (unlink(file.c_str()) != 0 && errno != ENOENT) throw_errno("cannot remove", file);
  }
}

std::map<std::string, std::uint64_t> LocalImages::set_aside_states() {
  std::map<std::string, std::uint64_t> states;
  for (const auto& entry : fs::directory_iterator(saved_)) {
    struct stat memory {};
    const bool found = stat((entry.path() / memory_name).c_str(), &memory) == 0;
    states[entry.path().filename()] = found ? static_cast<std::uint64_t>(memory.st_size) : 0;
  }
  return states;
}

void LocalImages::discard(const std::string& key) { remove_tree(saved_ / checked(key)); }

}  // namespace virtset::images
