#include "images/seed_iso.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "images/errors.h"
#include "images/files.h"

namespace virtset::images {

namespace {

struct FreeArchive {
  void operator()(archive* handle) const { archive_write_free(handle); }
};
struct Descriptor {
  int fd;
  ~Descriptor() { close(fd); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

void check(archive* writer, int result) {
  if (result >= ARCHIVE_WARN) return;
  const int error = archive_errno(writer);
  throw DiskFailed("cannot write a seed image: " + std::string(archive_error_string(writer)),
                   error == ENOSPC || error == EDQUOT);
}

}  // namespace

void write_seed_iso(const std::filesystem::path& target, const std::string& label,
                    const std::map<std::string, std::string>& files) {
  // Made first, because libarchive would make it readable for all and it may hold secrets.
  const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw_errno("cannot create", target);
  const std::unique_ptr<archive, FreeArchive> writer(archive_write_new());
  const Descriptor closer{fd};
  check(writer.get(), archive_write_set_format_iso9660(writer.get()));
  check(writer.get(),
        archive_write_set_format_option(writer.get(), "iso9660", "volume-id", label.c_str()));
  check(writer.get(), archive_write_open_fd(writer.get(), fd));
  for (const auto& [name, content] : files) {
    const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0444);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    check(writer.get(), archive_write_header(writer.get(), entry.get()));
    if (archive_write_data(writer.get(), content.data(), content.size()) !=
        static_cast<la_ssize_t>(content.size())) {
      check(writer.get(), ARCHIVE_FATAL);
    }
  }
  check(writer.get(), archive_write_close(writer.get()));
}

}  // namespace virtset::images
