// That the world of the controllers' tests is one in which promises can break.

#include "tests/fakes/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Json;
using testing::IsEmpty;
using testing::SizeIs;

TEST(World, IsADaemonThatAnswers) {
  World world;
  int status = 0;
  const std::string path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
  const Json list = world.request("GET", path + "?limit=5", nullptr, &status);
  EXPECT_EQ(status, 200);
  EXPECT_EQ(list["kind"], "VirtualMachineInstanceList");
  world.request("GET", path + "/none", nullptr, &status);
  EXPECT_EQ(status, 404);
}

TEST(World, RequestsThatFailAreNotOverlooked) {
  World world;
  EXPECT_THROW(world.create_set("NOT A NAME", 1), std::runtime_error);
  EXPECT_THROW(world.scale("none", 1), std::runtime_error);
  EXPECT_THROW(world.remove(api::replica_set_kind, "none"), std::runtime_error);
}

TEST(World, CrashForgetsWhatWasInMemoryAndBootFindsTheRest) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const auto names = world.instance_names();
  ASSERT_THAT(names, SizeIs(2));
  world.crash();
  EXPECT_EQ(world.store, nullptr);
  EXPECT_EQ(world.host.alive(), 2u);
  world.boot();
  world.settle();
  EXPECT_EQ(world.instance_names(), names);
  EXPECT_EQ(world.host.starts, 2);
}

TEST(World, WhatWasNotDurableIsGoneAfterACrash) {
  World world;
  world.committer->held = true;
  EXPECT_THROW(world.create_set("web", 1), std::runtime_error);
  world.crash();
  world.boot();
  EXPECT_TRUE(world.set("web").is_null());
}

TEST(World, NothingThatADeadDaemonPostedIsRun) {
  World world;
  world.create_set("web", 1);
  world.settle();
  const std::string uuid = world.uuid_of(world.instance_names().at(0));
  world.jobs->run(
      Lane::control, [] {}, [] { FAIL(); });
  world.hypervisor->kill_process(uuid);
  world.crash();
  EXPECT_EQ(world.scheduler.timers(), 0u);
  EXPECT_EQ(world.scheduler.run(), 0);
}

TEST(World, MayBeKilledTwiceOver) {
  World world;
  world.crash();
  world.crash();
  world.boot();
  EXPECT_THAT(world.instances(), IsEmpty());
}

TEST(World, TimePassesInStepsInWhichJobsAreDone) {
  World world;
  const auto before = world.scheduler.steady_now();
  int ran = 0;
  world.jobs->run(
      Lane::disk, [&] { ++ran; }, [&] { ++ran; });
  world.advance(milliseconds(250));
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(world.scheduler.steady_now() - before, milliseconds(250));
}

TEST(World, EventsAreOfTheKindThatIsAskedFor) {
  World world;
  world.create_set("web", 1);
  world.settle();
  EXPECT_THAT(world.events(api::replica_set_kind), Not(IsEmpty()));
  EXPECT_THAT(world.events("Pod"), IsEmpty());
}

TEST(World, ConnectionMayBreakAndComeBack) {
  World world;
  world.hypervisor->disconnect();
  world.settle();
  EXPECT_FALSE(world.domains->synced());
  world.create_set("web", 1);
  world.advance(seconds(1));
  EXPECT_EQ(world.host.starts, 0);
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(world.host.starts, 1);
}

}  // namespace
}  // namespace virtset::test
