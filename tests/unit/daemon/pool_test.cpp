// Pools at count: the parity checks of KubeVirt's pool controller, one test for each of its
// defects, and what is promised beyond it. Roll-outs are in pool_rollout_test.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using api::member;
using std::chrono::minutes;
using std::chrono::seconds;
using store::Json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(Pool, CreatesWhatIsMissing) {
  World world;
  world.create_pool("web", 3);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
  EXPECT_EQ(world.host.alive(), 3u);
  EXPECT_THAT(revisions(world), ElementsAre("web-1"));
  EXPECT_THAT(world.events(api::pool_kind),
              testing::UnorderedElementsAre("SuccessfulCreate: Created VM default/web-0",
                                            "SuccessfulCreate: Created VM default/web-1",
                                            "SuccessfulCreate: Created VM default/web-2"));
  const Json pool = world.pool("web");
  EXPECT_EQ(pool["status"]["replicas"], 3);
  EXPECT_EQ(pool["status"]["readyReplicas"], 3);
  EXPECT_EQ(pool["status"]["updatedReplicas"], 3);
  EXPECT_EQ(pool["status"]["observedGeneration"], 1);
  EXPECT_EQ(pool["status"]["labelSelector"], "app=web");
  EXPECT_EQ(pool["metadata"]["finalizers"], Json::array({finalizer}));
}

TEST(Pool, MachinesCarryTheTemplateTheRevisionAndOneOwner) {
  World world;
  world.create_pool("web", 1,
                    {{"virtualMachineTemplate", {{"metadata", {{"annotations", {{"a", "b"}}}}}}}});
  world.settle();
  const Json machine = world.get(api::machine_kind, "web-0");
  EXPECT_EQ(machine["metadata"]["labels"], (Json{{"app", "web"}, {revision_label, "web-1"}}));
  EXPECT_EQ(machine["metadata"]["annotations"]["a"], "b");
  EXPECT_THAT(machine["metadata"]["finalizers"], Contains(finalizer));
  EXPECT_EQ(machine["spec"]["template"]["metadata"]["labels"][revision_label], "web-1");
  EXPECT_EQ(world.get(api::instance_kind, "web-0")["metadata"]["labels"][revision_label], "web-1");
  ASSERT_THAT(machine["metadata"]["ownerReferences"], SizeIs(1));
  const Json owner = machine["metadata"]["ownerReferences"][0];
  EXPECT_EQ(owner["apiVersion"], "pool.kubevirt.io/v1beta1");
  EXPECT_EQ(owner["kind"], "VirtualMachinePool");
  EXPECT_EQ(owner["uid"], world.pool("web")["metadata"]["uid"]);
  EXPECT_EQ(owner["controller"], true);
  EXPECT_EQ(owner["blockOwnerDeletion"], true);
}

TEST(Pool, AbsentReplicasMeansOneAndIsNotWrittenBack) {
  World world;
  world.create_pool("web", 1, {{"replicas", nullptr}});
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_FALSE(world.pool("web")["spec"].contains("replicas"));
}

TEST(Pool, NothingToDoWritesNothing) {
  World world;
  world.create_pool("web", 3);
  world.settle();
  const auto rows = world.committer->rows;
  world.crash();
  world.boot();
  world.advance(minutes(30));
  // A start of the daemon looks at everything.
  EXPECT_LE(world.committer->rows, 3u) << rows;
}

TEST(Pool, GapsAreFilledAndForeignNamesSkipped) {
  World world;
  world.create_machine("web-1", {{"runStrategy", "Halted"}});
  world.create_pool("web", 3);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2", "web-3"));
  EXPECT_FALSE(world.get(api::machine_kind, "web-1")["metadata"].contains("ownerReferences"));
  EXPECT_EQ(world.pool("web")["status"]["replicas"], 3);
}

TEST(Pool, MatchingOrphansAreNeitherCountedNorAdopted) {
  World world;
  Json orphan = machine("lonely");
  orphan["metadata"]["labels"] = {{"app", "web"}};
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachines", orphan);
  world.create_pool("web", 2);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("lonely", "web-0", "web-1"));
  EXPECT_FALSE(world.get(api::machine_kind, "lonely")["metadata"].contains("ownerReferences"));
}

TEST(Pool, MoreThanABurstIsMadeInBatches) {
  World world({.burst = 10});
  world.create_pool("web", 25);
  world.settle();
  EXPECT_EQ(world.host.alive(), 25u);
  scale_pool(world, "web", 2);
  world.settle();
  EXPECT_EQ(world.host.alive(), 2u);
}

TEST(Pool, DeletedMachineComesBackUnderItsNameOnceItIsGone) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_pool("web", 3);
  world.settle();
  const std::string before = uid_of(world, "web-1");
  world.remove(api::machine_kind, "web-1");
  world.settle();
  // KubeVirt: those that are being deleted count.
  EXPECT_EQ(uid_of(world, "web-1"), before);
  EXPECT_THAT(world.machine_names(), SizeIs(3));
  EXPECT_EQ(world.pool("web")["status"]["replicas"], 3);
  for (int second = 0; second < 35; ++second) {
    world.advance(seconds(1));
    EXPECT_LE(world.host.alive(), 3u);
  }
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
  EXPECT_NE(uid_of(world, "web-1"), before);
  EXPECT_EQ(world.host.alive(), 3u);
}

// ---- detaching ----

TEST(Pool, DetachedMachineRunsOnAndIsReplacedUnderAnotherName) {
  World world;
  world.create_pool("web", 3);
  world.settle();
  const std::string uid = uid_of(world, "web-1");
  const std::string guest = world.get(api::instance_kind, "web-1")["metadata"]["uid"];
  world.patch(api::machine_kind, "web-1", {{"metadata", {{"ownerReferences", nullptr}}}});
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2", "web-3"));
  EXPECT_EQ(uid_of(world, "web-1"), uid);
  EXPECT_EQ(world.get(api::instance_kind, "web-1")["metadata"]["uid"], guest);
  EXPECT_EQ(world.host.alive(), 4u);
  EXPECT_EQ(world.pool("web")["status"]["replicas"], 3);
}

// KubeVirt leaves its finalizer on it, so that it cannot be deleted any more.
TEST(Pool, DetachedMachineCanBeDeleted) {
  World world;
  world.create_pool("web", 2);
  world.settle();
  world.patch(api::machine_kind, "web-0", {{"metadata", {{"ownerReferences", nullptr}}}});
  world.settle();
  EXPECT_THAT(world.get(api::machine_kind, "web-0")["metadata"]["finalizers"],
              Not(Contains(finalizer)));
  world.remove(api::machine_kind, "web-0");
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-1", "web-2"));
}

TEST(Pool, MachineDetachedWhileTheDaemonWasDownCanBeDeleted) {
  World world;
  world.create_pool("web", 1);
  world.settle();
  // The detaching is durable, what follows from it is not.
  world.committer->last_commit = world.committer->commits + 1;
  world.store->write(
      {api::kubevirt_group, api::machine_kind, "default", "web-0"},
      [](const store::Object* current) {
        Json document = *current->document();
        document["metadata"].erase("ownerReferences");
        return store::Store::Mutation::put(document);
      },
      nullptr);
  world.settle();
  world.crash();
  world.boot();
  world.settle();
  EXPECT_THAT(world.get(api::machine_kind, "web-0")["metadata"]["finalizers"],
              Not(Contains(finalizer)));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
}

// KubeVirt's patch is no valid JSON if there is another finalizer, which there normally is.
TEST(Pool, RelabelledMachineIsReleasedWithTheFinalizersOfOthers) {
  World world;
  world.create_pool("web", 2);
  world.settle();
  world.patch(api::machine_kind, "web-0", {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.settle();
  const Json released = world.get(api::machine_kind, "web-0")["metadata"];
  EXPECT_FALSE(released.contains("ownerReferences"));
  EXPECT_THAT(released["finalizers"], ElementsAre("kubevirt.io/virtualMachineControllerFinalize"));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
  EXPECT_EQ(world.host.alive(), 3u);
  EXPECT_THAT(world.events(api::pool_kind),
              Contains(HasSubstr("SuccessfulRelease: Released VM default/web-0")));
}

// ---- scale-in ----

TEST(Pool, DescendingOrderKeepsTheLowest) {
  World world;
  world.create_pool("web", 5, sorted_by("DescendingOrder"));
  world.settle();
  const std::string victim = uid_of(world, "web-4");
  scale_pool(world, "web", 2);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  EXPECT_THAT(
      world.events(api::pool_kind),
      Contains("SuccessfulDelete: Deleted VM default/web-4 with uid " + victim + " from pool"));
  scale_pool(world, "web", 3);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
}

TEST(Pool, NamedVictimGoesFirst) {
  World world;
  world.create_pool("web", 4, sorted_by("DescendingOrder"));
  world.settle();
  world.patch(
      api::machine_kind, "web-1",
      {{"metadata", {{"annotations", {{"controller.kubernetes.io/pod-deletion-cost", "-1"}}}}}});
  scale_pool(world, "web", 3);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-2", "web-3"));
}

TEST(Pool, RandomScaleInTakesThoseThatAreNotReady) {
  World world;
  world.create_pool("web", 4);
  world.settle();
  world.hypervisor->pause(world.uuid_of("web-2"), hypervisor::PauseReason::user);
  world.settle();
  scale_pool(world, "web", 3);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-3"));
}

// KubeVirt slices past the end of what is left, and panics.
TEST(Pool, SelectorsThatLeaveTooFewAreNoReasonToFail) {
  World world;
  world.create_pool(
      "web", 4,
      strategy({{"proactive",
                 {{"selectionPolicy",
                   {{"selectors", {{"labelSelector", {{"matchLabels", {{"tier", "old"}}}}}}}}}}}}));
  world.settle();
  world.patch(api::machine_kind, "web-3",
              {{"spec", {{"template", {{"metadata", {{"labels", {{"tier", "old"}}}}}}}}}});
  world.settle();
  scale_pool(world, "web", 1);
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1", "web-2"));
  EXPECT_EQ(world.pool("web")["status"]["replicas"], 3);
  EXPECT_TRUE(api::find_condition(world.pool("web")["status"], "ReplicaFailure").is_null());
}

TEST(Pool, UnmanagedAndOpportunisticScaleInDeleteNothing) {
  for (const char* mode : {"unmanaged", "opportunistic"}) {
    World world;
    world.create_pool("web", 3, strategy({{mode, Json::object()}}));
    world.settle();
    scale_pool(world, "web", 1);
    world.settle();
    EXPECT_THAT(world.machine_names(), SizeIs(3)) << mode;
    // KubeVirt keeps its finalizer on what somebody deletes now.
    world.remove(api::machine_kind, "web-1");
    world.settle();
    EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-2")) << mode;
  }
}

// KubeVirt lets it hang if the deletions of others cover the difference.
TEST(Pool, DeletionByHandCountsAsScaleInAndDoesNotHang) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_pool("web", 3, sorted_by("AscendingOrder"));
  world.settle();
  world.remove(api::machine_kind, "web-2");
  world.settle();
  scale_pool(world, "web", 2);
  world.advance(seconds(40));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
}

TEST(Pool, ScaleStormEndsAtCount) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_pool("web", 0);
  for (const int replicas : {20, 5, 12}) {
    scale_pool(world, "web", replicas);
    world.scheduler.run();
  }
  for (int second = 0; second < 80; ++second) {
    world.advance(seconds(1));
    EXPECT_LE(world.host.alive(), 20u);
  }
  EXPECT_EQ(world.host.alive(), 12u);
  EXPECT_THAT(world.machine_names(), SizeIs(12));
}

// ---- pause, failure, deletion ----

TEST(Pool, PausedDoesNothingButTellTheNumbers) {
  World world;
  world.create_pool("web", 2);
  world.settle();
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", true}}}});
  world.settle();
  const Json condition = api::find_condition(world.pool("web")["status"], "ReplicaPaused");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "SuccessfulPaused");
  EXPECT_EQ(condition["message"], "Pool controller is paused");
  scale_pool(world, "web", 5);
  // Not even this keeps a deleted machine from going.
  world.remove(api::machine_kind, "web-0");
  world.settle();
  EXPECT_THAT(world.machine_names(), ElementsAre("web-1"));
  EXPECT_EQ(world.pool("web")["status"]["replicas"], 1);
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", false}}}});
  world.settle();
  EXPECT_TRUE(api::find_condition(world.pool("web")["status"], "ReplicaPaused").is_null());
  EXPECT_THAT(world.machine_names(), SizeIs(5));
  EXPECT_THAT(world.events(api::pool_kind),
              testing::AllOf(Contains("SuccessfulPaused: Pool is paused"),
                             Contains("SuccessfulResume: Pool is unpaused")));
}

TEST(Pool, FailedCreationIsAConditionAndMendsItself) {
  World world;
  // Of another pool of this name, which nobody cleans up.
  Json taken{{"apiVersion", "apps/v1"},
             {"kind", "ControllerRevision"},
             {"metadata", {{"name", "web-1"}}},
             {"revision", 1}};
  int status = 0;
  world.request("POST", "/apis/apps/v1/namespaces/default/controllerrevisions", taken, &status);
  ASSERT_EQ(status, 201);
  world.create_pool("web", 2);
  world.settle();
  const Json condition = api::find_condition(world.pool("web")["status"], "ReplicaFailure");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "FailedScaleOut");
  EXPECT_THAT(condition["message"].get<std::string>(),
              HasSubstr("error during scale out: the ControllerRevision web-1"));
  EXPECT_THAT(world.events(api::pool_kind),
              testing::AllOf(Contains(HasSubstr("FailedScaleOut: error during scale out: ")),
                             Contains(HasSubstr("FailedCreate: Error creating VM: "))));
  const auto rows = world.committer->rows;
  world.advance(minutes(5));
  EXPECT_LT(world.committer->rows - rows, 40u);  // ever more slowly
  EXPECT_EQ(api::find_condition(world.pool("web")["status"], "ReplicaFailure"), condition);
  world.request("DELETE", "/apis/apps/v1/namespaces/default/controllerrevisions/web-1");
  world.advance(minutes(2));
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_TRUE(api::find_condition(world.pool("web")["status"], "ReplicaFailure").is_null());
}

TEST(Pool, DeletionTakesTheMachinesAlong) {
  World world;
  world.create_pool("web", 3);
  world.settle();
  world.remove(api::pool_kind, "web");
  world.settle();
  EXPECT_EQ(world.pool("web"), Json());
  EXPECT_THAT(world.machine_names(), IsEmpty());
  EXPECT_THAT(world.instances(), IsEmpty());
  EXPECT_THAT(revisions(world), IsEmpty());
  EXPECT_EQ(world.host.domains.size(), 0u);
}

TEST(Pool, ForegroundDeletionWaitsForTheMachines) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_pool("web", 2);
  world.settle();
  world.remove(api::pool_kind, "web", "Foreground");
  world.settle();
  EXPECT_TRUE(world.pool("web")["metadata"].contains("deletionTimestamp"));
  EXPECT_THAT(world.machine_names(), SizeIs(2));
  world.advance(seconds(35));
  EXPECT_EQ(world.pool("web"), Json());
  EXPECT_THAT(world.machine_names(), IsEmpty());
}

TEST(Pool, OrphanedMachinesRunOnAndCanBeDeleted) {
  World world;
  world.create_pool("web", 2);
  world.settle();
  const int starts = world.host.starts;
  world.remove(api::pool_kind, "web", "Orphan");
  world.settle();
  EXPECT_EQ(world.pool("web"), Json());
  EXPECT_THAT(revisions(world), IsEmpty());
  EXPECT_THAT(world.machine_names(), SizeIs(2));
  for (const std::string& name : world.machine_names()) {
    const Json metadata = world.get(api::machine_kind, name)["metadata"];
    EXPECT_FALSE(metadata.contains("ownerReferences"));
    EXPECT_THAT(metadata["finalizers"], Not(Contains(finalizer)));
    world.remove(api::machine_kind, name);
  }
  EXPECT_EQ(world.host.starts, starts);
  world.settle();
  EXPECT_THAT(world.machine_names(), IsEmpty());
}

// KubeVirt drops them when it adds its own.
TEST(Pool, FinalizersOfOthersStay) {
  World world;
  Json body = pool("web", 1);
  body["metadata"]["finalizers"] = {"example.org/mine"};
  world.request("POST", "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools",
                body);
  world.settle();
  EXPECT_THAT(world.pool("web")["metadata"]["finalizers"],
              ElementsAre("example.org/mine", finalizer));
  world.remove(api::pool_kind, "web");
  world.settle();
  EXPECT_THAT(world.pool("web")["metadata"]["finalizers"], ElementsAre("example.org/mine"));
}

TEST(Pool, NotesCopiedIntoTheTemplateMakeNoSurge) {
  World world;
  const Json notes{{"virtset.io/surge", "true"},
                   {"virtset.io/state-preservation", "Online"},
                   {"virtset.io/save-state", "x"},
                   {"virtset.io/restore-state", "x"},
                   {"a", "b"}};
  world.create_pool("web", 2,
                    {{"virtualMachineTemplate", {{"metadata", {{"annotations", notes}}}}}});
  world.advance(seconds(30));
  EXPECT_THAT(world.machine_names(), ElementsAre("web-0", "web-1"));
  EXPECT_EQ(world.get(api::machine_kind, "web-0")["metadata"]["annotations"], (Json{{"a", "b"}}));
  world.patch(
      api::pool_kind, "web",
      {{"spec", {{"virtualMachineTemplate", {{"metadata", {{"annotations", {{"a", "c"}}}}}}}}}});
  world.advance(seconds(30));
  EXPECT_EQ(world.get(api::machine_kind, "web-0")["metadata"]["annotations"], (Json{{"a", "c"}}));
}

}  // namespace
}  // namespace virtset::test
