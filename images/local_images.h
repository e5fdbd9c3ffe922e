// The disks of this host: container disks in images/, the disks of VMs in vms/<uid>/, those of
// saved ones with their memory in saved/<key>/.
#pragma once

#include <filesystem>
#include <memory>

#include "images/image_cache.h"
#include "images/images.h"
#include "images/process.h"
#include "images/registry.h"

namespace virtset::images {

class LocalImages final : public Images {
 public:
  struct Options {
    std::filesystem::path
        directory;  // both parts are below it: hard links do not cross file systems
    RegistryOptions registry;
    CacheOptions cache;
  };

  // Makes the directories if need be. Throws DiskFailed.
  explicit LocalImages(Options options);

  ContainerDisk obtain(const std::string& reference, PullPolicy policy,
                       const std::string& path) override;
  std::map<std::string, MadeDisk> make_disks(const std::string& vm_uid,
                                             const DiskPlan& plan) override;
  void remove_disks(const std::string& vm_uid) override;
  std::set<std::string> vms_with_disks() override;
  // saved_states.cpp
  std::string memory_file(const std::string& vm_uid, std::uint64_t bytes) override;
  void set_aside(const std::string& vm_uid, const std::string& key) override;
  std::optional<std::map<std::string, MadeDisk>> take_back(const std::string& key,
                                                           const std::string& vm_uid) override;
  std::string use_memory(const std::string& vm_uid) override;
  void forget_memory(const std::string& vm_uid) override;
  std::map<std::string, std::uint64_t> set_aside_states() override;
  void discard(const std::string& key) override;

  ImageCache& cache() { return cache_; }
  // Ends pulls that are under way and refuses new ones.
  void cancel() { processes_.cancel(); }

 private:
  MadeDisk make(const Overlay& overlay, const std::filesystem::path& directory);
  MadeDisk make(const VolumeOverlay& overlay, const std::filesystem::path& directory);
  MadeDisk make(const EmptyDisk& disk, const std::filesystem::path& directory);
  MadeDisk make(const SeedIso& iso, const std::filesystem::path& directory);
  void create_qcow2(const std::filesystem::path& file, const std::vector<std::string>& arguments);

  std::map<std::string, MadeDisk> find_disks(const std::filesystem::path& directory) const;

  const std::filesystem::path vms_;
  const std::filesystem::path saved_;
  ProcessRunner processes_;
  Registry registry_;
  ImageCache cache_;
};

}  // namespace virtset::images
