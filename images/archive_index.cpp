#include "images/archive_index.h"

#include <archive.h>
#include <archive_entry.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>

#include "images/errors.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t largest_index = 4u << 20;
constexpr std::size_t most_entries = 100'000;

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};

// The two files that say what is in an archive: manifest.json is docker's, index.json OCI's.
struct Indexes {
  std::optional<Json> docker;
  std::optional<Json> oci;
};

Indexes read_indexes(const fs::path& file) {
  const std::unique_ptr<archive, FreeArchive> reader(archive_read_new());
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_tar(reader.get());
  if (archive_read_open_filename(reader.get(), file.c_str(), 1 << 16) != ARCHIVE_OK) {
    throw BadImage("not an archive: " + std::string(archive_error_string(reader.get())));
  }
  Indexes indexes;
  archive_entry* entry = nullptr;
  std::size_t entries = 0;
  for (int result; (result = archive_read_next_header(reader.get(), &entry)) != ARCHIVE_EOF;) {
    if (result < ARCHIVE_WARN || ++entries > most_entries) {
      throw BadImage("the archive is damaged: " +
                     std::string(archive_error_string(reader.get())
                                     ? archive_error_string(reader.get())
                                     : "too many files"));
    }
    const char* raw = archive_entry_pathname(entry);
    const std::string name = fs::path(raw ? raw : "").lexically_normal().string();
    const auto size = archive_entry_size(entry);
    const bool wanted = name == "manifest.json" || name == "index.json";
    if (!wanted || size < 0 || static_cast<std::size_t>(size) > largest_index) continue;
    std::string text(static_cast<std::size_t>(size), '\0');
    if (archive_read_data(reader.get(), text.data(), text.size()) != size) {
      throw BadImage("the archive is damaged: " + name + " is cut off");
    }
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw BadImage("the archive's " + name + " is not JSON");
    (name == "manifest.json" ? indexes.docker : indexes.oci) = std::move(json);
    // Both index files come late in large archives; nothing after them matters.
    if (indexes.docker && indexes.oci) break;
  }
  return indexes;
}

std::string text_at(const Json& object, const char* name) {
  const auto it = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::vector<ArchivedImage> list_docker(const Json& manifest, const std::string& file) {
  std::vector<ArchivedImage> images;
  for (const Json& image : manifest) {
    const Json tags = image.is_object() ? image.value("RepoTags", Json::array()) : Json::array();
    for (const Json& tag : tags) {
      if (!tag.is_string()) continue;
      images.push_back(
          {tag.get<std::string>(), "docker-archive:" + file + ":" + tag.get<std::string>()});
    }
  }
  if (images.empty()) throw BadImage("the archive names no image (RepoTags is empty)");
  return images;
}

std::vector<ArchivedImage> list_oci(const Json& index, const std::string& file,
                                    const std::string& stem) {
  std::vector<ArchivedImage> images;
  const Json manifests =
      index.is_object() ? index.value("manifests", Json::array()) : Json::array();
  for (const Json& manifest : manifests) {
    const Json annotations =
        manifest.is_object() ? manifest.value("annotations", Json::object()) : Json::object();
    const std::string name = text_at(annotations, "org.opencontainers.image.ref.name");
    std::string reference = text_at(annotations, "io.containerd.image.name");
    if (reference.empty()) {
      const bool only_a_tag = name.find_first_of("/:") == std::string::npos;
      reference = only_a_tag ? stem + ":" + (name.empty() ? "latest" : name) : name;
    }
    images.push_back({reference, "oci-archive:" + file + (name.empty() ? "" : ":" + name)});
  }
  if (images.empty()) throw BadImage("the archive's index lists no image");
  return images;
}

}  // namespace

std::vector<ArchivedImage> list_archive(const fs::path& archive) {
  const std::string file = archive.string();
  if (file.find(':') != std::string::npos) {
    throw BadImage("the path of an archive must not have a colon in it");
  }
  const Indexes indexes = read_indexes(archive);
  // `docker save` of today writes both; its OCI index has no full names.
  if (indexes.docker) return list_docker(*indexes.docker, file);
  if (indexes.oci) return list_oci(*indexes.oci, file, archive.stem().stem().string());
  throw BadImage("neither an OCI archive (no index.json) nor a docker archive (no manifest.json)");
}

}  // namespace virtset::images
