// Volumes on a real disk, filled by real tools from a web server that can misbehave.

#include "images/local_volumes.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "images/files.h"
#include "images/local_images.h"
#include "images/registry.h"
#include "tests/unit/images/tar_builder.h"

namespace virtset::test {
namespace {

namespace fs = std::filesystem;
using images::BadImage;
using images::Blank;
using images::DiskFailed;
using images::FromUrl;
using images::FromVolume;
using images::LocalVolumes;
using images::PullFailed;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr std::uint64_t mebibyte = 1 << 20;

void shell(const std::string& command) {
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
}

// A web server of one file, which may end its answers early.
class Server {
 public:
  Server() {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), length);
    listen(fd_, 8);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/disk.img?token=hush";
  }

  // Before the next request, and not while one is served.
  std::string content;
  std::string etag = "\"1\"";
  std::string status = "200 OK";
  bool gives_parts = true;
  bool heeds_if_range = true;
  std::size_t longest_part = SIZE_MAX;
  std::size_t cut_after = SIZE_MAX;
  std::vector<std::string> ranges;  // that were asked for, "" for all

 private:
  void serve() {
    for (;;) {
      const int client = accept(fd_, nullptr, nullptr);
      if (client < 0) return;
      answer(client);
      close(client);
    }
  }
  static std::string header(const std::string& request, const std::string& name) {
    const auto at = request.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const auto start = at + name.size() + 4;
    return request.substr(start, request.find("\r\n", start) - start);
  }
  void answer(int client) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = read(client, buffer, sizeof buffer);
      if (count <= 0) return;
      request.append(buffer, static_cast<std::size_t>(count));
    }
    const std::string range = header(request, "Range");
    ranges.push_back(range);
    std::size_t start = 0;
    std::string head = "HTTP/1.1 " + status + "\r\n";
    std::size_t end = content.size();
    const bool same = !heeds_if_range || header(request, "If-Range") == etag;
    if (gives_parts && !range.empty() && same) {
      start = std::stoul(range.substr(range.find('=') + 1));
      end = start + std::min(longest_part, end - start);
      head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(start) + "-" +
             std::to_string(end - 1) + "/" + std::to_string(content.size()) + "\r\n";
    }
    head += "ETag: " + etag + "\r\nContent-Length: " + std::to_string(end - start) +
            "\r\nConnection: close\r\n\r\n";
    std::string body = head + content.substr(start, std::min(cut_after, end - start));
    for (std::size_t sent = 0; sent < body.size();) {
      const ssize_t count = send(client, body.data() + sent, body.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
  }

  int fd_;
  int port_;
  std::thread thread_;
};

class LocalVolumesTest : public testing::Test {
 protected:
  LocalVolumesTest() { open(directory_.path() / "data"); }
  void open(const fs::path& data, std::uint64_t reserve = 0) {
    volumes_.reset();
    data_ = data;
    images_ = std::make_unique<images::LocalImages>(images::LocalImages::Options{data});
    volumes_ = std::make_unique<LocalVolumes>(
        LocalVolumes::Options{.directory = data / "volumes", .reserve = reserve}, *images_);
  }
  void make(const std::string& id, const images::VolumeContent& content,
            std::uint64_t size = 4 * mebibyte) {
    volumes_->make(id, size, content, [this](double done) {
      progress_.push_back(done);
      if (on_progress_) on_progress_(done);
    });
  }
  std::string read(const std::string& id) const { return images::read_file(volumes_->file(id)); }
  void expect_content(const std::string& id, const std::string& content) const {
    const std::string got = read(id);
    ASSERT_EQ(got.size(), 4 * mebibyte);
    EXPECT_TRUE(got.substr(0, content.size()) == content);
    EXPECT_EQ(got.find_first_not_of('\0', content.size()), std::string::npos);
  }
  // Nothing of what was tried is there.
  void expect_no_files(const std::string& id) const {
    const fs::path place = data_ / "volumes" / id;
    if (fs::exists(place)) {
      EXPECT_TRUE(fs::is_empty(place));
    }
  }
  std::vector<std::string> files(const std::string& id) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(data_ / "volumes" / id)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TestDirectory directory_;
  fs::path data_;
  std::unique_ptr<images::LocalImages> images_;
  std::unique_ptr<LocalVolumes> volumes_;
  std::vector<double> progress_;
  std::function<void(double)> on_progress_;
  Server server_;
};

std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  unsigned state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TEST_F(LocalVolumesTest, BlankOneTakesNoSpace) {
  make("a", Blank{}, 1ull << 30);
  struct stat status {};
  ASSERT_EQ(stat(volumes_->file("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 1 << 30);
  EXPECT_LT(status.st_blocks, 64);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THAT(files("a"), testing::ElementsAre("disk.img"));
}

TEST_F(LocalVolumesTest, OneThatIsThereIsLeftAlone) {
  make("a", Blank{});
  std::ofstream(volumes_->file("a"), std::ios::in | std::ios::out) << "mine";
  make("a", Blank{}, 2 * mebibyte);
  EXPECT_THAT(read("a"), testing::StartsWith("mine"));
  EXPECT_EQ(fs::file_size(volumes_->file("a")), 4 * mebibyte);
}

TEST_F(LocalVolumesTest, OneThatIsThereGrowsIfTheClaimDidMeanwhile) {
  make("a", Blank{});
  make("a", Blank{}, 8 * mebibyte);
  EXPECT_EQ(fs::file_size(volumes_->file("a")), 8 * mebibyte);
}

TEST_F(LocalVolumesTest, DirectoryOfAnotherInstallationIsNotOurs) {
  EXPECT_TRUE(volumes_->belongs_to("ours")) << "it is empty";
  make("a", Blank{});
  open(data_);
  EXPECT_TRUE(volumes_->belongs_to("ours"));
  EXPECT_FALSE(volumes_->belongs_to("theirs"));
  fs::remove(volumes_->owner_file());
  EXPECT_FALSE(volumes_->belongs_to("ours")) << "nothing says so";
  EXPECT_EQ(volumes_->list().size(), 1u);
}

TEST_F(LocalVolumesTest, UnfinishedOneIsToldFromAWholeOne) {
  make("a", Blank{});
  fs::create_directory(data_ / "volumes/b");
  std::ofstream(data_ / "volumes/b/disk.new") << "half";
  EXPECT_THAT(volumes_->list(),
              testing::ElementsAre(testing::Pair("a", true), testing::Pair("b", false)));
  make("b", Blank{});
  EXPECT_THAT(files("b"), testing::ElementsAre("disk.img"));
  volumes_->remove("a");
  volumes_->remove("a");
  volumes_->remove("../../etc");
  EXPECT_EQ(volumes_->list().size(), 1u);
}

TEST_F(LocalVolumesTest, GrowsAndNeverShrinks) {
  make("a", Blank{});
  volumes_->grow("a", 8 * mebibyte);
  EXPECT_EQ(fs::file_size(volumes_->file("a")), 8 * mebibyte);
  volumes_->grow("a", 2 * mebibyte);
  EXPECT_EQ(fs::file_size(volumes_->file("a")), 8 * mebibyte);
  EXPECT_THROW(volumes_->grow("b", 1), images::NotPresent);
}

TEST_F(LocalVolumesTest, CopyIsSparseAndItsOwn) {
  make("a", Blank{}, 64 * mebibyte);
  {
    std::ofstream out(volumes_->file("a"), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(10 * mebibyte);
    out << "in the middle";
  }
  make("b", FromVolume{"a"}, 128 * mebibyte);
  EXPECT_EQ(read("b").substr(10 * mebibyte, 13), "in the middle");
  struct stat status {};
  stat(volumes_->file("b").c_str(), &status);
  EXPECT_EQ(status.st_size, static_cast<off_t>(128 * mebibyte));
  EXPECT_LT(status.st_blocks, 1024);
  std::ofstream(volumes_->file("b"), std::ios::in | std::ios::out) << "changed";
  EXPECT_EQ(read("a")[0], '\0');
  EXPECT_THROW(make("c", FromVolume{"a"}, 32 * mebibyte), BadImage);
  EXPECT_THROW(make("d", FromVolume{"none"}), images::NotPresent);
}

TEST_F(LocalVolumesTest, RawImageIsFetchedWithProgress) {
  server_.content = noise(3 * mebibyte);
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
  EXPECT_THAT(files("a"), testing::ElementsAre("disk.img"));
  EXPECT_EQ(progress_.front(), 0);
  EXPECT_EQ(progress_.back(), 1);
  EXPECT_GT(progress_.size(), 10u);
}

TEST_F(LocalVolumesTest, Qcow2BecomesRaw) {
  const std::string content = noise(2 * mebibyte);
  const std::string raw = directory_ / "raw";
  const std::string qcow2 = directory_ / "qcow2";
  std::ofstream(raw, std::ios::binary) << content;
  shell("qemu-img convert -c -O qcow2 " + raw + " " + qcow2);
  server_.content = images::read_file(qcow2);
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", content);
}

TEST_F(LocalVolumesTest, CompressedImageIsUnpacked) {
  const std::string content = noise(mebibyte);
  const std::string raw = directory_ / "raw";
  std::ofstream(raw, std::ios::binary) << content;
  shell("gzip -k " + raw + " && xz -k " + raw);
  for (const char* suffix : {".gz", ".xz"}) {
    server_.content = images::read_file(raw + suffix);
    make(suffix + 1, FromUrl{server_.url(), ""});
    expect_content(suffix + 1, content);
    EXPECT_THAT(files(suffix + 1), testing::ElementsAre("disk.img"));
  }
}

TEST_F(LocalVolumesTest, XzThatNeedsMuchMemoryIsRefused) {
  const std::string raw = directory_ / "raw";
  std::ofstream(raw, std::ios::binary) << noise(mebibyte);
  for (const char* filters :
       {"--lzma2=mode=fast,mf=hc3,dict=96MiB", "--x86 --lzma2=mode=fast,mf=hc3,dict=128MiB"}) {
    shell("xz -kf " + std::string(filters) + " " + raw);
    server_.content = images::read_file(raw + ".xz");
    EXPECT_THAT(
        [&] {
          make("a", FromUrl{server_.url(), ""});
        },
        ThrowsMessage<BadImage>(HasSubstr("dictionary")))
        << filters;
  }
  shell("xz -kf -9 " + raw);
  server_.content = images::read_file(raw + ".xz");
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", noise(mebibyte));
}

TEST_F(LocalVolumesTest, BombIsDefused) {
  const std::string zeros = directory_ / "zeros";
  shell("truncate -s 4G " + zeros + " && gzip -1 " + zeros);
  server_.content = images::read_file(zeros + ".gz");
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<BadImage>(HasSubstr("unpacked")));
  expect_no_files("a");
}

TEST_F(LocalVolumesTest, ImageThatIsLargerThanTheClaimIsRefused) {
  server_.content = noise(5 * mebibyte);
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<BadImage>(HasSubstr("A larger PVC is required")));
  expect_no_files("a");
  server_.content = noise(80 * mebibyte);
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), BadImage);
}

TEST_F(LocalVolumesTest, ImageWithABackingFileIsRefused) {
  const std::string file = directory_ / "evil";
  shell("qemu-img create -f qcow2 -u -b /etc/shadow -F raw " + file + " 1M");
  server_.content = images::read_file(file);
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<BadImage>(HasSubstr("backing file")));
  expect_no_files("a");
}

TEST_F(LocalVolumesTest, ChecksumDecides) {
  server_.content = noise(mebibyte);
  const std::string right = images::sha256_digest(server_.content);
  make("a", FromUrl{server_.url(), right});
  EXPECT_THAT(
      [&] {
        make("b", FromUrl{server_.url(), "sha256:" + std::string(64, '0')});
      },
      ThrowsMessage<BadImage>(HasSubstr(right)));
  expect_no_files("b");
}

TEST_F(LocalVolumesTest, ServersWordsAreToldButNotTheQuery) {
  server_.status = "503 Out of Order";
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<PullFailed>(testing::AllOf(HasSubstr("503 Out of Order"), HasSubstr("disk.img"),
                                               testing::Not(HasSubstr("hush")))));
}

TEST_F(LocalVolumesTest, DownloadGoesOnWhereItEnded) {
  server_.content = noise(3 * mebibyte);
  server_.cut_after = mebibyte;
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), PullFailed);
  EXPECT_FALSE(volumes_->list().at("a"));
  open(data_);  // the daemon is started again
  server_.cut_after = SIZE_MAX;
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
  EXPECT_THAT(server_.ranges, testing::ElementsAre("", "bytes=" + std::to_string(mebibyte) + "-"));
}

TEST_F(LocalVolumesTest, DownloadBeginsAnewIfTheFileIsAnother) {
  server_.content = noise(2 * mebibyte);
  server_.cut_after = mebibyte;
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), PullFailed);
  server_.cut_after = SIZE_MAX;
  server_.content = std::string(2 * mebibyte, 'x');
  server_.etag = "\"2\"";
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
}

TEST_F(LocalVolumesTest, DownloadBeginsAnewIfTheServerGivesNoParts) {
  server_.content = noise(2 * mebibyte);
  server_.gives_parts = false;
  server_.cut_after = mebibyte;
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), PullFailed);
  server_.cut_after = SIZE_MAX;
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
}

TEST_F(LocalVolumesTest, ShortPartIsNotTakenForTheRest) {
  server_.content = noise(3 * mebibyte);
  server_.cut_after = mebibyte;
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), PullFailed);
  server_.cut_after = SIZE_MAX;
  server_.longest_part = mebibyte;
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<PullFailed>(HasSubstr("2097152 bytes of 3145728")));
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
  EXPECT_EQ(server_.ranges.back(), "bytes=2097152-") << "what there was has been thrown away";
}

TEST_F(LocalVolumesTest, PartsOfTwoVersionsAreNotPutTogether) {
  for (const std::size_t longer : {0u, 1u}) {
    const std::string id = "a" + std::to_string(longer);
    server_.content = noise(2 * mebibyte);
    server_.etag = "\"1\"";
    server_.cut_after = mebibyte;
    EXPECT_THROW(make(id, FromUrl{server_.url(), ""}), PullFailed);
    server_.cut_after = SIZE_MAX;
    server_.heeds_if_range = false;
    server_.content = std::string((2 + longer) * mebibyte, 'x');
    if (longer == 0) server_.etag = "\"2\"";
    EXPECT_THAT(
        [&] {
          make(id, FromUrl{server_.url(), ""});
        },
        ThrowsMessage<PullFailed>(HasSubstr("another version")));
    make(id, FromUrl{server_.url(), ""});
    expect_content(id, server_.content);
  }
}

TEST_F(LocalVolumesTest, PartThatWasNotDurableIsNotTrusted) {
  server_.content = noise(3 * mebibyte);
  server_.cut_after = 2 * mebibyte;
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), PullFailed);
  // As if the power had gone after the note of the first part: what follows is anything.
  const fs::path note = data_ / "volumes/a/download.json";
  std::string text = images::read_file(note);
  text.replace(text.find("2097152"), 7, "1048576");
  images::write_file(note, text, 0600);
  {
    std::ofstream out(data_ / "volumes/a/download", std::ios::in | std::ios::out);
    out.seekp(mebibyte);
    out << std::string(mebibyte, 'z');
  }
  server_.cut_after = SIZE_MAX;
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
}

TEST_F(LocalVolumesTest, CancelledDownloadEnds) {
  server_.content = noise(3 * mebibyte);
  on_progress_ = [this](double done) {
    if (done > 0.3) volumes_->cancel("a");
  };
  EXPECT_THROW(make("a", FromUrl{server_.url(), ""}), images::Cancelled);
  volumes_->cancel("a");  // of nothing
  volumes_->cancel_all();
  EXPECT_THROW(make("b", Blank{}), images::Cancelled);
}

TEST_F(LocalVolumesTest, DiskOfAContainerImageIsItsOwn) {
  std::ofstream(directory_ / "disk.img", std::ios::binary) << noise(mebibyte);
  const std::string layout = directory_ / "x.oci";
  const std::string archive = directory_ / "x.tar";
  shell("umoci init --layout " + layout + " && umoci new --image " + layout +
        ":x && umoci insert --image " + layout + ":x " + (directory_ / "disk.img").string() +
        " /disk/vm.img && skopeo copy oci:" + layout + ":x oci-archive:" + archive +
        ":example/x:1");
  images_->cache().import_archive(archive);
  make("a", images::FromImage{"example/x:1", images::PullPolicy::never});
  expect_content("a", noise(mebibyte));
  std::ofstream(volumes_->file("a"), std::ios::in | std::ios::out) << "written";
  make("b", images::FromImage{"example/x:1", images::PullPolicy::never});
  expect_content("b", noise(mebibyte));
  EXPECT_EQ(fs::hard_link_count(images_->obtain("example/x:1", images::PullPolicy::never, "").file),
            1u)
      << "the image cannot be collected any more";
}

// On a file system of its own, which only root can make.
class SmallDisk : public LocalVolumesTest {
 protected:
  void SetUp() override {
    place_ = directory_ / "small";
    fs::create_directory(place_);
    if (mount("none", place_.c_str(), "tmpfs", 0, "size=16m") != 0) GTEST_SKIP() << "not root";
    mounted_ = true;
    open(place_ / "data");
  }
  void TearDown() override {
    volumes_.reset();
    images_.reset();
    if (mounted_) umount2(place_.c_str(), MNT_DETACH);
  }
  fs::path place_;
  bool mounted_ = false;
};

TEST_F(SmallDisk, FullOneIsSaidAndCleanedUp) {
  server_.content = noise(32 * mebibyte);
  try {
    make("a", FromUrl{server_.url(), ""}, 32 * mebibyte);
    FAIL() << "there was room";
  } catch (const DiskFailed& error) {
    EXPECT_TRUE(error.disk_full()) << error.what();
  }
  EXPECT_FALSE(fs::exists(place_ / "data/volumes/a/download")) << "it keeps others from writing";
  server_.content = noise(2 * mebibyte);
  make("a", FromUrl{server_.url(), ""});
  expect_content("a", server_.content);
}

TEST_F(SmallDisk, Qcow2ThatWouldFillItIsNotConverted) {
  const std::string raw = directory_ / "raw";
  std::ofstream(raw, std::ios::binary) << std::string(32 * mebibyte, 'x');
  shell("qemu-img convert -c -O qcow2 " + raw + " " + raw + ".qcow2");
  server_.content = images::read_file(raw + ".qcow2");
  ASSERT_LT(server_.content.size(), mebibyte);
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""}, 64 * mebibyte);
      },
      ThrowsMessage<DiskFailed>(HasSubstr("more are needed")));
}

TEST_F(SmallDisk, CopyThatCannotFitIsNotBegun) {
  make("a", Blank{}, 32 * mebibyte);
  {
    std::ofstream out(volumes_->file("a"), std::ios::in | std::ios::out | std::ios::binary);
    out << noise(9 * mebibyte);
  }
  progress_.clear();
  EXPECT_THAT([&] { make("b", FromVolume{"a"}, 32 * mebibyte); },
              ThrowsMessage<DiskFailed>(HasSubstr("9 more are needed")));
  EXPECT_THAT(progress_, testing::ElementsAre(0)) << "it was begun";
}

TEST_F(SmallDisk, ImportLeavesRoomForVmsThatRun) {
  open(place_ / "data", 1ull << 30);  // a twentieth of it
  std::ofstream(place_ / "filler") << noise(15 * mebibyte + 512 * 1024);
  server_.content = noise(mebibyte / 4);
  EXPECT_THAT(
      [&] {
        make("a", FromUrl{server_.url(), ""});
      },
      ThrowsMessage<DiskFailed>(HasSubstr("kept for running virtual machines")));
}

}  // namespace
}  // namespace virtset::test
