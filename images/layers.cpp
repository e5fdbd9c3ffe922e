#include "images/layers.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "images/errors.h"
#include "images/files.h"
#include "images/sparse_file.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_entries = 100'000;

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Reader = std::unique_ptr<archive, FreeArchive>;

std::string error_text(archive* reader) {
  const char* text = archive_error_string(reader);
  return text ? text : "it cannot be read";
}

// umoci (0.4.7) leaves out what follows the last file of a layer: the zeros that fill up its block
// and the two blocks that end the archive. Go's tar reader does not mind, so such images are about.
bool lacks_only_its_end(archive* reader) {
  unsigned long long needed = 0, available = 0;
  const bool matches = std::sscanf(error_text(reader).c_str(),
                                   "Truncated input file (needed %llu bytes, only %llu available)",
                                   &needed, &available) == 2;
  return matches && needed < 512 && available == 0;
}

Reader open_layer(const fs::path& layer) {
  Reader reader(archive_read_new());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_filter_none(reader.get());
  archive_read_support_format_tar(reader.get());
  archive_read_support_format_empty(reader.get());
  if (archive_read_open_filename(reader.get(), layer.c_str(), 1 << 16) != ARCHIVE_OK) {
    throw BadImage("a layer cannot be opened: " + error_text(reader.get()));
  }
  return reader;
}

// "./disk//x" and "/disk/x" as "disk/x"; nothing if it climbs.
std::optional<std::string> normal(const std::string& name) {
  std::string result;
  for (const fs::path& part : fs::path(name)) {
    const std::string text = part.string();
    if (text.empty() || text == "/" || text == ".") continue;
    if (text == "..") return std::nullopt;
    result += result.empty() ? text : "/" + text;
  }
  return result;
}

bool is_below(const std::string& name, const std::string& directory) {
  return name.starts_with(directory + "/");
}

void copy_data(archive* reader, archive_entry* entry, const fs::path& target,
               std::uint64_t largest) {
  const std::int64_t size = archive_entry_size(entry);
  if (size < 0 || static_cast<std::uint64_t>(size) > largest) {
    throw BadImage("the disk image is larger than the limit of " + std::to_string(largest) +
                   " bytes");
  }
  SparseFile file(target);
  std::int64_t end = 0;
  for (;;) {
    const void* data = nullptr;
    std::size_t count = 0;
    la_int64_t offset = 0;
    const int result = archive_read_data_block(reader, &data, &count, &offset);
    if (result == ARCHIVE_EOF) break;
    if (result < ARCHIVE_WARN) {
      if (end == size && lacks_only_its_end(reader)) break;
      throw BadImage("a layer is damaged: " + error_text(reader));
    }
    end = offset + static_cast<std::int64_t>(count);
    if (end > size) throw BadImage("a layer is damaged: a file is longer than it says");
    file.write_at(offset, static_cast<const char*>(data), count);
  }
  file.finish(size);
}

// What the layers say stands at the paths that matter.
struct Found {
  std::size_t layer;  // the one whose entry counts
  mode_t type;        // AE_IFREG, AE_IFLNK, …
  bool hard_link;

  bool is_file() const { return type == AE_IFREG && !hard_link; }
};

// Goes through the layers once, writing each file that may be the wanted one over the one before:
// nearly every image has one layer with one file, and decompressing it twice would take twice as
// long.
class Extraction {
 public:
  Extraction(std::string wanted, const fs::path& target, std::uint64_t largest)
      : wanted_(std::move(wanted)), target_(target), largest_(largest) {}

  // What target holds now.
  struct Written {
    std::string name;
    std::size_t layer;
    friend bool operator==(const Written&, const Written&) = default;
  };
  const std::optional<Written>& written() const { return written_; }

  void write(archive* reader, archive_entry* entry, const Written& what) {
    if (written_) remove_tree(target_);
    written_ = what;
    copy_data(reader, entry, target_, largest_);
  }

  void add_layer(const fs::path& layer, std::size_t index) {
    const Reader reader = open_layer(layer);
    archive_entry* entry = nullptr;
    // Whiteouts hide what lower layers have, not what their own layer adds.
    std::map<std::string, Found> added;
    for (int result; (result = archive_read_next_header(reader.get(), &entry)) != ARCHIVE_EOF;) {
      if (result < ARCHIVE_WARN) {
        if (lacks_only_its_end(reader.get())) break;
        throw BadImage("a layer is damaged: " + error_text(reader.get()));
      }
      if (++entries_ > most_entries) throw BadImage("the image has too many files");
      const char* raw = archive_entry_pathname(entry);
      if (!raw) throw BadImage("a layer has a file without a name");
      const auto name = normal(raw);
      if (!name) throw BadImage("a layer has the path \"" + std::string(raw) + "\", which climbs");
      if (!matters(*name)) continue;
      consider(*name, entry, index, added);
      if (const auto it = added.find(*name); it != added.end() && it->second.is_file()) {
        write(reader.get(), entry, {*name, index});
      }
    }
    for (auto& [name, found] : added) found_[name] = found;
  }

  // The one file that is wanted. Throws BadImage if there is none, or more than one.
  std::pair<std::string, Found> only() const {
    if (found_.empty()) {
      throw BadImage(wanted_ == "disk" ? "no disk present: /disk is empty or missing in the image"
                                       : "the image has no file /" + wanted_);
    }
    if (found_.size() > 1) {
      throw BadImage("more than one file in /disk: " + found_.begin()->first + ", " +
                     std::next(found_.begin())->first);
    }
    const auto& [name, found] = *found_.begin();
    if (!found.is_file()) {
      throw BadImage("/" + name + " is a link or a special file, not a disk image");
    }
    return *found_.begin();
  }

 private:
  bool matters(const std::string& name) const {
    return is_below(name, "disk") || name == wanted_ || is_below(wanted_, name) ||
           name.find(".wh.") != std::string::npos;
  }

  void consider(const std::string& name, archive_entry* entry, std::size_t index,
                std::map<std::string, Found>& added) {
    const fs::path path(name);
    const std::string file = path.filename().string();
    const std::string parent = path.parent_path().string();
    if (file == ".wh..wh..opq") {
      hide_below(parent);
      return;
    }
    if (file.starts_with(".wh.")) {
      hide((path.parent_path() / file.substr(4)).string());
      return;
    }
    const auto type = archive_entry_filetype(entry);
    const bool hard_link = archive_entry_hardlink(entry) != nullptr;
    if (is_below(wanted_, name) || name == "disk") {
      // A parent directory of what is wanted. A link there would lead who knows where.
      if (type != AE_IFDIR) throw BadImage("/" + name + " is not a directory in the image");
      return;
    }
    if (wanted_ != "disk" && name != wanted_) return;
    // KubeVirt counts the entries of /disk itself; a directory there is not a disk.
    if (wanted_ == "disk" && type == AE_IFDIR && !hard_link) return;
    added[name] = {index, type, hard_link};
  }

  void hide(const std::string& name) {
    found_.erase(name);
    hide_below(name);
  }
  void hide_below(const std::string& directory) {
    std::erase_if(found_, [&](const auto& item) { return is_below(item.first, directory); });
  }

  const std::string wanted_;  // "disk", or the path of the file
  const fs::path& target_;
  const std::uint64_t largest_;
  std::optional<Written> written_;
  std::map<std::string, Found> found_;
  std::size_t entries_ = 0;
};

}  // namespace

void extract_disk(const std::vector<fs::path>& layers, const std::string& path,
                  const fs::path& target, std::uint64_t largest) {
  const auto wanted = path.empty() ? "disk" : normal(path);
  if (!wanted || wanted->empty()) throw BadImage("the path " + path + " is not a file's");
  Extraction extraction(*wanted, target, largest);
  for (std::size_t i = 0; i < layers.size(); ++i) extraction.add_layer(layers[i], i);
  const auto [name, found] = extraction.only();
  const Extraction::Written right{name, found.layer};
  if (extraction.written() == right) return;

  // A later layer added a file and a still later one hid it again: go back for the one that counts.
  const Reader reader = open_layer(layers[found.layer]);
  archive_entry* entry = nullptr;
  while (archive_read_next_header(reader.get(), &entry) >= ARCHIVE_WARN) {
    const char* raw = archive_entry_pathname(entry);
    if (raw && normal(raw) == name && archive_entry_filetype(entry) == AE_IFREG) {
      extraction.write(reader.get(), entry, right);
    }
  }
  if (extraction.written() != right) throw BadImage("a layer changed while it was read");
}

}  // namespace virtset::images
