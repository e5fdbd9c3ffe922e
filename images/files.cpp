#include "images/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include "images/errors.h"

namespace virtset::images {

namespace fs = std::filesystem;

void throw_errno(const std::string& what, const fs::path& path) {
  const int error = errno;
  throw DiskFailed(what + " " + path.string() + ": " + std::strerror(error),
                   error == ENOSPC || error == EDQUOT);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_errno("cannot read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, std::string_view content, unsigned mode) {
  const fs::path temporary = path.string() + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) throw_errno("cannot create", temporary);
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      close(fd);
      unlink(temporary.c_str());
      errno = error;
      throw_errno("cannot write", temporary);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool synced = fsync(fd) == 0;
  if ((close(fd) != 0) || !synced || rename(temporary.c_str(), path.c_str()) != 0) {
    throw_errno("cannot write", path);
  }
  sync(path.parent_path());
}

void sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_errno("cannot open", path);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  errno = error;
  if (result != 0) throw_errno("cannot sync", path);
}

void make_directory(const fs::path& path) {
  if (mkdir(path.c_str(), 0711) != 0 && errno != EEXIST) throw_errno("cannot make", path);
  // QEMU runs as another user and must pass through, whatever our umask is.
  if (chmod(path.c_str(), 0711) != 0) throw_errno("cannot make accessible", path);
}

void keep_access(const fs::path& path) {
  // acl(5), as the kernel takes it.
  constexpr std::uint16_t user_obj = 0x01, user = 0x02, group_obj = 0x04, mask = 0x10, other = 0x20;
  constexpr std::uint16_t read_write = 6;
  constexpr std::uint32_t nobody = UINT32_MAX;
  if (geteuid() == 0) return;
  struct Entry {
    std::uint16_t tag, permissions;
    std::uint32_t id;
  };
  const struct {
    std::uint32_t version = 2;
    Entry entries[5];
  } list{.entries = {{user_obj, read_write, nobody},
                     {user, read_write, geteuid()},
                     {group_obj, 0, nobody},
                     {mask, read_write, nobody},
                     {other, 0, nobody}}};
  if (setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof list, 0) != 0 &&
      errno != ENOTSUP) {
    throw_errno("cannot keep access to", path);
  }
}

void demand_room(const fs::path& directory, std::uint64_t bytes, std::uint64_t reserve) {
  struct statvfs status {};
  if (statvfs(directory.c_str(), &status) != 0) throw_errno("cannot look at", directory);
  const std::uint64_t unit = status.f_frsize;
  const std::uint64_t kept = std::min(reserve, status.f_blocks * unit / 20);
  const std::uint64_t available = status.f_bavail * unit;
  if (available >= kept && available - kept >= bytes) return;
  constexpr std::uint64_t mebibyte = 1 << 20;
  throw DiskFailed("No space left: the file system of " + directory.string() + " has " +
                       std::to_string(available / mebibyte) + " MiB free, of which " +
                       std::to_string(kept / mebibyte) +
                       " are kept for running virtual machines, and " +
                       std::to_string(bytes / mebibyte) + " more are needed",
                   true);
}

bool is_entry_name(std::string_view name) {
  using namespace std::string_view_literals;
  return !name.empty() && name[0] != '.' && name.find_first_of("/\0"sv) == name.npos;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) {
    errno = error.value();
    throw_errno("cannot remove", path);
  }
}

ScratchDirectory::ScratchDirectory(const fs::path& parent) {
  std::string pattern = (parent / "XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw_errno("cannot make a directory in", parent);
  path_ = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;  // what is left here goes at the next start
  fs::remove_all(path_, ignored);
}

}  // namespace virtset::images
