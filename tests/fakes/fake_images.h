// Images and disks as names in sets, for tests of the controllers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "images/images.h"

namespace virtset::test {

class FakeImages : public images::Images {
 public:
  images::ContainerDisk obtain(const std::string& reference, images::PullPolicy,
                               const std::string&) override {
    ++pulls[reference];
    if (const auto it = refuse.find(reference); it != refuse.end()) {
      throw images::PullFailed(it->second);
    }
    return {"sha256:" + reference, "/images/" + reference, "raw", 1 << 20};
  }

  std::map<std::string, images::MadeDisk> make_disks(const std::string& vm_uid,
                                                     const images::DiskPlan& plan) override {
    disks.erase(vm_uid);
    if (disk_is_full) throw images::DiskFailed("cannot write: No space left on device", true);
    ++made[vm_uid];
    plans[vm_uid] = plan;
    std::map<std::string, images::MadeDisk> result;
    for (const auto& planned : plan) {
      std::visit(
          [&](const auto& disk) {
            result[disk.name] = {.file = "/vms/" + vm_uid + "/" + disk.name, .format = "qcow2"};
          },
          planned);
    }
    disks.insert(vm_uid);
    files[vm_uid] = result;
    return result;
  }

  void remove_disks(const std::string& vm_uid) override { disks.erase(vm_uid); }
  std::set<std::string> vms_with_disks() override { return disks; }

  std::string memory_file(const std::string& vm_uid, std::uint64_t = 0) override {
    return "/vms/" + vm_uid + "/memory";
  }
  void set_aside(const std::string& vm_uid, const std::string& key) override {
    if (memory_is_written && memory_is_written(memory_file(vm_uid))) {
      saved[key] = files[vm_uid];
    }
    disks.erase(vm_uid);
  }
  std::optional<std::map<std::string, images::MadeDisk>> take_back(
      const std::string& key, const std::string& vm_uid) override {
    if (const auto it = saved.find(key); it != saved.end()) {
      given_back[vm_uid] = true;
      files[vm_uid] = std::move(it->second);
      saved.erase(it);
    } else if (!given_back.contains(vm_uid)) {
      return std::nullopt;
    }
    disks.insert(vm_uid);
    return files[vm_uid];
  }
  std::string use_memory(const std::string& vm_uid) override {
    const auto it = given_back.find(vm_uid);
    if (it == given_back.end() || !it->second) return "";
    it->second = false;
    return memory_file(vm_uid) + ".used";
  }
  void forget_memory(const std::string& vm_uid) override { given_back.erase(vm_uid); }
  std::map<std::string, std::uint64_t> set_aside_states() override {
    std::map<std::string, std::uint64_t> states;
    for (const auto& [key, disks_of] : saved) states[key] = 1 << 20;
    return states;
  }
  void discard(const std::string& key) override { saved.erase(key); }

  // Whether the hypervisor has written this file.
  std::function<bool(const std::string& file)> memory_is_written;
  std::map<std::string, std::map<std::string, images::MadeDisk>> saved;  // by key
  std::map<std::string, std::map<std::string, images::MadeDisk>> files;  // by uid of the VM
  std::map<std::string, bool> given_back;     // by uid, whether its memory can still be used
  std::map<std::string, std::string> refuse;  // reference to the registry's words
  bool disk_is_full = false;
  std::map<std::string, int> pulls;
  std::map<std::string, int> made;
  std::map<std::string, images::DiskPlan> plans;  // that were asked for last, by VM
  std::set<std::string> disks;
};

}  // namespace virtset::test
