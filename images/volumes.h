// The seam to disks that stay: one raw file for each claim, made whole or not at all.
//
// All calls may be made from any thread and block, except where it says otherwise. The file system
// is the only state: what is there is found by looking, after a crash as before.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>

#include "images/errors.h"
#include "images/reference.h"

namespace virtset::images {

// What a new volume has in it.
struct Blank {};
struct FromImage {  // the disk of a container image
  std::string reference;
  PullPolicy policy = PullPolicy::if_not_present;
};
struct FromUrl {  // a disk image on a web server
  std::string url;
  std::string checksum;  // "sha256:…", or empty
};
struct FromVolume {  // a copy of another, which nobody writes to meanwhile
  std::string id;
};
using VolumeContent = std::variant<Blank, FromImage, FromUrl, FromVolume>;

class Volumes {
 public:
  virtual ~Volumes() = default;

  // From 0 to 1, as far as that is known; called on the thread of make(), often.
  using Progress = std::function<void(double done)>;

  // Makes the volume, unless it is there. The content must fit into `size`. What an earlier attempt
  // has got is used. Throws PullFailed, NotPresent, BadImage, DiskFailed, Cancelled.
  virtual void make(const std::string& id, std::uint64_t size, const VolumeContent& content,
                    const Progress& progress) = 0;
  // Ends a make() of this volume that is under way. Does not block.
  virtual void cancel(const std::string& id) = 0;

  // Makes it larger; one that is as large is left alone. Throws DiskFailed, NotPresent.
  virtual void grow(const std::string& id, std::uint64_t size) = 0;

  // Removes it and what an unfinished attempt left. None is fine. Throws DiskFailed.
  virtual void remove(const std::string& id) = 0;

  // All there are, and whether they are whole.
  virtual std::map<std::string, bool> list() = 0;

  // Where its file is, or would be. Does not block.
  virtual std::string file(const std::string& id) const = 0;
};

}  // namespace virtset::images
