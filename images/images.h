// The seam to disks: container-disk images of the host and the disk files of each VM.
//
// All calls block and may be made from any thread; the daemon makes them from jobs. The file system
// is the only state: what is there is found by looking, after a crash as before.
#pragma once

#include <cstdint>
#include <map>
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
struct EmptyDisk {  // a fresh sparse qcow2
  std::string name;
  std::uint64_t capacity = 0;
};
struct SeedIso {  // an ISO9660 of small files
  std::string name;
  std::string label;
  std::map<std::string, std::string> files;
};
using DiskPlan = std::vector<std::variant<Overlay, EmptyDisk, SeedIso>>;

// A disk as it was made.
struct MadeDisk {
  std::string file;
  std::string format;
  std::string backing_file;  // empty: none
  std::string backing_format;
  bool read_only = false;
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
};

}  // namespace virtset::images
