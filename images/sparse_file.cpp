#include "images/sparse_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "images/files.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t hole_granularity = 4096;
constexpr std::size_t copied_at_once = 1 << 20;

struct Descriptor {
  int fd;
  ~Descriptor() { close(fd); }
};

bool share_blocks(int from, const fs::path& to) {
  const Descriptor target{open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (target.fd < 0) throw_errno("cannot create", to);
  if (ioctl(target.fd, FICLONE, from) == 0) return true;
  unlink(to.c_str());
  return false;
}

}  // namespace

SparseFile::SparseFile(const fs::path& path) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) throw_errno("cannot create", path);
}

SparseFile::SparseFile(const fs::path& path, std::int64_t end) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) throw_errno("cannot open", path);
  if (ftruncate(fd_, end) != 0) {
    const int error = errno;
    close(fd_);
    errno = error;
    throw_errno("cannot write", path);
  }
}

SparseFile::~SparseFile() { close(fd_); }

void SparseFile::write_at(std::int64_t offset, const char* data, std::size_t size) {
  while (size > 0) {
    // Up to the next boundary of a block, so that whole blocks of zeros are recognised.
    const auto step =
        std::min(size, hole_granularity - static_cast<std::size_t>(offset) % hole_granularity);
    if (!std::all_of(data, data + step, [](char byte) { return byte == 0; })) {
      write_all(offset, data, step);
    }
    offset += static_cast<std::int64_t>(step);
    data += step;
    size -= step;
  }
}

void SparseFile::finish(std::int64_t size) {
  if (ftruncate(fd_, size) != 0 || fsync(fd_) != 0) throw_errno("cannot write", path_);
}

void SparseFile::write_all(std::int64_t offset, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = pwrite(fd_, data, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("cannot write", path_);
    offset += written;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

void copy_sparsely(const fs::path& from, const fs::path& to, std::int64_t size,
                   const DemandRoom& demand_room, const Reached& reached) {
  const Descriptor source{open(from.c_str(), O_RDONLY | O_CLOEXEC)};
  if (source.fd < 0) throw_errno("cannot read", from);
  if (share_blocks(source.fd, to)) {
    SparseFile(to, size).finish(size);
    return;
  }
  struct stat status {};
  if (fstat(source.fd, &status) != 0) throw_errno("cannot look at", from);
  demand_room(static_cast<std::uint64_t>(status.st_blocks) * 512);
  SparseFile target(to);
  std::vector<char> buffer(copied_at_once);
  std::int64_t offset = 0;
  for (;;) {
    const off_t data = lseek(source.fd, offset, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // holes up to the end
    if (data < 0) throw_errno("cannot read", from);
    const off_t hole = lseek(source.fd, data, SEEK_HOLE);
    if (hole < 0) throw_errno("cannot read", from);
    for (offset = data; offset < hole;) {
      const auto wanted =
          std::min<std::int64_t>(hole - offset, static_cast<std::int64_t>(buffer.size()));
      const ssize_t count =
          pread(source.fd, buffer.data(), static_cast<std::size_t>(wanted), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw_errno("cannot read", from);
      if (count == 0) break;
      target.write_at(offset, buffer.data(), static_cast<std::size_t>(count));
      offset += count;
      reached(offset);
    }
    offset = hole;
  }
  target.finish(size);
}

}  // namespace virtset::images
