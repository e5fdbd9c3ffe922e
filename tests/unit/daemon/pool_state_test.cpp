// What outlives a virtual machine of a pool: its disks, its identity, its memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/lifecycle.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

std::string firmware_of(const World& world, const std::string& machine) {
  return world.get(api::machine_kind,
                   machine)["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"];
}

bool is_saved(const World& world, const std::string& machine) {
  return world.store->get({api::virtset_group, api::saved_machine_kind, "default", machine}) !=
         nullptr;
}

// Domains that were started from a memory.
long restored(const World& world) {
  const auto& domains = world.host.domains;
  return std::count_if(domains.begin(), domains.end(), [](const auto& domain) {
    return !domain.second.description.memory_file.empty();
  });
}

void scale_in_and_out(World& world, const std::string& preservation) {
  world.create_pool("web", 3, sorted_by("DescendingOrder", preservation));
  world.advance(seconds(5));
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  ASSERT_THAT(world.machine_names(), ElementsAre("web-0"));
  ASSERT_EQ(world.host.alive(), 1u);
}

TEST(PoolState, OfflineKeepsTheIdentity) {
  World world;
  world.create_pool("web", 3, sorted_by("DescendingOrder", "Offline"));
  world.advance(seconds(5));
  const std::string uuid = firmware_of(world, "web-2");
  const std::string uid = uid_of(world, "web-2");
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
  EXPECT_TRUE(is_saved(world, "web-2"));
  scale_pool(world, "web", 3);
  world.advance(seconds(5));
  EXPECT_EQ(firmware_of(world, "web-2"), uuid);
  EXPECT_NE(uid_of(world, "web-2"), uid);
  EXPECT_EQ(restored(world), 0);
  EXPECT_FALSE(is_saved(world, "web-2"));
}

TEST(PoolState, OnlineKeepsTheMemoryToo) {
  World world;
  world.create_pool("web", 3, sorted_by("DescendingOrder", "Online"));
  world.advance(seconds(5));
  const std::string uuid = firmware_of(world, "web-2");
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  ASSERT_EQ(world.host.alive(), 1u);
  EXPECT_TRUE(is_saved(world, "web-1"));
  world.crash();
  world.boot();
  scale_pool(world, "web", 3);
  world.advance(seconds(5));
  ASSERT_EQ(world.host.alive(), 3u);
  EXPECT_EQ(firmware_of(world, "web-2"), uuid);
  EXPECT_EQ(restored(world), 2);
  EXPECT_FALSE(is_saved(world, "web-1"));
  EXPECT_TRUE(world.images.saved.empty());
}

// Scaled out and in again before the next one could go on from there.
TEST(PoolState, MemoryThatWasNotTakenUpIsKeptForTheNext) {
  World world;
  world.create_pool("web", 2, sorted_by("DescendingOrder", "Online"));
  world.advance(seconds(5));
  scale_pool(world, "web", 1);
  world.advance(seconds(5));
  ASSERT_TRUE(is_saved(world, "web-1"));
  world.cordon();
  scale_pool(world, "web", 2);
  world.advance(seconds(5));
  ASSERT_EQ(world.host.alive(), 1u);
  scale_pool(world, "web", 1);
  world.advance(seconds(5));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
  EXPECT_EQ(world.images.saved.size(), 1u);
  world.cordon(false);
  scale_pool(world, "web", 2);
  world.advance(seconds(5));
  ASSERT_EQ(world.host.alive(), 2u);
  EXPECT_TRUE(world.images.saved.empty());
  EXPECT_FALSE(is_saved(world, "web-1"));
  EXPECT_EQ(restored(world), 1);
}

TEST(PoolState, DisabledKeepsNothing) {
  World world;
  world.create_pool("web", 3, sorted_by("DescendingOrder", "Disabled"));
  world.advance(seconds(5));
  const std::string uuid = firmware_of(world, "web-2");
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  EXPECT_FALSE(is_saved(world, "web-2"));
  scale_pool(world, "web", 3);
  world.advance(seconds(5));
  EXPECT_NE(firmware_of(world, "web-2"), uuid);
}

TEST(PoolState, OpportunisticKeepsItForWhomeverDeletes) {
  World world;
  world.create_pool("web", 2, strategy({{"opportunistic", {{"statePreservation", "Offline"}}}}));
  world.advance(seconds(5));
  const std::string uuid = firmware_of(world, "web-1");
  const std::string uid = uid_of(world, "web-1");
  // Also while the pool is paused, when it changes nothing else.
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", true}}}});
  world.remove(api::machine_kind, "web-1");
  world.advance(seconds(5));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", false}}}});
  world.advance(seconds(5));
  EXPECT_NE(uid_of(world, "web-1"), uid);
  EXPECT_EQ(firmware_of(world, "web-1"), uuid);
}

TEST(PoolState, WhatIsKeptGoesWithThePool) {
  World world;
  scale_in_and_out(world, "Online");
  EXPECT_TRUE(is_saved(world, "web-1"));
  world.remove(api::pool_kind, "web");
  world.advance(seconds(5));
  EXPECT_EQ(world.pool("web"), Json());
  EXPECT_FALSE(is_saved(world, "web-1"));
  EXPECT_TRUE(world.images.saved.empty());
}

TEST(PoolState, ScaleInThatIsTakenBackForgetsWhatWasWrittenDown) {
  World world;
  world.create_pool("web", 2, sorted_by("DescendingOrder", "Online"));
  world.advance(seconds(5));
  // Killed when the record is there and the machine not yet deleted.
  world.committer->last_commit = world.committer->commits + 2;
  int status = 0;
  world.request("PATCH",
                "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools/web",
                {{"spec", {{"replicas", 1}}}}, &status, "application/merge-patch+json");
  world.crash();
  const bool written =
      world.disk.rows.contains({api::virtset_group, api::saved_machine_kind, "default", "web-1"});
  const store::Key pool{api::pool_group, api::pool_kind, "default", "web"};
  Json document = Json::parse(world.disk.rows.at(pool)->text());
  EXPECT_TRUE(written);
  EXPECT_EQ(document["spec"]["replicas"], 1);
  world.boot();
  world.advance(seconds(5));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
  scale_pool(world, "web", 2);
  world.advance(seconds(5));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  EXPECT_FALSE(is_saved(world, "web-1"));
}

// ---- disks ----

// A pool whose machines have a disk of their own each.
Json with_data(Json spec, const std::string& size = "1Gi") {
  Json& machine = spec["virtualMachineTemplate"]["spec"];
  machine["dataVolumeTemplates"] = Json::parse(
      R"([{"metadata":{"name":"data"},"spec":{"source":{"blank":{}},
           "storage":{"resources":{"requests":{"storage":")" +
      size + R"("}}}}}])");
  machine["template"]["spec"]["volumes"] =
      Json::parse(R"([{"name":"data","dataVolume":{"name":"data"}}])");
  return spec;
}

Json disk(const World& world, const std::string& name) {
  return world.get(api::data_volume_kind, name);
}

// Facts 2.9.
TEST(PoolState, OfflineKeepsTheDiskForTheNextOfItsName) {
  World world;
  world.create_pool("web", 3, with_data(sorted_by("AscendingOrder", "Offline")));
  world.advance(seconds(10));
  ASSERT_EQ(world.host.alive(), 3u) << world.get(api::machine_kind, "web-0")["status"];
  const std::string uid = disk(world, "data-0")["metadata"]["uid"];
  scale_pool(world, "web", 2);
  world.advance(seconds(40));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-1", "web-2"));
  EXPECT_FALSE(disk(world, "data-0")["metadata"].contains("ownerReferences"));
  scale_pool(world, "web", 3);
  world.advance(seconds(10));
  EXPECT_EQ(world.host.alive(), 3u);
  EXPECT_EQ(disk(world, "data-0")["metadata"]["uid"], uid);
  EXPECT_EQ(disk(world, "data-0")["metadata"]["ownerReferences"][0]["uid"], uid_of(world, "web-0"));
}

TEST(PoolState, DiskGoesWithAMachineThatIsNotPreserved) {
  World world;
  world.create_pool("web", 2, with_data(sorted_by("DescendingOrder")));
  world.advance(seconds(10));
  const std::string uid = disk(world, "data-1")["metadata"]["uid"];
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  EXPECT_EQ(disk(world, "data-1"), Json());
  scale_pool(world, "web", 2);
  world.advance(seconds(10));
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_NE(disk(world, "data-1")["metadata"]["uid"], uid);
}

TEST(PoolState, OtherDiskTemplatesMakeMachinesAnewOneAfterTheOther) {
  World world;
  world.create_pool("web", 3, with_data(Json::object()));
  world.advance(seconds(10));
  const std::string machine = uid_of(world, "web-1");
  const std::string old_disk = disk(world, "data-1")["metadata"]["uid"];
  world.patch(api::pool_kind, "web", {{"spec", with_data(Json::object(), "2Gi")}});
  for (int second = 0; second < 120; ++second) {
    world.advance(seconds(1));
    ASSERT_GE(world.host.alive(), 2u);
  }
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
  EXPECT_NE(uid_of(world, "web-1"), machine);
  EXPECT_NE(disk(world, "data-1")["metadata"]["uid"], old_disk);
  EXPECT_EQ(disk(world, "data-1")["spec"]["storage"]["resources"]["requests"]["storage"], "2Gi");
  EXPECT_EQ(api::find_condition(world.pool("web")["status"], "Progressing")["reason"],
            "RolloutComplete");
}

// Killed at each commit of a scale-in, no disk is lost and none is left to nobody.
TEST(PoolState, KilledScaleInLosesNoDisk) {
  bool rested = false;
  for (int k = 1; !rested && !testing::Test::HasFailure(); ++k) {
    SCOPED_TRACE("killed at commit " + std::to_string(k));
    World world;
    world.create_pool("web", 2, with_data(sorted_by("DescendingOrder", "Offline")));
    world.advance(seconds(10));
    const std::string uid = disk(world, "data-1")["metadata"]["uid"];
    const int last = world.committer->commits + k;
    world.committer->last_commit = last;
    scale_pool(world, "web", 1);
    world.advance(seconds(10));
    rested = world.committer->commits <= last;
    world.crash();
    world.boot();
    world.advance(seconds(40));
    EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
    EXPECT_EQ(disk(world, "data-1")["metadata"]["uid"], uid);
    scale_pool(world, "web", 2);
    world.advance(seconds(20));
    EXPECT_EQ(world.host.alive(), 2u);
    EXPECT_EQ(disk(world, "data-1")["metadata"]["uid"], uid);
    EXPECT_EQ(disk(world, "data-1")["metadata"]["ownerReferences"][0]["uid"],
              uid_of(world, "web-1"));
  }
}

// Facts 2.9.
TEST(PoolState, MachineThatIsDeletedByHandComesBackWithANewDisk) {
  World world;
  world.create_pool("web", 2, with_data(Json::object()));
  world.advance(seconds(10));
  const std::string uid = disk(world, "data-1")["metadata"]["uid"];
  const std::string machine = uid_of(world, "web-1");
  world.remove(api::machine_kind, "web-1", "Foreground");
  world.advance(seconds(50));
  EXPECT_NE(uid_of(world, "web-1"), machine);
  EXPECT_NE(disk(world, "data-1")["metadata"]["uid"], uid);
  EXPECT_EQ(world.host.alive(), 2u);
}

// KubeVirt: new disks, which mend no image.
TEST(PoolState, HealingForAnImageKeepsTheDisk) {
  World world;
  world.images.refuse["i:1"] = "manifest unknown";
  Json spec = with_data({{"autohealing", {{"minFailingToStartDuration", "1m"}}}});
  spec["virtualMachineTemplate"]["spec"]["template"]["spec"]["volumes"].push_back(
      {{"name", "root"}, {"containerDisk", {{"image", "i:1"}}}});
  world.create_pool("web", 1, spec);
  world.advance(seconds(20));
  const std::string machine = uid_of(world, "web-0");
  const std::string uid = disk(world, "data-0")["metadata"]["uid"];
  world.advance(seconds(80));
  EXPECT_NE(uid_of(world, "web-0"), machine);
  EXPECT_EQ(disk(world, "data-0")["metadata"]["uid"], uid);
  world.images.refuse.clear();
  world.advance(seconds(600));
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(disk(world, "data-0")["metadata"]["uid"], uid);
}

TEST(PoolState, DiskDoesNotGoBecauseAUserCallsItsMachineASurge) {
  World world;
  world.create_pool("web", 2, with_data(Json::object()));
  world.advance(seconds(10));
  const std::string uid = disk(world, "data-1")["metadata"]["uid"];
  world.patch(api::machine_kind, "web-1",
              {{"metadata", {{"annotations", {{"virtset.io/surge", "true"}}}}}});
  world.advance(seconds(60));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  EXPECT_EQ(disk(world, "data-1")["metadata"]["uid"], uid);
}

TEST(PoolState, RollbackThatAdmissionRefusesStopsNothingElse) {
  World world;
  world.create_pool("web", 1, with_data(Json::object()));
  world.advance(seconds(10));
  // What surges has no disks of its own.
  world.patch(api::pool_kind, "web",
              {{"metadata", {{"annotations", {{"virtset.io/max-surge", "1"}}}}},
               {"spec",
                {{"virtualMachineTemplate",
                  {{"spec",
                    {{"dataVolumeTemplates", nullptr},
                     {"template", {{"spec", {{"volumes", nullptr}}}}}}}}}}}});
  world.advance(seconds(60));
  world.patch(api::pool_kind, "web",
              {{"metadata", {{"annotations", {{"virtset.io/rollback-to", "1"}}}}}});
  world.advance(seconds(5));
  EXPECT_FALSE(world.pool("web")["metadata"]["annotations"].contains("virtset.io/rollback-to"));
  EXPECT_THAT(world.events(api::pool_kind),
              testing::Contains(testing::HasSubstr("RollbackRefused: Unable to go back to")));
  scale_pool(world, "web", 2);
  world.advance(seconds(10));
  EXPECT_EQ(world.host.alive(), 2u);
}

TEST(PoolState, RecordOfSomebodyElseIsLeftAloneAndSaidToBeInTheWay) {
  World world;
  world.create_pool("web", 2, sorted_by("DescendingOrder", "Offline"));
  world.advance(seconds(5));
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  const store::Key key{api::virtset_group, api::saved_machine_kind, "default", "web-1"};
  world.store->write(
      key,
      [](const store::Object* current) {
        Json document = *current->document();
        document["metadata"].erase("ownerReferences");
        return store::Store::Mutation::put(document);
      },
      nullptr);
  world.settle();
  scale_pool(world, "web", 2);
  world.advance(seconds(5));
  ASSERT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  scale_pool(world, "web", 1);
  world.advance(seconds(40));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  EXPECT_TRUE(is_saved(world, "web-1"));
  const Json failure = api::find_condition(world.pool("web")["status"], "ReplicaFailure");
  EXPECT_EQ(failure["reason"], "FailedScaleIn");
  EXPECT_THAT(api::text(failure["message"]),
              testing::HasSubstr("SavedVirtualMachine web-1 of nobody is in the way"));
  world.request("DELETE",
                "/apis/virtset.io/v1alpha1/namespaces/default/savedvirtualmachines/web-1");
  world.advance(seconds(300));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0"));
}

}  // namespace
}  // namespace virtset::test
