#include "images/local_volumes.h"

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include "images/disk_info.h"
#include "images/download.h"
#include "images/files.h"
#include "images/sparse_file.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;

constexpr const char* disk_name = "disk.img";
// Room is looked for again after so much was written.
constexpr std::uint64_t looked_every = 16 << 20;
// That of xz -9.
constexpr std::uint64_t largest_dictionary = 64 << 20;
constexpr std::uint64_t largest_virtual_size = 1ull << 56;

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};

// A qcow2 that is full is larger than the disk in it.
std::uint64_t largest_file(std::uint64_t size) { return size + size / 8 + (64 << 20); }

bool is_compressed(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  char magic[6] = {};
  in.read(magic, sizeof magic);
  const std::string_view start(magic, static_cast<std::size_t>(in.gcount()));
  using namespace std::string_view_literals;
  return start.starts_with("\x1f\x8b"sv) || start.starts_with(
                                                "\xfd"
                                                "7zXZ"sv);
}

// What unpacking an xz file takes of the daemon's memory, as the header of its first block says; 0
// where there is none. The layout is that of the format's specification, sections 2 and 3.
std::uint64_t xz_dictionary(const fs::path& file) {
  constexpr std::size_t stream_header = 12;
  std::ifstream in(file, std::ios::binary);
  std::array<char, stream_header + 1024> bytes{};
  in.read(bytes.data(), bytes.size());
  if (std::string_view(bytes.data(), 6) != std::string_view("\xfd"
                                                            "7zXZ\0",
                                                            6))
    return 0;
  std::size_t at = stream_header;
  const auto next = [&]() -> std::uint64_t {
    return at < bytes.size() ? static_cast<unsigned char>(bytes[at++]) : 0;
  };
  const auto number = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      const std::uint64_t byte = next();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  next();  // the size of the header
  const std::uint64_t flags = next();
  if (flags & 0x40) number();  // the sizes of the block
  if (flags & 0x80) number();
  for (std::uint64_t filter = 0; filter <= (flags & 3); ++filter) {
    const std::uint64_t id = number();
    const std::uint64_t size = number();
    if (id != 0x21) {  // LZMA2
      at += std::min<std::uint64_t>(size, bytes.size());
      continue;
    }
    const std::uint64_t bits = next() & 0x3f;
    return bits >= 40 ? UINT32_MAX : (2 | (bits & 1)) << (bits / 2 + 11);
  }
  return 0;
}

}  // namespace

// One make().
struct LocalVolumes::Work {
  const std::string id;
  const fs::path directory;
  const std::uint64_t size;
  const Progress& progress;
  std::atomic<bool> cancelled{false};
  ProcessRunner processes{};
  std::uint64_t looked_at = 0;

  fs::path fresh() const { return directory / "disk.new"; }

  void check() const {
    if (cancelled) throw Cancelled("the volume is not wanted any more");
  }
  void report(std::uint64_t done, std::uint64_t total) const {
    check();
    if (total > 0) progress(std::min(1.0, static_cast<double>(done) / static_cast<double>(total)));
  }
};

// While it lives its work can be cancelled.
struct LocalVolumes::Registration {
  Registration(LocalVolumes& of, Work& work) : volumes(of), id(work.id) {
    const std::lock_guard lock(volumes.mutex_);
    if (volumes.stopping_) throw Cancelled("the daemon is stopping");
    volumes.under_way_[id] = &work;
  }
  ~Registration() {
    const std::lock_guard lock(volumes.mutex_);
    volumes.under_way_.erase(id);
  }
  LocalVolumes& volumes;
  const std::string id;
};

LocalVolumes::LocalVolumes(Options options, Images& images)
    : options_(std::move(options)), images_(images) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  make_directory(options_.directory);
}

// What has no owner is ours only if nothing is in it: another mount or another daemon's may be
// here.
bool LocalVolumes::belongs_to(const std::string& installation) {
  const fs::path mark = owner_file();
  if (!fs::exists(mark)) {
    auto found = list();
    found.erase("lost+found");
    if (!found.empty()) return false;
    write_file(mark, installation + "\n", 0644);
  }
  const std::string owner = read_file(mark);
  return owner.substr(0, owner.find('\n')) == installation;
}

fs::path LocalVolumes::owner_file() const { return options_.directory / "installation"; }

std::string LocalVolumes::file(const std::string& id) const {
  return options_.directory / id / disk_name;
}

void LocalVolumes::make(const std::string& id, std::uint64_t size, const VolumeContent& content,
                        const Progress& progress) {
  if (fs::exists(file(id))) {
    grow(id, size);  // the claim may have been enlarged since
    return;
  }
  Work work{.id = id, .directory = options_.directory / id, .size = size, .progress = progress};
  const Registration registration(*this, work);
  progress(0);
  make_directory(work.directory);
  remove_tree(work.fresh());
  try {
    std::visit([&](const auto& source) { fill(source, work); }, content);
    SparseFile(work.fresh(), static_cast<std::int64_t>(size))
        .finish(static_cast<std::int64_t>(size));
  } catch (const DiskFailed& error) {
    // What is half-done takes the room that running VMs need.
    if (error.disk_full()) remove_tree(work.directory);
    throw;
  } catch (const BadImage&) {
    remove_tree(work.directory);  // next time there may be another
    throw;
  }
  work.check();
  // QEMU's user is given it by libvirt.
  if (chmod(work.fresh().c_str(), 0600) != 0) throw_errno("cannot protect", work.fresh());
  keep_access(work.fresh());
  if (rename(work.fresh().c_str(), file(id).c_str()) != 0) {
    throw_errno("cannot put in place", file(id));
  }
  sync(work.directory);
  sync(options_.directory);
  for (const auto& entry : fs::directory_iterator(work.directory)) {
    if (entry.path().filename() != disk_name) remove_tree(entry.path());
  }
}

void LocalVolumes::fill(const Blank&, Work& work) { SparseFile(work.fresh()).finish(0); }

void LocalVolumes::fill(const FromImage& source, Work& work) {
  const ContainerDisk disk = images_.obtain(source.reference, source.policy, "");
  work.check();
  // Held by a link of its own, as an instance holds it, so that it is not collected meanwhile.
  const fs::path base = work.directory / "base";
  remove_tree(base);
  if (link(disk.file.c_str(), base.c_str()) != 0) {
    if (errno == ENOENT) throw NotPresent("image " + disk.digest + " was collected");
    throw_errno("cannot link " + disk.file + " to", base);
  }
  adopt_image(work, base);
}

void LocalVolumes::fill(const FromUrl& source, Work& work) {
  const fs::path got = work.directory / "download";
  demand(0);
  download(source.url, got,
           {.largest = largest_file(work.size),
            .progress = [&](std::uint64_t done, std::uint64_t total) {
              work.report(done, total);
              look_for_room(work, done, total > done ? total - done : 0);
            }});
  if (!source.checksum.empty()) {
    verify_checksum(got, source.checksum, [&] { work.check(); });
  }
  adopt_image(work, is_compressed(got) ? unpack(work, got) : got);
}

// The file that is in a compressed one, in whose place it is from now on.
fs::path LocalVolumes::unpack(Work& work, const fs::path& packed) {
  if (xz_dictionary(packed) > largest_dictionary) {
    throw BadImage("the xz file needs a dictionary of more than " +
                   std::to_string(largest_dictionary >> 20) + " MiB; xz -9 makes do with that");
  }
  fs::path image = work.directory / "unpacked";
  remove_tree(image);
  const std::unique_ptr<archive, FreeArchive> reader(archive_read_new());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_format_raw(reader.get());
  const auto check = [&](la_ssize_t result) {
    if (result >= 0) return;
    const char* why = archive_error_string(reader.get());
    throw BadImage("the compressed file is damaged: " + std::string(why ? why : "unreadable"));
  };
  archive_entry* entry = nullptr;
  check(archive_read_open_filename(reader.get(), packed.c_str(), 1 << 16));
  check(archive_read_next_header(reader.get(), &entry));
  SparseFile out(image);
  std::int64_t offset = 0;
  std::vector<char> buffer(1 << 20);
  work.looked_at = 0;
  for (;;) {
    const la_ssize_t count = archive_read_data(reader.get(), buffer.data(), buffer.size());
    if (count == 0) break;
    check(count);
    if (static_cast<std::uint64_t>(offset + count) > largest_file(work.size)) {
      throw BadImage("the file is larger, unpacked, than the " + std::to_string(work.size) +
                     " bytes that the claim has room for");
    }
    out.write_at(offset, buffer.data(), static_cast<std::size_t>(count));
    offset += count;
    work.check();
    look_for_room(work, static_cast<std::uint64_t>(offset), 0);
  }
  out.finish(offset);
  remove_tree(packed);
  return image;
}

void LocalVolumes::fill(const FromVolume& source, Work& work) {
  const fs::path from = file(source.id);
  std::error_code error;
  const auto size = fs::file_size(from, error);
  if (error) throw NotPresent("there is no volume " + source.id);
  if (size > work.size) {
    throw BadImage("the source has " + std::to_string(size) + " bytes, which is more than the " +
                   std::to_string(work.size) + " of the claim");
  }
  copy(work, from, size);
}

// An image that a stranger made becomes the disk. One that is ours alone is moved.
void LocalVolumes::adopt_image(Work& work, const fs::path& image) {
  DiskInfo info;
  try {
    info = inspect_disk(work.processes, image, largest_virtual_size);
  } catch (const ProcessFailed& error) {
    work.check();
    throw DiskFailed(error.what(), false);
  }
  if (info.virtual_size > work.size) {
    // CDI's words.
    throw BadImage("Virtual image size " + std::to_string(info.virtual_size) +
                   " is larger than the reported available storage " + std::to_string(work.size) +
                   ". A larger PVC is required.");
  }
  if (info.format != "raw") {
    convert(work, image);
    return;
  }
  struct stat status {};
  if (stat(image.c_str(), &status) != 0) throw_errno("cannot look at", image);
  if (status.st_nlink == 1) {
    if (rename(image.c_str(), work.fresh().c_str()) != 0) throw_errno("cannot move", image);
    return;
  }
  copy(work, image, static_cast<std::uint64_t>(status.st_size));
}

void LocalVolumes::copy(Work& work, const fs::path& from, std::uint64_t size) {
  work.looked_at = 0;
  copy_sparsely(
      from, work.fresh(), static_cast<std::int64_t>(size),
      [this](std::uint64_t bytes) { demand(bytes); },
      [&](std::int64_t reached) {
        const auto done = static_cast<std::uint64_t>(reached);
        work.report(done, size);
        look_for_room(work, done, 0);
      });
}

// One of qemu-img's tools on what a stranger wrote.
ProcessResult LocalVolumes::run(Work& work, std::vector<std::string> arguments) {
  ProcessSpec spec{.program = "qemu-img", .arguments = std::move(arguments)};
  spec.address_space_bytes = 2ull << 30;
  spec.cpu_seconds = 3600;
  spec.timeout = std::chrono::hours(2);
  try {
    return work.processes.run(spec);
  } catch (const ProcessFailed& error) {
    work.check();
    throw DiskFailed(error.what(), false);
  }
}

// What the disk in it takes when it is written out: far more than the file, if that is compressed.
// Asked for qcow2, because for raw qemu-img counts the holes.
std::uint64_t LocalVolumes::measure(Work& work, const fs::path& image) {
  const ProcessResult result =
      run(work, {"measure", "-f", "qcow2", "-O", "qcow2", "--output=json", image.string()});
  if (result.exit_code != 0) {
    throw BadImage("qemu-img cannot measure the disk image: " + result.errors);
  }
  const auto answer = nlohmann::json::parse(result.output, nullptr, false);
  if (!answer.is_object() || !answer.contains("required") ||
      !answer["required"].is_number_unsigned()) {
    throw BadImage("qemu-img gave no measure of the disk image");
  }
  return std::min(answer["required"].get<std::uint64_t>(), work.size);
}

void LocalVolumes::convert(Work& work, const fs::path& image) {
  demand(measure(work, image));
  const ProcessResult result = run(
      work, {"convert", "-q", "-f", "qcow2", "-O", "raw", image.string(), work.fresh().string()});
  if (result.exit_code == 0) return;
  if (result.errors.find("No space left") != std::string::npos) {
    throw DiskFailed("qemu-img convert: " + result.errors, true);
  }
  throw BadImage("qemu-img cannot convert the disk image: " + result.errors);
}

void LocalVolumes::demand(std::uint64_t bytes) const {
  demand_room(options_.directory, bytes, options_.reserve);
}

// Looks for room from time to time, while `done` bytes have been written and so many more will be.
void LocalVolumes::look_for_room(Work& work, std::uint64_t done, std::uint64_t more) const {
  if (done < work.looked_at + looked_every) return;
  work.looked_at = done;
  demand(more);
}

void LocalVolumes::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = under_way_.find(id);
  if (it == under_way_.end()) return;
  it->second->cancelled = true;
  it->second->processes.cancel();
}

void LocalVolumes::cancel_all() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& [id, work] : under_way_) {
    work->cancelled = true;
    work->processes.cancel();
  }
}

void LocalVolumes::grow(const std::string& id, std::uint64_t size) {
  const std::string path = file(id);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) throw NotPresent("there is no volume " + id);
    throw_errno("cannot look at", path);
  }
  if (static_cast<std::uint64_t>(status.st_size) >= size) return;
  if (truncate(path.c_str(), static_cast<off_t>(size)) != 0) throw_errno("cannot enlarge", path);
  sync(path);
}

void LocalVolumes::remove(const std::string& id) {
  if (!is_entry_name(id)) return;
  remove_tree(options_.directory / id);
}

std::map<std::string, bool> LocalVolumes::list() {
  std::map<std::string, bool> volumes;
  for (const auto& entry : fs::directory_iterator(options_.directory)) {
    if (entry.is_directory())
      volumes[entry.path().filename()] = fs::exists(entry.path() / disk_name);
  }
  return volumes;
}

}  // namespace virtset::images
