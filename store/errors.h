// What can go wrong in the store. Messages are for people; callers decide by type.
#pragma once

#include <stdexcept>
#include <string>

namespace virtset::store {

// A transaction was not made durable (disk full, I/O error). Nothing of it is visible.
class CommitFailed : public std::runtime_error {
 public:
  explicit CommitFailed(const std::string& cause, bool disk_full)
      : std::runtime_error("the change could not be stored: " + cause), disk_full_(disk_full) {}
  bool disk_full() const { return disk_full_; }

 private:
  bool disk_full_;
};

// More writes wait than the store accepts; the caller should try again later.
class Overloaded : public std::runtime_error {
 public:
  Overloaded() : std::runtime_error("too many writes are waiting to be stored, try again") {}
};

// A document is larger than the store keeps. Trying again does not help.
class TooLarge : public std::runtime_error {
 public:
  TooLarge(std::size_t size, std::size_t most)
      : std::runtime_error("the object has " + std::to_string(size) + " bytes, the most is " +
                           std::to_string(most)) {}
};

// The database cannot be opened or used by this version of the daemon.
class OpenFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace virtset::store
