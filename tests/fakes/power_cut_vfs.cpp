#include "tests/fakes/power_cut_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>

namespace virtset::test {

// The C side of the VFS. One connection at a time, so locks always succeed.
struct PowerCutDisk::Impl {
  struct Handle {
    sqlite3_file base;
    PowerCutDisk* disk;
    std::shared_ptr<File> file;
  };

  static Handle* of(sqlite3_file* file) { return reinterpret_cast<Handle*>(file); }
  static PowerCutDisk* disk_of(sqlite3_vfs* vfs) {
    return static_cast<PowerCutDisk*>(vfs->pAppData);
  }

  static int close(sqlite3_file* file) {
    of(file)->file.reset();
    return SQLITE_OK;
  }

  static int read(sqlite3_file* file, void* buffer, int size, sqlite3_int64 offset) {
    const std::string& data = of(file)->file->current;
    const auto start = static_cast<std::size_t>(offset);
    const auto wanted = static_cast<std::size_t>(size);
    const std::size_t there = start < data.size() ? std::min(wanted, data.size() - start) : 0;
    std::memcpy(buffer, data.data() + (there ? start : 0), there);
    std::memset(static_cast<char*>(buffer) + there, 0, wanted - there);
    return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  static void apply(std::string& data, const Write& write) {
    if (write.truncate) {
      data.resize(write.offset);
      return;
    }
    if (data.size() < write.offset + write.data.size())
      data.resize(write.offset + write.data.size());
    std::copy(write.data.begin(), write.data.end(),
              data.begin() + static_cast<std::ptrdiff_t>(write.offset));
  }

  static int change(sqlite3_file* file, Write write) {
    PowerCutDisk& disk = *of(file)->disk;
    if (!disk.power()) return SQLITE_IOERR_WRITE;
    ++disk.operations_;
    if (disk.full_ && !write.truncate) return SQLITE_FULL;
    apply(of(file)->file->current, write);
    of(file)->file->unsynced.push_back(std::move(write));
    return SQLITE_OK;
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    return change(file,
                  {static_cast<std::size_t>(offset),
                   std::string(static_cast<const char*>(data), static_cast<std::size_t>(size))});
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    return change(file, {static_cast<std::size_t>(size), "", true});
  }

  static int sync(sqlite3_file* file, int) {
    PowerCutDisk& disk = *of(file)->disk;
    if (!disk.power()) return SQLITE_IOERR_FSYNC;
    ++disk.operations_;
    of(file)->file->durable = of(file)->file->current;
    of(file)->file->unsynced.clear();
    return SQLITE_OK;
  }

  static int size(sqlite3_file* file, sqlite3_int64* size) {
    *size = static_cast<sqlite3_int64>(of(file)->file->current.size());
    return SQLITE_OK;
  }

  static int map_shared(sqlite3_file* file, int page, int page_size, int extend,
                        void volatile** memory) {
    auto& pages = of(file)->file->shared_memory;
    const auto index = static_cast<std::size_t>(page);
    if (index >= pages.size() && !extend) {
      *memory = nullptr;
      return SQLITE_OK;
    }
    while (pages.size() <= index) pages.emplace_back(static_cast<std::size_t>(page_size), 0);
    *memory = pages[index].data();
    return SQLITE_OK;
  }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    static const sqlite3_io_methods methods = {
        2,
        close,
        read,
        write,
        truncate,
        sync,
        size,
        [](sqlite3_file*, int) { return SQLITE_OK; },  // lock
        [](sqlite3_file*, int) { return SQLITE_OK; },  // unlock
        [](sqlite3_file*, int* reserved) { return *reserved = 0, SQLITE_OK; },
        [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; },  // file control
        [](sqlite3_file*) { return 512; },
        [](sqlite3_file*) { return 0; },
        map_shared,
        [](sqlite3_file*, int, int, int) { return SQLITE_OK; },
        [](sqlite3_file*) {},
        [](sqlite3_file* handle, int) {
          return of(handle)->file->shared_memory.clear(), SQLITE_OK;
        },
        nullptr,
        nullptr};
    PowerCutDisk& disk = *disk_of(vfs);
    auto* handle = new (file) Handle{};
    handle->base.pMethods = &methods;
    handle->disk = &disk;
    std::shared_ptr<File>& entry = disk.files_[path ? path : "temporary"];
    if (!entry) entry = std::make_shared<File>();
    handle->file = entry;
    if (out) *out = flags;
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int) {
    disk_of(vfs)->files_.erase(path);
    return SQLITE_OK;
  }

  static int access(sqlite3_vfs* vfs, const char* path, int, int* exists) {
    *exists = disk_of(vfs)->files_.contains(path) ? 1 : 0;
    return SQLITE_OK;
  }

  static int full_path(sqlite3_vfs*, const char* path, int size, char* full) {
    sqlite3_snprintf(size, full, "%s", path);
    return SQLITE_OK;
  }

  sqlite3_vfs vfs{};
};

PowerCutDisk::PowerCutDisk(std::string name)
    : name_(std::move(name)), impl_(std::make_unique<Impl>()) {
  const sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  impl_->vfs = *real;
  impl_->vfs.pNext = nullptr;
  impl_->vfs.szOsFile = sizeof(Impl::Handle);
  impl_->vfs.zName = name_.c_str();
  impl_->vfs.pAppData = this;
  impl_->vfs.xOpen = Impl::open;
  impl_->vfs.xDelete = Impl::remove;
  impl_->vfs.xAccess = Impl::access;
  impl_->vfs.xFullPathname = Impl::full_path;
  sqlite3_vfs_register(&impl_->vfs, 0);
}

PowerCutDisk::~PowerCutDisk() { sqlite3_vfs_unregister(&impl_->vfs); }

void PowerCutDisk::restart(unsigned seed) {
  std::mt19937 random(seed);
  constexpr std::size_t sector = 512;
  for (auto& [path, file] : files_) {
    for (const Write& write : file->unsynced) {
      for (std::size_t start = 0; start < std::max<std::size_t>(1, write.data.size());
           start += sector) {
        if (random() % 2) continue;
        Impl::apply(
            file->durable,
            write.truncate ? write : Write{write.offset + start, write.data.substr(start, sector)});
      }
    }
    file->current = file->durable;
    file->unsynced.clear();
    file->shared_memory.clear();
  }
  cut_after_ = -1;
  operations_ = 0;
}

}  // namespace virtset::test
