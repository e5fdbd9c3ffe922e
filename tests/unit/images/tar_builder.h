// Makes tar archives of all sorts, the wicked ones too.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <string>

namespace virtset::test {

class TarBuilder {
 public:
  explicit TarBuilder(const std::filesystem::path& path, bool gzip = false)
      : writer_(archive_write_new()) {
    archive_write_set_format_pax_restricted(writer_);
    if (gzip) archive_write_add_filter_gzip(writer_);
    archive_write_open_filename(writer_, path.c_str());
  }
  ~TarBuilder() { archive_write_free(writer_); }
  TarBuilder(const TarBuilder&) = delete;
  TarBuilder& operator=(const TarBuilder&) = delete;

  TarBuilder& file(const std::string& name, const std::string& content) {
    archive_entry* entry = make(name, AE_IFREG);
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    return write(entry, content);
  }
  TarBuilder& directory(const std::string& name) { return write(make(name, AE_IFDIR), ""); }
  TarBuilder& symlink(const std::string& name, const std::string& target) {
    archive_entry* entry = make(name, AE_IFLNK);
    archive_entry_set_symlink(entry, target.c_str());
    return write(entry, "");
  }
  TarBuilder& hardlink(const std::string& name, const std::string& target) {
    archive_entry* entry = make(name, AE_IFREG);
    archive_entry_set_hardlink(entry, target.c_str());
    return write(entry, "");
  }
  TarBuilder& device(const std::string& name) { return write(make(name, AE_IFCHR), ""); }

 private:
  archive_entry* make(const std::string& name, unsigned type) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0644);
    return entry;
  }
  TarBuilder& write(archive_entry* entry, const std::string& content) {
    archive_write_header(writer_, entry);
    if (!content.empty()) archive_write_data(writer_, content.data(), content.size());
    archive_entry_free(entry);
    return *this;
  }

  archive* writer_;
};

// A directory of the test's own.
class TestDirectory {
 public:
  TestDirectory() {
    char pattern[] = "/tmp/virtset-images-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace virtset::test
