// The seam to disks: container-disk images of the host and the disk files of each VM.
//
// All calls block and may be made from any thread; the daemon makes them from jobs. The file system
// is the only state: what is there is found by looking, after a crash as before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "images/errors.h"
#include "images/reference.h"

namespace virtset::images {

// A verified container disk in the cache.
struct ContainerDisk {
  std::string digest;  // of the image's manifest
  std::string file;    // read-only, may be collected as soon as no VM uses it
  std::string format;  // "raw" or "qcow2"
  std::uint64_t virtual_size = 0;
};

// One disk of a VM that is to be made. Names are DNS labels.
struct Overlay {  // a throw-away qcow2 over a container disk
  std::string name;
  ContainerDisk base;
};
struct VolumeOverlay {  // a throw-away qcow2 over a volume, which is raw
  std::string name;
  std::string file;
  std::uint64_t size = 0;
};
struct EmptyDisk {  // a fresh sparse qcow2
  std::string name;
  std::uint64_t capacity = 0;
};
struct SeedIso {  // an ISO9660 of small files
  std::string name;
  std::string label;
  std::map<std::string, std::string> files;  // by path, e.g. "openstack/latest/user_data"
};
using DiskPlan = std::vector<std::variant<Overlay, VolumeOverlay, EmptyDisk, SeedIso>>;

// A disk as it was made.
struct MadeDisk {
  std::string file;
  std::string format;
  std::string backing_file;  // empty: none
  std::string backing_format;
  bool backing_is_private = false;  // readable by its owner alone
  bool read_only = false;
  bool shareable = false;  // other VMs may write to it at the same time
};

class Images {
 public:
  virtual ~Images() = default;

  // The container disk of a reference; pulls it if the policy says so. `path` is that of the disk
  // inside the image, or empty. Throws PullFailed, NotPresent, BadImage, DiskFailed, BadReference.
  virtual ContainerDisk obtain(const std::string& reference, PullPolicy policy,
                               const std::string& path) = 0;

  // Makes all disks of a VM afresh, or none; whatever a VM of this uid had is gone. Throws
  // DiskFailed, or NotPresent if a base image was collected meanwhile: obtain it again. By disk
  // name.
  virtual std::map<std::string, MadeDisk> make_disks(const std::string& vm_uid,
                                                     const DiskPlan& plan) = 0;

  // Removes all disks of a VM. None is fine.
  virtual void remove_disks(const std::string& vm_uid) = 0;

  // The uids of the VMs that have disks.
  virtual std::set<std::string> vms_with_disks() = 0;

  // A VM may be saved, with its memory, for another one that goes on where it was. What is saved is
  // kept under a key until it is taken back or discarded.

  // The file beside its disks that a VM's memory of so many bytes is to be written to. Throws
  // DiskFailed if that would leave no room for those that run.
  virtual std::string memory_file(const std::string& vm_uid, std::uint64_t bytes) = 0;
  // Keeps the disks and the memory of a VM under the key. Without memory its disks are removed.
  // Throws DiskFailed.
  virtual void set_aside(const std::string& vm_uid, const std::string& key) = 0;
  // Gives them to another VM; asked again, what it has. Nothing if there is nothing. Throws
  // DiskFailed.
  virtual std::optional<std::map<std::string, MadeDisk>> take_back(const std::string& key,
                                                                   const std::string& vm_uid) = 0;
  // The memory that a VM which was given one may go on from, or empty. Only once: who goes on a
  // second time from an old memory ruins disks that have changed since.
  virtual std::string use_memory(const std::string& vm_uid) = 0;
  // The VM runs: no memory of it is of use any more, written or used.
  virtual void forget_memory(const std::string& vm_uid) = 0;

  // The keys of what is kept, and the size of the memory in bytes.
  virtual std::map<std::string, std::uint64_t> set_aside_states() = 0;
  // Removes what is kept under the key. None is fine.
  virtual void discard(const std::string& key) = 0;
};

}  // namespace virtset::images
