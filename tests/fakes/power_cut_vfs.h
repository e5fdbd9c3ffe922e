// A disk that can lose power at any write: an SQLite VFS in memory which keeps apart what was
// written and what was synced.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace virtset::test {

class PowerCutDisk {
 public:
  // Registers the VFS under `name`.
  explicit PowerCutDisk(std::string name);
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;
  PowerCutDisk& operator=(const PowerCutDisk&) = delete;

  const char* name() const { return name_.c_str(); }

  // Writes, truncations and syncs so far.
  int operations() const { return operations_; }
  // After this many operations every further one fails, as with the power gone. -1: never.
  void cut_after(int operations) { cut_after_ = operations; }
  // As after the power came back: of what was not synced, each block of 512 bytes is there or not,
  // as the seed decides.
  void restart(unsigned seed);
  // Every write fails as on a full disk, from now on or not any more.
  void fill(bool full) { full_ = full; }

  struct Impl;

 private:
  friend struct Impl;
  struct Write {
    std::size_t offset;
    std::string data;
    bool truncate = false;
  };
  struct File {
    std::string current;
    std::string durable;
    std::vector<Write> unsynced;
    std::vector<std::vector<char>> shared_memory;
  };

  bool power() { return cut_after_ < 0 || operations_ < cut_after_; }

  std::string name_;
  int operations_ = 0;
  int cut_after_ = -1;
  bool full_ = false;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace virtset::test
