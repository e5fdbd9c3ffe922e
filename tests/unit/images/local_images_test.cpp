// The cache and the disks of VMs, with real qemu-img and skopeo, from archives.

#include "images/local_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "images/archive_index.h"
#include "images/files.h"
#include "tests/unit/images/tar_builder.h"

namespace virtset::test {
namespace {

namespace fs = std::filesystem;
using images::BadImage;
using images::ContainerDisk;
using images::LocalImages;
using images::NotPresent;
using images::PullFailed;
using images::PullPolicy;
using testing::HasSubstr;

void shell(const std::string& command) {
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
}

// An OCI archive whose only layer has this file in /disk, made with the tools that users have.
fs::path make_archive(const TestDirectory& directory, const std::string& name,
                      const std::string& reference, const std::string& disk_file) {
  const fs::path layout = directory / (name + ".oci");
  const fs::path archive = directory / (name + ".tar");
  shell("umoci init --layout " + layout.string());
  shell("umoci new --image " + layout.string() + ":x");
  shell("umoci insert --image " + layout.string() + ":x " + disk_file + " /disk/vm.img");
  shell("skopeo copy oci:" + layout.string() + ":x oci-archive:" + archive.string() + ":" +
        reference);
  return archive;
}

class LocalImagesTest : public testing::Test {
 protected:
  LocalImagesTest() : images_(std::make_unique<LocalImages>(LocalImages::Options{data()})) {
    std::ofstream(directory_ / "raw.img", std::ios::binary) << std::string(1 << 20, 'r');
  }
  fs::path data() const { return directory_ / "data"; }
  void reopen() { images_ = std::make_unique<LocalImages>(LocalImages::Options{data()}); }
  fs::path import(const std::string& reference = "example/raw:1") {
    const fs::path archive =
        make_archive(directory_, "raw", reference, (directory_ / "raw.img").string());
    images_->cache().import_archive(archive);
    return archive;
  }
  std::size_t cached() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(data() / "images/disks"), {}));
  }
  // Nothing is left of what was tried and failed.
  void expect_nothing_behind() const {
    EXPECT_TRUE(fs::is_empty(data() / "images/tmp"));
    EXPECT_EQ(cached(), 0u);
  }

  TestDirectory directory_;
  std::unique_ptr<LocalImages> images_;
};

TEST_F(LocalImagesTest, ImportedArchiveIsPresentUnderItsReference) {
  import();
  const ContainerDisk disk = images_->obtain("example/raw:1", PullPolicy::never, "");
  EXPECT_EQ(disk.format, "raw");
  EXPECT_EQ(disk.virtual_size, 1u << 20);
  struct stat status {};
  ASSERT_EQ(stat(disk.file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0444u);
  // Also for Always, and after a restart.
  reopen();
  EXPECT_EQ(images_->obtain("docker.io/example/raw:1", PullPolicy::always, "").digest, disk.digest);
}

TEST_F(LocalImagesTest, DockerArchiveIsTakenToo) {
  const fs::path oci = make_archive(directory_, "raw", "x/y:1", (directory_ / "raw.img").string());
  const fs::path docker = directory_ / "docker.tar";
  shell("skopeo copy oci-archive:" + oci.string() + " docker-archive:" + docker.string() +
        ":registry.example/team/disk:2");
  EXPECT_THAT(images_->cache().import_archive(docker),
              testing::ElementsAre("registry.example/team/disk:2"));
  EXPECT_EQ(images_->obtain("registry.example/team/disk:2", PullPolicy::if_not_present, "").format,
            "raw");
}

TEST_F(LocalImagesTest, TagAloneBelongsToTheNameOfTheFile) {
  const fs::path archive =
      make_archive(directory_, "appliance", "v7", (directory_ / "raw.img").string());
  const auto listed = images::list_archive(archive);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].reference, "appliance:v7");
}

TEST_F(LocalImagesTest, NotPresentAndNever) {
  EXPECT_THROW(images_->obtain("example/none:1", PullPolicy::never, ""), NotPresent);
}

TEST_F(LocalImagesTest, RegistryThatIsGoneIsQuoted) {
  try {
    images_->obtain("127.0.0.1:1/x:1", PullPolicy::if_not_present, "");
    FAIL();
  } catch (const PullFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("connection refused"));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("level=fatal")));
  }
  expect_nothing_behind();
}

TEST_F(LocalImagesTest, DiskThatNeedsAnotherFileIsRefused) {
  shell("qemu-img create -f raw " + (directory_ / "base.img").string() + " 1M");
  shell("qemu-img create -f qcow2 -F raw -b " + (directory_ / "base.img").string() + " " +
        (directory_ / "overlay.img").string());
  const fs::path overlay =
      make_archive(directory_, "overlay", "x:1", (directory_ / "overlay.img").string());
  EXPECT_THROW(
      {
        try {
          images_->cache().import_archive(overlay);
        } catch (const BadImage& error) {
          EXPECT_THAT(error.what(), HasSubstr("has a backing file"));
          throw;
        }
      },
      BadImage);
  shell("qemu-img create -f qcow2 -o data_file=" + (directory_ / "data.raw").string() + " " +
        (directory_ / "external.img").string() + " 1M");
  const fs::path external =
      make_archive(directory_, "external", "y:1", (directory_ / "external.img").string());
  EXPECT_THROW(images_->cache().import_archive(external), BadImage);
  expect_nothing_behind();
}

TEST_F(LocalImagesTest, OtherFormatsAndLyingSizesAreRefused) {
  shell("qemu-img create -f vmdk " + (directory_ / "disk.vmdk").string() + " 1M");
  const fs::path vmdk =
      make_archive(directory_, "vmdk", "x:1", (directory_ / "disk.vmdk").string());
  EXPECT_THROW(images_->cache().import_archive(vmdk), BadImage);
  // A pebibyte in 200 kB.
  shell("qemu-img create -f qcow2 " + (directory_ / "huge.img").string() + " 1P");
  const fs::path huge = make_archive(directory_, "huge", "y:1", (directory_ / "huge.img").string());
  EXPECT_THROW(images_->cache().import_archive(huge), BadImage);
  std::ofstream(directory_ / "empty.img") << "";
  const fs::path empty =
      make_archive(directory_, "empty", "z:1", (directory_ / "empty.img").string());
  EXPECT_THROW(images_->cache().import_archive(empty), BadImage);
  expect_nothing_behind();
}

TEST_F(LocalImagesTest, CutArchiveIsRefused) {
  const fs::path archive =
      make_archive(directory_, "raw", "x:1", (directory_ / "raw.img").string());
  fs::resize_file(archive, fs::file_size(archive) / 2);
  EXPECT_ANY_THROW(images_->cache().import_archive(archive));
  expect_nothing_behind();
}

TEST_F(LocalImagesTest, WhatACrashLeftHalfDoneIsRemoved) {
  fs::create_directories(data() / "images/tmp/abc");
  fs::create_directories(data() / "images/disks/0123");
  std::ofstream(data() / "images/disks/0123/disk") << "half";
  reopen();
  expect_nothing_behind();
}

TEST_F(LocalImagesTest, EachVmHasItsOwnOverlayOfTheSharedDisk) {
  import();
  const ContainerDisk base = images_->obtain("example/raw:1", PullPolicy::never, "");
  for (const std::string uid : {"vm-1", "vm-2"}) {
    const auto disks = images_->make_disks(
        uid,
        {images::Overlay{"root", base}, images::EmptyDisk{"scratch", 5 << 20},
         images::SeedIso{"seed", "cidata", {{"meta-data", "{}"}, {"user-data", "#!/bin/sh"}}}});
    EXPECT_EQ(disks.at("root").format, "qcow2");
    EXPECT_EQ(disks.at("root").backing_format, "raw");
    EXPECT_TRUE(disks.at("seed").read_only);
    for (const auto& [name, disk] : disks) EXPECT_TRUE(fs::exists(disk.file)) << disk.file;
    struct stat seed {};
    stat(disks.at("seed").file.c_str(), &seed);
    EXPECT_EQ(seed.st_mode & 0077, 0u) << "a seed may hold secrets";
    shell("qemu-img check " + disks.at("root").file);
  }
  EXPECT_EQ(images_->vms_with_disks(), (std::set<std::string>{"vm-1", "vm-2"}));
  EXPECT_EQ(fs::hard_link_count(base.file), 3u);
  images_->remove_disks("vm-1");
  images_->remove_disks("vm-1");
  EXPECT_EQ(fs::hard_link_count(base.file), 2u);
}

TEST_F(LocalImagesTest, MakingAgainStartsAfresh) {
  const images::DiskPlan plan{images::EmptyDisk{"scratch", 1 << 20}};
  const auto first = images_->make_disks("vm", plan);
  std::ofstream(fs::path(first.at("scratch").file).parent_path() / "left-over") << "x";
  images_->make_disks("vm", plan);
  EXPECT_FALSE(fs::exists(data() / "vms/vm/left-over"));
}

TEST_F(LocalImagesTest, SavedStateIsGivenToTheNextVmOnce) {
  import();
  const images::DiskPlan plan = {
      images::Overlay{"root", images_->obtain("example/raw:1", PullPolicy::never, "")},
      images::EmptyDisk{"scratch", 1 << 20}, images::SeedIso{"seed", "cidata", {{"a", "b"}}}};
  const auto made = images_->make_disks("first", plan);
  std::ofstream(images_->memory_file("first", 6)) << "memory";
  images_->set_aside("first", "key");
  images_->set_aside("first", "key");  // asked again after a crash: nothing is lost by it
  EXPECT_FALSE(fs::exists(data() / "vms/first"));
  reopen();
  EXPECT_EQ(images_->set_aside_states(), (std::map<std::string, std::uint64_t>{{"key", 6}}));

  const auto taken = images_->take_back("key", "second");
  ASSERT_TRUE(taken);
  ASSERT_EQ(taken->size(), 3u);
  EXPECT_EQ(taken->at("root").file, data() / "vms/second/root.qcow2");
  EXPECT_EQ(taken->at("root").backing_file, data() / "vms/second/root.base");
  EXPECT_EQ(taken->at("root").backing_format, made.at("root").backing_format);
  EXPECT_EQ(taken->at("scratch").backing_file, "");
  EXPECT_TRUE(taken->at("seed").read_only);
  EXPECT_TRUE(images_->set_aside_states().empty());
  // Asked again it is the same; the memory is used once.
  EXPECT_EQ(images_->take_back("key", "second")->size(), 3u);
  EXPECT_EQ(images_->use_memory("second"), data() / "vms/second/memory.used");
  EXPECT_EQ(images_->use_memory("second"), "");
  EXPECT_EQ(images_->take_back("key", "second")->size(), 3u);
  images_->forget_memory("second");
  EXPECT_FALSE(images_->take_back("key", "second"));
  images_->remove_disks("second");
}

TEST_F(LocalImagesTest, KeyDoesNotLeadOutOfTheDirectory) {
  images_->make_disks("first", {images::EmptyDisk{"scratch", 1 << 20}});
  std::ofstream(images_->memory_file("first", 6)) << "memory";
  for (const std::string key : {"../vms", "", ".", "..", "/etc", "a/b"}) {
    EXPECT_THROW(images_->set_aside("first", key), images::DiskFailed) << key;
    EXPECT_THROW(images_->take_back(key, "second"), images::DiskFailed) << key;
    EXPECT_THROW(images_->discard(key), images::DiskFailed) << key;
  }
  EXPECT_TRUE(fs::exists(data() / "vms/first/memory"));
}

TEST_F(LocalImagesTest, MemoryThatDoesNotFitIsNotBegun) {
  try {
    images_->memory_file("first", std::uint64_t{1} << 60);
    FAIL();
  } catch (const images::DiskFailed& error) {
    EXPECT_TRUE(error.disk_full());
    EXPECT_THAT(error.what(), HasSubstr("No space left"));
  }
}

TEST_F(LocalImagesTest, WithoutMemoryNothingIsKept) {
  images_->make_disks("first", {images::EmptyDisk{"scratch", 1 << 20}});
  images_->set_aside("first", "key");
  EXPECT_TRUE(images_->set_aside_states().empty());
  EXPECT_TRUE(images_->vms_with_disks().empty());
  EXPECT_FALSE(images_->take_back("key", "second"));
  images_->discard("key");
}

TEST_F(LocalImagesTest, SeedIsFoundByItsLabel) {
  const auto disks =
      images_->make_disks("vm", {images::SeedIso{"seed", "cidata", {{"meta-data", "{\"a\":1}"}}}});
  // Volume identifier of the primary descriptor.
  const std::string iso = images::read_file(disks.at("seed").file);
  const std::string label = iso.substr(0x8000 + 40, 6);
  EXPECT_TRUE(label == "CIDATA" || label == "cidata") << label;
  EXPECT_THAT(iso, HasSubstr("{\"a\":1}"));
}

TEST_F(LocalImagesTest, SeedHasDirectories) {
  const auto disks = images_->make_disks(
      "vm", {images::SeedIso{"seed", "config-2", {{"openstack/latest/user_data", "hello"}}}});
  archive* reader = archive_read_new();
  archive_read_support_format_iso9660(reader);
  ASSERT_EQ(archive_read_open_filename(reader, disks.at("seed").file.c_str(), 1 << 14), ARCHIVE_OK);
  std::map<std::string, std::string> files;
  for (archive_entry* entry = nullptr; archive_read_next_header(reader, &entry) == ARCHIVE_OK;) {
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    std::string content(static_cast<std::size_t>(archive_entry_size(entry)), '\0');
    archive_read_data(reader, content.data(), content.size());
    files[archive_entry_pathname(entry)] = content;
  }
  archive_read_free(reader);
  EXPECT_THAT(files, testing::ElementsAre(testing::Pair("openstack/latest/user_data", "hello")));
}

TEST_F(LocalImagesTest, OverlayOverAVolumeNeedsNotOpenIt) {
  const std::string volume = directory_ / "disk.img";
  const auto disks = images_->make_disks("vm", {images::VolumeOverlay{"data", volume, 4 << 20}});
  EXPECT_EQ(disks.at("data").backing_file, volume);
  EXPECT_EQ(disks.at("data").backing_format, "raw");
  std::ofstream(volume) << std::string(4 << 20, 'v');
  shell("qemu-img info " + disks.at("data").file + " | grep 'virtual size: 4 MiB'");
}

TEST_F(LocalImagesTest, CollectedImageIsToldFromAMissingOne) {
  import();
  const ContainerDisk base = images_->obtain("example/raw:1", PullPolicy::never, "");
  fs::remove_all(fs::path(base.file).parent_path());
  EXPECT_THROW(images_->make_disks("vm", {images::Overlay{"root", base}}), NotPresent);
  EXPECT_THAT(images_->vms_with_disks(), testing::IsEmpty());
  // It comes back from its archive.
  EXPECT_TRUE(fs::exists(images_->obtain("example/raw:1", PullPolicy::never, "").file));
}

TEST_F(LocalImagesTest, CollectionSparesWhatIsUsedYoungOrImported) {
  LocalImages::Options options{data()};
  options.cache.minimum_age = std::chrono::seconds(0);
  images_ = std::make_unique<LocalImages>(options);
  const fs::path archive = import();
  const ContainerDisk base = images_->obtain("example/raw:1", PullPolicy::never, "");
  EXPECT_THAT(images_->cache().collect(99), testing::IsEmpty()) << "its archive is still there";
  fs::remove(archive);
  images_->make_disks("vm", {images::Overlay{"root", base}});
  EXPECT_THAT(images_->cache().collect(99), testing::IsEmpty()) << "a VM uses it";
  images_->remove_disks("vm");
  EXPECT_THAT(images_->cache().collect(84), testing::IsEmpty()) << "there is room";
  EXPECT_THAT(images_->cache().collect(99), testing::ElementsAre(base.digest));
  expect_nothing_behind();
  images_->cache().collect(99);
  EXPECT_TRUE(fs::is_empty(data() / "images/refs"));
}

TEST_F(LocalImagesTest, ManyAskAtOnce) {
  import();
  fs::remove_all(data() / "images/disks");
  fs::create_directory(data() / "images/disks");
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const ContainerDisk disk = images_->obtain("example/raw:1", PullPolicy::if_not_present, "");
      if (fs::exists(disk.file)) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(cached(), 1u);
}

TEST_F(LocalImagesTest, FullDiskIsSaidToBeFull) {
  // A file system of its own, which only root can mount.
  const fs::path small = directory_ / "small";
  fs::create_directory(small);
  if (geteuid() != 0 ||
      std::system(("mount -t tmpfs -o size=300k none " + small.string()).c_str()) != 0) {
    GTEST_SKIP() << "needs root to mount a tmpfs";
  }
  {
    LocalImages full(LocalImages::Options{small / "data"});
    full.make_disks("one", {images::EmptyDisk{"a", 1 << 20}});
    try {
      full.make_disks("two", {images::EmptyDisk{"a", 1 << 20}});
      ADD_FAILURE() << "300 kB were enough";
    } catch (const images::DiskFailed& error) {
      EXPECT_TRUE(error.disk_full()) << error.what();
    }
    EXPECT_EQ(full.vms_with_disks(), std::set<std::string>{"one"});
  }
  shell("umount " + small.string());
}

}  // namespace
}  // namespace virtset::test
