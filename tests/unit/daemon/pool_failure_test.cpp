// Pools whose writes fail: they say so, stop there, and go on by themselves when it is mended.

#include "api/kinds/conditions.h"
#include "api/kinds/lifecycle.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Json failure(const World& world) {
  return api::find_condition(world.pool("web")["status"], "ReplicaFailure");
}

std::set<std::string> guests(const World& world) {
  std::set<std::string> uids;
  for (const Json& instance : world.instances()) {
    uids.insert(instance["metadata"]["uid"].get<std::string>());
  }
  return uids;
}

// KubeVirt's test of maxUnavailable: a failing deletion ends the round.
TEST(PoolFailure, GuestThatCannotBeDeletedStopsTheRollOut) {
  World world;
  world.create_pool("web", 4);
  world.advance(seconds(10));
  const auto before = guests(world);
  std::set<std::string> tried;
  int refusals = 0;
  world.committer->refuse = [&](const store::Row& row) {
    const bool deletes =
        row.object->key().kind == api::instance_kind && api::is_deleting(*row.object->document());
    if (deletes) tried.insert(row.object->key().name);
    refusals += deletes ? 1 : 0;
    return deletes;
  };
  world.patch(
      api::pool_kind, "web",
      {{"spec",
        {{"virtualMachineTemplate",
          {{"spec", {{"template", {{"spec", {{"terminationGracePeriodSeconds", 7}}}}}}}}}}}});
  world.advance(seconds(30));
  EXPECT_EQ(failure(world)["status"], "True");
  EXPECT_EQ(failure(world)["reason"], "FailedUpdate");
  EXPECT_THAT(failure(world)["message"].get<std::string>(), HasSubstr("disk is full"));
  EXPECT_THAT(world.events(api::pool_kind),
              Contains(HasSubstr("FailedUpdate: Error updating virtual machine default/web-")));
  EXPECT_EQ(tried.size(), 1u);  // the default of maxUnavailable
  EXPECT_LT(refusals, 20);      // ever more slowly
  EXPECT_EQ(guests(world), before);
  world.committer->refuse = nullptr;
  world.advance(minutes(5));
  EXPECT_TRUE(failure(world).is_null());
  EXPECT_EQ(world.pool("web")["status"]["updatedReadyReplicas"], 4);
  for (const std::string& uid : guests(world)) EXPECT_FALSE(before.contains(uid));
}

TEST(PoolFailure, RelabelledMachineIsReleasedWhenItsCommitHasFailed) {
  World world;
  world.create_pool("web", 2);
  world.settle();
  int refusals = 0;
  world.committer->refuse = [&](const store::Row& row) {
    const bool lets_go = row.object->key().kind == api::machine_kind &&
                         !api::has_finalizer(*row.object->document(), finalizer);
    refusals += lets_go ? 1 : 0;
    return lets_go;
  };
  world.patch(api::machine_kind, "web-0", {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.advance(seconds(5));
  EXPECT_GT(refusals, 1);
  EXPECT_TRUE(world.get(api::machine_kind, "web-0")["metadata"].contains("ownerReferences"));
  EXPECT_EQ(failure(world)["reason"], "FailedUpdate");
  world.committer->refuse = nullptr;
  world.advance(minutes(2));
  const Json released = world.get(api::machine_kind, "web-0")["metadata"];
  EXPECT_FALSE(released.contains("ownerReferences"));
  EXPECT_THAT(released["finalizers"], Not(Contains(finalizer)));
  EXPECT_EQ(world.machine_names().size(), 3u);
  EXPECT_TRUE(failure(world).is_null());
}

// Scaling counts those that belong to it.
TEST(PoolFailure, ReleaseThatHasFailedComesBeforeScaling) {
  World world;
  world.create_pool("web", 3, sorted_by("AscendingOrder"));
  world.settle();
  const auto before = guests(world);
  world.committer->refuse = [&](const store::Row& row) {
    return row.object->key().kind == api::machine_kind &&
           !api::has_finalizer(*row.object->document(), finalizer);
  };
  world.patch(api::machine_kind, "web-2", {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.advance(seconds(20));
  EXPECT_EQ(guests(world), before);
  world.committer->refuse = nullptr;
  scale_pool(world, "web", 2);
  world.settle();
  EXPECT_EQ(guests(world), before);
  EXPECT_FALSE(world.get(api::machine_kind, "web-2")["metadata"].contains("ownerReferences"));
}

}  // namespace
}  // namespace virtset::test
