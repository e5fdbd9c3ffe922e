// Images and disks as names in sets, for tests of the controllers.
#pragma once

#include <map>
#include <set>
#include <string>

#include "images/images.h"

namespace virtset::test {

class FakeImages final : public images::Images {
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
    std::map<std::string, images::MadeDisk> result;
    for (const auto& planned : plan) {
      std::visit(
          [&](const auto& disk) {
            result[disk.name] = {.file = "/vms/" + vm_uid + "/" + disk.name, .format = "qcow2"};
          },
          planned);
    }
    disks.insert(vm_uid);
    return result;
  }

  void remove_disks(const std::string& vm_uid) override { disks.erase(vm_uid); }
  std::set<std::string> vms_with_disks() override { return disks; }

  std::map<std::string, std::string> refuse;  // reference to the registry's words
  bool disk_is_full = false;
  std::map<std::string, int> pulls;
  std::map<std::string, int> made;
  std::set<std::string> disks;
};

}  // namespace virtset::test
