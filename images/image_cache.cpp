#include "images/image_cache.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>

#include "images/archive_index.h"
#include "images/disk_info.h"
#include "images/files.h"
#include "images/layers.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string hex_of(const std::string& digest) { return digest.substr(digest.find(':') + 1); }

// One image may hold several disks, told apart by their path.
std::string disk_key(const std::string& digest, const std::string& path) {
  return path.empty() ? hex_of(digest) : hex_of(digest) + "-" + hex_of(sha256_digest(path));
}

fs::path reference_file(const fs::path& directory, const Reference& reference) {
  return directory / "refs" / (hex_of(sha256_digest(reference.canonical())) + ".json");
}

// Path, size and time of a file: if these are the same, so is its content.
std::string stamp_of(const fs::path& archive) {
  struct stat status {};
  if (stat(archive.c_str(), &status) != 0) return {};
  return archive.string() + "|" + std::to_string(status.st_size) + "|" +
         std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace

ImageCache::ImageCache(fs::path directory, const ProcessRunner& processes, const Registry& registry,
                       CacheOptions options)
    : directory_(std::move(directory)),
      processes_(processes),
      registry_(registry),
      options_(options) {
  make_directory(directory_);
  make_directory(directory_ / "disks");
  make_directory(directory_ / "refs");
  remove_tree(directory_ / "tmp");
  make_directory(directory_ / "tmp");
  // A disk without its info.json was being taken in when a run of the daemon ended.
  for (const auto& entry : fs::directory_iterator(directory_ / "disks")) {
    if (!fs::exists(entry.path() / "info.json")) remove_tree(entry.path());
  }
}

// While it lives nobody else takes in the image of the same name.
class ImageCache::Turn {
 public:
  Turn(ImageCache& cache, const std::string& name) : cache_(cache), name_(name) {
    std::unique_lock lock(cache_.mutex_);
    cache_.turn_ended_.wait(lock, [this] { return !cache_.in_turn_.contains(name_); });
    cache_.in_turn_.insert(name_);
  }
  ~Turn() {
    {
      std::lock_guard lock(cache_.mutex_);
      cache_.in_turn_.erase(name_);
    }
    cache_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ImageCache& cache_;
  const std::string name_;
};

ContainerDisk ImageCache::obtain(const std::string& text, PullPolicy policy,
                                 const std::string& path) {
  const Reference reference = Reference::parse(text);
  const auto known = resolved(reference);
  if (known && known->imported()) {
    // Its archive is its registry, also for the policy Always: so an air-gapped host has ":latest".
    if (auto disk = present(known->digest, path)) return *disk;
    if (archive_is_unchanged(known->archive_stamp)) return unpack(*known, path);
  } else if (known && policy != PullPolicy::always) {
    if (auto disk = present(known->digest, path)) return *disk;
  }
  if (policy == PullPolicy::never) {
    throw NotPresent("container image \"" + text + "\" is not present with pull policy of Never");
  }
  const std::string digest = registry_.digest(reference);
  const ContainerDisk disk = pull(reference, digest, path);
  if (!known || known->digest != digest) remember(reference, {digest, "", ""});
  return disk;
}

ContainerDisk ImageCache::pull(const Reference& reference, const std::string& digest,
                               const std::string& path) {
  const Turn turn(*this, disk_key(digest, path));
  if (auto disk = present(digest, path)) return *disk;
  const ScratchDirectory scratch(directory_ / "tmp");
  make_directory(scratch.path() / "image");
  return take_in(registry_.fetch(reference, digest, scratch.path() / "image"), path,
                 scratch.path());
}

ContainerDisk ImageCache::unpack(const Resolved& resolved, const std::string& path) {
  const Turn turn(*this, disk_key(resolved.digest, path));
  if (auto disk = present(resolved.digest, path)) return *disk;
  const ScratchDirectory scratch(directory_ / "tmp");
  make_directory(scratch.path() / "image");
  return take_in(registry_.fetch_archive(resolved.archive_source, scratch.path() / "image"), path,
                 scratch.path());
}

// Extracts, verifies and puts in place.
ContainerDisk ImageCache::take_in(const FetchedImage& image, const std::string& path,
                                  const fs::path& scratch) {
  const fs::path made = scratch / "made";
  make_directory(made);
  const fs::path disk = made / "disk";
  extract_disk(image.layers, path, disk, options_.largest_disk_file);
  const DiskInfo info = inspect_disk(processes_, disk, options_.largest_virtual_size);
  if (chmod(disk.c_str(), 0444) != 0) throw_errno("cannot make read-only", disk);
  const Json about{{"digest", image.digest},
                   {"path", path},
                   {"format", info.format},
                   {"virtualSize", info.virtual_size}};
  write_file(made / "info.json", about.dump(), 0644);
  const fs::path place = directory_ / "disks" / disk_key(image.digest, path);
  remove_tree(place);
  if (rename(made.c_str(), place.c_str()) != 0) throw_errno("cannot put in place", place);
  sync(place.parent_path());
  return {image.digest, (place / "disk").string(), info.format, info.virtual_size};
}

std::vector<std::string> ImageCache::import_archive(const fs::path& archive) {
  const std::string stamp = stamp_of(archive);
  std::vector<std::string> references;
  for (const ArchivedImage& archived : list_archive(archive)) {
    const Reference reference = Reference::parse(archived.reference);
    references.push_back(reference.canonical());
    const auto known = resolved(reference);
    if (known && known->archive_stamp == stamp) continue;
    const Turn turn(*this, archived.source);
    const ScratchDirectory scratch(directory_ / "tmp");
    make_directory(scratch.path() / "image");
    const FetchedImage image = registry_.fetch_archive(archived.source, scratch.path() / "image");
    if (!present(image.digest, "")) take_in(image, "", scratch.path());
    remember(reference, {image.digest, archived.source, stamp});
  }
  return references;
}

std::optional<ImageCache::Resolved> ImageCache::resolved(const Reference& reference) const {
  // A digest needs no look-up and cannot change.
  if (!reference.digest.empty() && !fs::exists(reference_file(directory_, reference))) {
    return Resolved{reference.digest, "", ""};
  }
  const fs::path file = reference_file(directory_, reference);
  if (!fs::exists(file)) return std::nullopt;
  const Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return Resolved{json.value("digest", ""), json.value("archiveSource", ""),
                  json.value("archiveStamp", "")};
}

void ImageCache::remember(const Reference& reference, const Resolved& resolved) {
  const Json json{{"reference", reference.canonical()},
                  {"digest", resolved.digest},
                  {"archiveSource", resolved.archive_source},
                  {"archiveStamp", resolved.archive_stamp}};
  write_file(reference_file(directory_, reference), json.dump(), 0644);
}

std::optional<ContainerDisk> ImageCache::present(const std::string& digest,
                                                 const std::string& path) const {
  const fs::path place = directory_ / "disks" / disk_key(digest, path);
  const fs::path about = place / "info.json";
  if (!fs::exists(about)) return std::nullopt;
  const Json info = Json::parse(read_file(about), nullptr, false);
  if (!info.is_object()) return std::nullopt;
  // Its time is when the disk was last asked for; collect() goes by that.
  utimensat(AT_FDCWD, about.c_str(), nullptr, 0);
  return ContainerDisk{digest, (place / "disk").string(), info.value("format", ""),
                       info.value("virtualSize", std::uint64_t{0})};
}

bool ImageCache::archive_is_unchanged(const std::string& stamp) const {
  return stamp_of(stamp.substr(0, stamp.find('|'))) == stamp;
}

// What was imported stays while its archive is there: on an air-gapped host nobody can pull it
// again. References to disks that are gone are forgotten on the way.
std::set<std::string> ImageCache::digests_to_keep() {
  std::set<std::string> keep;
  for (const auto& entry : fs::directory_iterator(directory_ / "refs")) {
    const Json json = Json::parse(read_file(entry.path()), nullptr, false);
    const std::string digest = json.is_object() ? json.value("digest", "") : "";
    const std::string stamp = json.is_object() ? json.value("archiveStamp", "") : "";
    if (!stamp.empty() && archive_is_unchanged(stamp)) {
      keep.insert(digest);
    } else if (!fs::exists(directory_ / "disks" / disk_key(digest, ""))) {
      remove_tree(entry.path());
    }
  }
  return keep;
}

std::vector<std::string> ImageCache::collect() {
  struct statvfs status {};
  if (statvfs(directory_.c_str(), &status) != 0) throw_errno("cannot look at", directory_);
  if (status.f_blocks == 0) return {};
  return collect(static_cast<unsigned>(100 - status.f_bavail * 100 / status.f_blocks));
}

std::vector<std::string> ImageCache::collect(unsigned used_percent) {
  const std::set<std::string> keep = digests_to_keep();
  if (used_percent < options_.high_water_percent) return {};
  struct statvfs status {};
  if (statvfs(directory_.c_str(), &status) != 0) throw_errno("cannot look at", directory_);
  std::uint64_t to_free = static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize *
                          (used_percent - options_.low_water_percent) / 100;

  struct Candidate {
    fs::file_time_type last_used;
    fs::path place;
    std::string digest;
    std::uint64_t bytes;
    bool operator<(const Candidate& other) const { return last_used < other.last_used; }
  };
  std::vector<Candidate> candidates;
  const auto youngest = fs::file_time_type::clock::now() - options_.minimum_age;
  for (const auto& entry : fs::directory_iterator(directory_ / "disks")) {
    struct stat disk {};
    const fs::path about = entry.path() / "info.json";
    if (stat((entry.path() / "disk").c_str(), &disk) != 0 || disk.st_nlink > 1) continue;
    const Json info = Json::parse(read_file(about), nullptr, false);
    const std::string digest = info.is_object() ? info.value("digest", "") : "";
    const auto last_used = fs::last_write_time(about);
    if (keep.contains(digest) || last_used > youngest) continue;
    candidates.push_back(
        {last_used, entry.path(), digest, static_cast<std::uint64_t>(disk.st_blocks) * 512});
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<std::string> collected;
  for (const Candidate& candidate : candidates) {
    if (to_free == 0) break;
    const ScratchDirectory scratch(directory_ / "tmp");
    if (rename(candidate.place.c_str(), (scratch.path() / "old").c_str()) != 0) continue;
    to_free -= std::min(to_free, candidate.bytes);
    collected.push_back(candidate.digest);
  }
  return collected;
}

}  // namespace virtset::images
