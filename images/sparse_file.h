// Files in which zeros take no space.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace virtset::images {

// One that is written from front to back; zeros become holes. Throws DiskFailed.
class SparseFile {
 public:
  // A new one.
  explicit SparseFile(const std::filesystem::path& path);
  // One that is there, and is cut off at `end` to go on from there.
  SparseFile(const std::filesystem::path& path, std::int64_t end);
  ~SparseFile();
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;

  void write_at(std::int64_t offset, const char* data, std::size_t size);
  // Makes it `size` bytes long and durable.
  void finish(std::int64_t size);

 private:
  void write_all(std::int64_t offset, const char* data, std::size_t size);

  std::filesystem::path path_;
  int fd_;
};

// Called with the offset that was reached; may throw.
using Reached = std::function<void(std::int64_t offset)>;

// Called with the bytes that a copy is going to take; throws if there is no room for them.
using DemandRoom = std::function<void(std::uint64_t bytes)>;

// Copies `from` to the new file `to`, `size` bytes long and durable: by sharing its blocks where
// the file system can, else all but the holes, after it has asked for room. Throws DiskFailed.
void copy_sparsely(const std::filesystem::path& from, const std::filesystem::path& to,
                   std::int64_t size, const DemandRoom& demand_room, const Reached& reached);

}  // namespace virtset::images
