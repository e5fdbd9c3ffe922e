// Small file operations that either happen whole or not at all. They block; errors are DiskFailed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace virtset::images {

// Throws DiskFailed for the current errno.
[[noreturn]] void throw_errno(const std::string& what, const std::filesystem::path& path);

std::string read_file(const std::filesystem::path& path);

// Writes, syncs and renames, so that a reader or a power cut sees the old or the new content.
void write_file(const std::filesystem::path& path, std::string_view content, unsigned mode);

// Syncs a file or directory.
void sync(const std::filesystem::path& path);

// Makes a directory that everybody may pass through and nobody else may list.
void make_directory(const std::filesystem::path& path);

// Lets this process's user read and write a file of its own whoever owns it later, and nobody else
// whom its owner does not let: libvirt gives disks to QEMU's user, and not all of them back. Where
// there are no access control lists nothing happens.
void keep_access(const std::filesystem::path& path);

// Throws DiskFailed (disk_full) unless the file system of the directory has room for so many bytes
// beside what is kept free for running virtual machines: a twentieth of it, and no more than
// `reserve`.
constexpr std::uint64_t default_reserve = 1ull << 30;
void demand_room(const std::filesystem::path& directory, std::uint64_t bytes,
                 std::uint64_t reserve = default_reserve);

// Whether it can be the name of an entry of our directories, and does not lead out of them.
bool is_entry_name(std::string_view name);

// Removes a file or a tree; nothing there is fine.
void remove_tree(const std::filesystem::path& path);

// A directory that is removed with its content at the end of the scope.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::filesystem::path& parent);
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace virtset::images
