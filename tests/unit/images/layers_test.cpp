// Layers are what strangers wrote.

#include "images/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "images/errors.h"
#include "images/files.h"
#include "tests/unit/images/tar_builder.h"

namespace virtset::test {
namespace {

using images::BadImage;
using images::extract_disk;
using testing::HasSubstr;

constexpr std::uint64_t limit = 1 << 20;

class LayersTest : public testing::Test {
 protected:
  // The content of the disk that these layers hold, or why there is none.
  std::string extract(const std::vector<std::filesystem::path>& layers,
                      const std::string& path = "") {
    const auto target = directory_ / "out";
    std::filesystem::remove(target);
    try {
      extract_disk(layers, path, target, limit);
      return images::read_file(target);
    } catch (const BadImage& error) {
      return std::string("refused: ") + error.what();
    }
  }
  std::filesystem::path layer(const std::string& name) const { return directory_ / name; }
  TestDirectory directory_;
};

TEST_F(LayersTest, TakesTheOnlyFileInDisk) {
  for (const bool gzip : {false, true}) {
    TarBuilder(layer("a"), gzip)
        .directory("disk/")
        .file("disk/vm.img", "content")
        .file("etc/x", "y");
    EXPECT_EQ(extract({layer("a")}), "content");
  }
}

TEST_F(LayersTest, NamesMayBeWrittenInAnyWay) {
  for (const char* name : {"./disk/vm.img", "/disk/vm.img", "disk//vm.img", ".//disk/./vm.img"}) {
    TarBuilder(layer("a")).file(name, "content");
    EXPECT_EQ(extract({layer("a")}), "content") << name;
  }
}

TEST_F(LayersTest, NothingInDisk) {
  TarBuilder(layer("a")).directory("disk/").file("other", "x");
  EXPECT_THAT(extract({layer("a")}), HasSubstr("no disk present"));
  TarBuilder(layer("b")).file("other", "x");
  EXPECT_THAT(extract({layer("b")}), HasSubstr("no disk present"));
}

TEST_F(LayersTest, TwoFilesInDisk) {
  TarBuilder(layer("a")).file("disk/a.img", "x").file("disk/b.img", "y");
  EXPECT_THAT(extract({layer("a")}), HasSubstr("more than one file in /disk"));
}

TEST_F(LayersTest, PathChoosesTheFile) {
  TarBuilder(layer("a")).file("disk/a.img", "x").file("images/b.img", "y");
  EXPECT_EQ(extract({layer("a")}, "/images/b.img"), "y");
  EXPECT_EQ(extract({layer("a")}, "/disk/a.img"), "x");
  EXPECT_THAT(extract({layer("a")}, "/images/c.img"), HasSubstr("has no file /images/c.img"));
}

TEST_F(LayersTest, LaterLayersReplaceAndHide) {
  TarBuilder(layer("1")).file("disk/a.img", "old");
  TarBuilder(layer("2")).file("disk/a.img", "new");
  EXPECT_EQ(extract({layer("1"), layer("2")}), "new");
  TarBuilder(layer("3")).file("disk/.wh.a.img", "").file("disk/b.img", "other");
  EXPECT_EQ(extract({layer("1"), layer("3")}), "other");
  TarBuilder(layer("4")).file("disk/.wh..wh..opq", "").file("disk/c.img", "opaque");
  EXPECT_EQ(extract({layer("1"), layer("2"), layer("4")}), "opaque");
  TarBuilder(layer("5")).file(".wh.disk", "");
  EXPECT_THAT(extract({layer("1"), layer("5")}), HasSubstr("no disk present"));
  // Written, and hidden again by a still later one.
  TarBuilder(layer("6")).file("disk/b.img", "passing");
  TarBuilder(layer("7")).file("disk/.wh.b.img", "");
  EXPECT_EQ(extract({layer("1"), layer("6"), layer("7")}), "old");
}

TEST_F(LayersTest, PathsThatClimbAreRefused) {
  for (const char* name : {"../disk/x", "disk/../../x", "a/../../disk/x", "disk/.."}) {
    TarBuilder(layer("a")).file(name, "x").file("disk/vm.img", "content");
    EXPECT_THAT(extract({layer("a")}), HasSubstr("climbs")) << name;
  }
}

TEST_F(LayersTest, LinksAndDevicesAreRefused) {
  TarBuilder(layer("a")).symlink("disk/vm.img", "/etc/passwd");
  EXPECT_THAT(extract({layer("a")}), HasSubstr("link or a special file"));
  TarBuilder(layer("b")).file("secret", "x").hardlink("disk/vm.img", "secret");
  EXPECT_THAT(extract({layer("b")}), HasSubstr("link or a special file"));
  TarBuilder(layer("c")).device("disk/vm.img");
  EXPECT_THAT(extract({layer("c")}), HasSubstr("link or a special file"));
  TarBuilder(layer("d")).symlink("disk", "/etc").file("disk/passwd", "x");
  EXPECT_THAT(extract({layer("d")}), HasSubstr("/disk is not a directory"));
  TarBuilder(layer("e")).symlink("images", "/etc").file("images/x", "x");
  EXPECT_THAT(extract({layer("e")}, "/images/x"), HasSubstr("/images is not a directory"));
}

TEST_F(LayersTest, DamagedLayersAreRefused) {
  TarBuilder(layer("a"), true).file("disk/vm.img", std::string(200'000, 'r'));
  const std::string whole = images::read_file(layer("a"));
  for (const std::size_t kept : {whole.size() - 1, whole.size() / 2, std::size_t{30}}) {
    std::ofstream(layer("cut"), std::ios::binary) << whole.substr(0, kept);
    EXPECT_THAT(extract({layer("cut")}), HasSubstr("refused")) << kept;
  }
  std::ofstream(layer("junk"), std::ios::binary) << std::string(5'000, 'j');
  EXPECT_THAT(extract({layer("junk")}), HasSubstr("refused"));
  EXPECT_THAT(extract({layer("missing")}), HasSubstr("refused"));
}

// As umoci 0.4.7 writes them.
TEST_F(LayersTest, MissingEndOfTheArchiveIsForgiven) {
  const std::string content(1'000, 'x');
  TarBuilder(layer("a")).file("disk/vm.img", content);
  const std::string whole = images::read_file(layer("a"));
  std::ofstream(layer("open"), std::ios::binary) << whole.substr(0, 512 + content.size());
  EXPECT_EQ(extract({layer("open")}), content);
  std::ofstream(layer("cut"), std::ios::binary) << whole.substr(0, 512 + content.size() - 1);
  EXPECT_THAT(extract({layer("cut")}), HasSubstr("refused"));
}

TEST_F(LayersTest, SizeThatIsALieIsRefused) {
  TarBuilder(layer("a")).file("disk/vm.img", std::string(100'000, 'x'));
  std::string tar = images::read_file(layer("a"));
  // The size is twelve octal digits at 124 of the header; the checksum that goes with it at 148.
  const auto set_size = [&](const std::string& octal) {
    std::string lie = tar;
    lie.replace(124, 11, octal);
    lie.replace(148, 8, "        ");
    unsigned sum = 0;
    for (int i = 0; i < 512; ++i)
      sum += static_cast<unsigned char>(lie[static_cast<std::size_t>(i)]);
    char text[8];
    snprintf(text, sizeof text, "%06o", sum);
    lie.replace(148, 6, text);
    lie[154] = '\0';
    std::ofstream(layer("lie"), std::ios::binary) << lie;
  };
  set_size("00001000000");  // 256 KiB, more than there is
  EXPECT_THAT(extract({layer("lie")}), HasSubstr("damaged"));
  set_size("77777777777");  // 8 GiB
  EXPECT_THAT(extract({layer("lie")}), HasSubstr("larger than the limit"));
}

TEST_F(LayersTest, BombsAreRefused) {
  TarBuilder(layer("a"), true).file("disk/vm.img", std::string(limit + 1, '\0'));
  EXPECT_THAT(extract({layer("a")}), HasSubstr("larger than the limit"));
}

TEST_F(LayersTest, ZerosBecomeHoles) {
  std::string content(1 << 20, '\0');
  content[500'000] = 'x';
  TarBuilder(layer("a")).file("disk/vm.img", content);
  EXPECT_EQ(extract({layer("a")}), content);
  struct stat status {};
  stat((directory_ / "out").c_str(), &status);
  EXPECT_LT(status.st_blocks * 512, 64 << 10);
}

}  // namespace
}  // namespace virtset::test
