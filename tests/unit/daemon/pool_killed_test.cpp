// Pools whose daemon is killed at each commit of what it does: it goes on, and ends right.

#include "api/kinds/conditions.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// True if the daemon came to rest before the k-th commit.
bool die_at_commit(World& world, int k, const std::function<void()>& begin, seconds after) {
  const int last = world.committer->commits + k;
  world.committer->last_commit = last;
  begin();
  world.advance(after);
  const bool rested = world.committer->commits <= last;
  world.crash();
  world.boot();
  return rested;
}

TEST(PoolKilled, RollOutGoesOnAndEndsRight) {
  bool rested = false;
  for (int k = 0; !rested && !testing::Test::HasFailure(); ++k) {
    SCOPED_TRACE("killed at commit " + std::to_string(k));
    World world;
    world.create_pool("web", 3, spec_of(good_port));
    world.advance(seconds(10));
    int least = 3;
    rested = die_at_commit(
        world, k,
        [&] {
          // Not through the API, which would wait for its answer.
          world.store->write(
              {api::pool_group, api::pool_kind, "default", "web"},
              [](const store::Object* current) {
                Json document = *current->document();
                document.merge_patch(guest_change(ready_on(79)));
                document["metadata"]["generation"] = 2;
                return store::Store::Mutation::put(document);
              },
              nullptr);
        },
        seconds(40));
    for (int i = 0; i < 60; ++i) {
      world.advance(seconds(1));
      least = std::min<int>(least, static_cast<int>(world.host.alive()));
      ASSERT_LE(world.host.alive(), 3u);
    }
    // One restarts at a time; a guest that is restarted when the daemon dies counts twice at most.
    EXPECT_GE(least, 2);
    const Json status = world.pool("web")["status"];
    const auto generation = world.pool("web")["metadata"]["generation"].get<int>();
    EXPECT_EQ(status["readyReplicas"], 3) << status;
    EXPECT_EQ(api::find_condition(status, "Progressing")["reason"], "RolloutComplete");
    int updated = 0;
    for (const Json& instance : world.instances()) {
      updated += member(instance, "spec", "readinessProbe", "tcpSocket", "port") == 79 ? 1 : 0;
    }
    EXPECT_EQ(updated, generation == 2 ? 3 : 0);
    EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
    EXPECT_LE(world.store->list(api::apps_group, api::controller_revision_kind).size(), 2u);
  }
}

TEST(PoolKilled, ScaleInGoesOnAndEndsRight) {
  bool rested = false;
  for (int k = 0; !rested && !testing::Test::HasFailure(); ++k) {
    SCOPED_TRACE("killed at commit " + std::to_string(k));
    World world;
    world.create_pool("web", 4,
                      {{"scaleInStrategy",
                        {{"proactive",
                          {{"selectionPolicy", {{"sortPolicy", "DescendingOrder"}}},
                           {"statePreservation", k % 2 ? "Offline" : "Online"}}}}}});
    world.advance(seconds(5));
    rested = die_at_commit(
        world, k,
        [&] {
          world.store->write(
              {api::pool_group, api::pool_kind, "default", "web"},
              [](const store::Object* current) {
                Json document = *current->document();
                document["spec"]["replicas"] = 2;
                document["metadata"]["generation"] = 2;
                return store::Store::Mutation::put(document);
              },
              nullptr);
        },
        seconds(5));
    world.advance(seconds(40));
    const int wanted = world.pool("web")["spec"]["replicas"];
    EXPECT_THAT(world.machine_names(), SizeIs(wanted));
    EXPECT_EQ(world.machine_names()[1], "web-1");
    EXPECT_EQ(world.host.alive(), static_cast<std::size_t>(wanted));
    EXPECT_THAT(world.instances(), SizeIs(wanted));
    EXPECT_EQ(world.pool("web")["status"]["replicas"], wanted);
  }
}

TEST(PoolKilled, CreationGoesOnAndEndsRight) {
  bool rested = false;
  for (int k = 1; !rested && !testing::Test::HasFailure(); ++k) {
    SCOPED_TRACE("killed at commit " + std::to_string(k));
    World world;
    rested = die_at_commit(
        world, k, [&] { world.create_pool("web", 3); }, seconds(5));
    world.advance(seconds(30));
    EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
    EXPECT_EQ(world.host.alive(), 3u);
    EXPECT_EQ(world.host.starts, 3);
  }
}

TEST(PoolKilled, DeletionGoesOnAndLeavesNothing) {
  for (const char* policy : {"Background", "Foreground", "Orphan"}) {
    bool rested = false;
    for (int k = 1; !rested && !testing::Test::HasFailure(); ++k) {
      SCOPED_TRACE(std::string(policy) + " killed at commit " + std::to_string(k));
      World world;
      world.create_pool("web", 2);
      world.advance(seconds(5));
      rested = die_at_commit(
          world, k, [&] { world.remove(api::pool_kind, "web", policy); }, seconds(5));
      world.advance(seconds(40));
      const bool orphans = policy == std::string("Orphan");
      EXPECT_EQ(world.pool("web"), Json());
      EXPECT_THAT(world.machine_names(), SizeIs(orphans ? 2 : 0));
      EXPECT_THAT(world.store->list(api::apps_group, api::controller_revision_kind), IsEmpty());
      for (const std::string& name : world.machine_names()) {
        const Json metadata = world.get(api::machine_kind, name)["metadata"];
        EXPECT_FALSE(metadata.contains("ownerReferences"));
        EXPECT_THAT(metadata["finalizers"],
                    ElementsAre("kubevirt.io/virtualMachineControllerFinalize"));
      }
    }
  }
}

}  // namespace
}  // namespace virtset::test
