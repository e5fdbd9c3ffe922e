// The container disks of this host: pulled or imported once, verified once, shared read-only.
//
// Layout below the directory, each item complete or absent:
//   disks/<key>/disk       the disk image, mode 0444
//   disks/<key>/info.json  digest, format, virtual size; written last
//   refs/<hash>.json       which digest a reference had when it was last asked for
//   tmp/                   work in progress, emptied at start
//
// A VM that uses a disk holds a hard link to it. So the link count is the reference count, it
// survives any crash, and a disk may be collected without harm at any time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "images/images.h"
#include "images/registry.h"

namespace virtset::images {

struct CacheOptions {
  std::uint64_t largest_disk_file = 100ull << 30;
  std::uint64_t largest_virtual_size = 2ull << 40;
  // kubelet: above the high mark of the file system's use unused images go, oldest first, until the
  // low mark is reached; none younger than the minimum age.
  unsigned high_water_percent = 85;
  unsigned low_water_percent = 80;
  std::chrono::seconds minimum_age{120};
};

class ImageCache {
 public:
  // Makes the directory if need be and empties tmp/. Throws DiskFailed.
  ImageCache(std::filesystem::path directory, const ProcessRunner& processes,
             const Registry& registry, CacheOptions options);

  // See Images::obtain.
  ContainerDisk obtain(const std::string& reference, PullPolicy policy, const std::string& path);

  // Takes in an OCI or docker archive: every image in it becomes present under its reference.
  // Returns the references. Unchanged archives are recognised and not read again.
  std::vector<std::string> import_archive(const std::filesystem::path& archive);

  // Frees unused disks as the water marks demand and returns the digests that went.
  std::vector<std::string> collect();
  // The same, as if the file system were filled to `used_percent`.
  std::vector<std::string> collect(unsigned used_percent);

 private:
  struct Resolved {
    std::string digest;
    // Where it was imported from: skopeo's notation, and the file as it was then. Empty: a
    // registry.
    std::string archive_source;
    std::string archive_stamp;

    bool imported() const { return !archive_source.empty(); }
  };
  class Turn;

  std::optional<Resolved> resolved(const Reference& reference) const;
  void remember(const Reference& reference, const Resolved& resolved);
  std::optional<ContainerDisk> present(const std::string& digest, const std::string& path) const;
  ContainerDisk pull(const Reference& reference, const std::string& digest,
                     const std::string& path);
  ContainerDisk unpack(const Resolved& resolved, const std::string& path);
  ContainerDisk take_in(const FetchedImage& image, const std::string& path,
                        const std::filesystem::path& scratch);
  bool archive_is_unchanged(const std::string& stamp) const;
  std::set<std::string> digests_to_keep();

  const std::filesystem::path directory_;
  const ProcessRunner& processes_;
  const Registry& registry_;
  const CacheOptions options_;

  // Images that are being taken in; who wants the same one waits for its turn and then finds it.
  std::mutex mutex_;
  std::condition_variable turn_ended_;
  std::set<std::string> in_turn_;
};

}  // namespace virtset::images
