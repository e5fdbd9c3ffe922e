// The fake keeps the promises of Volumes that controllers rely on.

#include "tests/fakes/fake_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

const images::Volumes::Progress nobody = [](double) {};

TEST(FakeVolumes, MakesOnceAndWhole) {
  FakeVolumes volumes;
  volumes.make("a", 10, images::Blank{}, nobody);
  volumes.make("a", 20, images::FromUrl{"u", ""}, nobody);
  EXPECT_EQ(volumes.volumes["a"].size, 10u);
  EXPECT_EQ(volumes.volumes["a"].content, "blank");
  EXPECT_EQ(volumes.made["a"], 1);
  volumes.make("b", 10, images::FromVolume{"a"}, nobody);
  EXPECT_EQ(volumes.volumes["b"].content, "blank");
}

TEST(FakeVolumes, FailedOneIsNotWhole) {
  FakeVolumes volumes;
  volumes.refuse["u"] = "no";
  EXPECT_THROW(volumes.make("a", 10, images::FromUrl{"u", ""}, nobody), images::PullFailed);
  EXPECT_FALSE(volumes.list().at("a"));
  volumes.remove("a");
  volumes.disk_is_full = true;
  EXPECT_THROW(volumes.make("a", 10, images::Blank{}, nobody), images::DiskFailed);
  EXPECT_TRUE(volumes.list().empty());
  EXPECT_THROW(volumes.make("c", 1, images::FromVolume{"none"}, nobody), images::ImageError);
}

TEST(FakeVolumes, OnlyGrows) {
  FakeVolumes volumes;
  volumes.make("a", 10, images::Blank{}, nobody);
  volumes.grow("a", 5);
  EXPECT_EQ(volumes.volumes["a"].size, 10u);
  volumes.grow("a", 15);
  EXPECT_EQ(volumes.volumes["a"].size, 15u);
  EXPECT_THROW(volumes.grow("b", 1), images::NotPresent);
}

}  // namespace
}  // namespace virtset::test
