// Why an image or a disk could not be had. The classes decide what happens next; the messages are
// for people and carry the registry's or tool's own words.
#pragma once

#include <stdexcept>

namespace virtset::images {

class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The registry did not give it: may be different next time.
class PullFailed : public ImageError {
 public:
  using ImageError::ImageError;
};

// It is not here and the policy is Never.
class NotPresent : public ImageError {
 public:
  using ImageError::ImageError;
};

// It was given and is not a usable container disk.
class BadImage : public ImageError {
 public:
  using ImageError::ImageError;
};

// Nobody wants it any more.
class Cancelled : public ImageError {
 public:
  using ImageError::ImageError;
};

// A file could not be written; `disk_full()` says why.
class DiskFailed : public ImageError {
 public:
  DiskFailed(const std::string& message, bool disk_full)
      : ImageError(message), disk_full_(disk_full) {}
  bool disk_full() const { return disk_full_; }

 private:
  bool disk_full_;
};

}  // namespace virtset::images
