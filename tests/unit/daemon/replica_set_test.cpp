// The parity checks of KubeVirt's replica set controller, and what is promised beyond them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using api::member;
using std::chrono::minutes;
using std::chrono::seconds;
using store::Json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

int count(const World& world, const std::string& phase) {
  int result = 0;
  for (const Json& instance : world.instances()) {
    if (member(instance, "status", "phase") == phase) ++result;
  }
  return result;
}

TEST(ReplicaSet, CreatesWhatIsMissing) {
  World world;
  world.create_set("web", 3);
  world.settle();
  EXPECT_EQ(count(world, "Running"), 3);
  EXPECT_EQ(world.host.alive(), 3u);
  const Json status = world.set("web")["status"];
  EXPECT_EQ(status["replicas"], 3);
  EXPECT_EQ(status["readyReplicas"], 3);
  EXPECT_EQ(status["labelSelector"], "app=web");
  EXPECT_FALSE(status.contains("conditions"));
}

TEST(ReplicaSet, AbsentReplicasMeansOneAndIsNotWrittenBack) {
  World world;
  world.create_set("web", 1, {{"replicas", nullptr}});
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_FALSE(world.set("web")["spec"].contains("replicas"));
}

TEST(ReplicaSet, InstancesCarryTheTemplateAndOneOwner) {
  World world;
  world.create_set(
      "web", 1, {{"template", {{"metadata", {{"name", "test"}, {"annotations", {{"a", "b"}}}}}}}});
  world.settle();
  const Json instance = world.instances().at(0);
  // KubeVirt: no dash between the base and the random part.
  EXPECT_THAT(instance["metadata"]["name"].get<std::string>(),
              testing::MatchesRegex("test[a-z0-9]{5}"));
  EXPECT_EQ(instance["metadata"]["labels"]["app"], "web");
  EXPECT_EQ(instance["metadata"]["annotations"]["a"], "b");
  ASSERT_THAT(instance["metadata"]["ownerReferences"], SizeIs(1));
  const Json owner = instance["metadata"]["ownerReferences"][0];
  EXPECT_EQ(owner["apiVersion"], "kubevirt.io/v1");
  EXPECT_EQ(owner["uid"], world.set("web")["metadata"]["uid"]);
  EXPECT_EQ(owner["controller"], true);
  EXPECT_EQ(owner["blockOwnerDeletion"], true);
}

// Facts 1.7: wanted 10, 3 active and 3 deleting: 7 creations in one pass.
TEST(ReplicaSet, DeletingOnesAreReplacedAtOnce) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_set("web", 6);
  world.settle();
  const auto names = world.instance_names();
  for (int i = 0; i < 3; ++i) world.remove(api::instance_kind, names[i]);
  EXPECT_THAT(world.instances(), SizeIs(9));
  world.scale("web", 10);
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(13));
  EXPECT_EQ(world.set("web")["status"]["replicas"], 10);
}

// Facts 1.7: wanted 3, 5 active and 4 deleting: exactly 2 deletions.
TEST(ReplicaSet, CountsOnlyActiveOnesWhenItShrinks) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_set("web", 5);
  world.settle();
  const auto names = world.instance_names();
  for (int i = 0; i < 4; ++i) world.remove(api::instance_kind, names[i]);
  ASSERT_THAT(world.instances(), SizeIs(9));
  world.scale("web", 3);
  world.settle();
  // Two of the four replacements, which still waited for a slot, are gone again.
  int deleting = 0;
  for (const Json& instance : world.instances()) {
    deleting += instance["metadata"].contains("deletionTimestamp") ? 1 : 0;
  }
  EXPECT_EQ(deleting, 4);
  EXPECT_THAT(world.instances(), SizeIs(7));
  EXPECT_EQ(world.set("web")["status"]["replicas"], 3);
}

// Facts 1.7: wanted 15, burst 10: 10 creations, and the status still says 0.
TEST(ReplicaSet, CreatesInBursts) {
  World world({.burst = 10});
  world.committer->held = true;
  int status = 0;
  const Json body = replica_set("web", 15);
  api::Request request{.method = "POST",
                       .path =
                           "/apis/kubevirt.io/v1/namespaces/default/"
                           "virtualmachineinstancereplicasets",
                       .content_type = "application/json",
                       .body = body.dump()};
  world.rest->handle(request, [&](api::Response response) { status = response.status; });
  world.scheduler.run();
  world.committer->release();
  world.scheduler.run();
  EXPECT_EQ(status, 201);
  // The pass has ordered its creations and its status; neither is durable yet.
  world.committer->release();
  world.scheduler.run();
  EXPECT_THAT(world.instances(), SizeIs(10));
  EXPECT_EQ(member(world.set("web"), "status", "replicas"), Json());
  world.committer->held = false;
  world.committer->release();
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(15));
}

TEST(ReplicaSet, FinishedOnesAreReplacedAndRemovedInOnePass) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const std::string victim = world.instance_names().at(0);
  world.hypervisor->power_off_guest(world.uuid_of(victim));
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(2));
  EXPECT_EQ(world.get(api::instance_kind, victim), Json());
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_THAT(world.events(api::replica_set_kind),
              Contains(HasSubstr("SuccessfulDelete: Deleted finished virtual machine: ")));
}

TEST(ReplicaSet, DeadProcessIsReplacedBeforeLibvirtNotices) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const std::string victim = world.instance_names().at(0);
  const std::string uuid = world.uuid_of(victim);
  world.hypervisor->kill_process(uuid);
  world.settle();
  // The old one is still there for libvirt, the new one runs already.
  EXPECT_EQ(world.host.domains.size(), 3u);
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_EQ(world.set("web")["status"]["replicas"], 2);
  world.hypervisor->notice_death(uuid);
  world.settle();
  EXPECT_EQ(world.get(api::instance_kind, victim), Json());
  EXPECT_THAT(world.instances(), SizeIs(2));
}

TEST(ReplicaSet, NothingToDoWritesNothing) {
  World world;
  world.create_set("web", 3);
  world.settle();
  const auto rows = world.committer->rows;
  world.instance_controller->surroundings_changed();
  world.hypervisor->relist();
  world.settle();
  EXPECT_EQ(world.committer->rows, rows);
}

TEST(ReplicaSet, ReadinessAloneChangesOnlyTheStatus) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const std::string uuid = world.uuid_of(world.instance_names().at(0));
  world.hypervisor->pause(uuid, hypervisor::PauseReason::user);
  world.settle();
  const Json status = world.set("web")["status"];
  // KubeVirt: a paused instance is not ready and stays active.
  EXPECT_EQ(status["replicas"], 2);
  EXPECT_EQ(status["readyReplicas"], 1);
  EXPECT_THAT(world.instances(), SizeIs(2));
  world.hypervisor->resume(uuid);
  world.settle();
  EXPECT_EQ(world.set("web")["status"]["readyReplicas"], 2);
}

TEST(ReplicaSet, FailedCreationIsACondition) {
  World world;
  // Admission of the set does not look at memory; that of the instance does.
  world.create_set("web", 2, {{"template", {{"spec", {{"domain", {{"memory", nullptr}}}}}}}});
  world.settle();
  const Json condition = api::find_condition(world.set("web")["status"], "ReplicaFailure");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "FailedCreate");
  EXPECT_THAT(condition["message"].get<std::string>(), HasSubstr("no memory requested"));
  EXPECT_THAT(world.events(api::replica_set_kind),
              Contains(HasSubstr("FailedCreate: Error creating virtual machine instance: ")));
  // The same text each time, so that they are one event that is counted.
  EXPECT_THAT(condition["message"].get<std::string>(),
              HasSubstr("\"web\" is invalid: spec.domain.memory.guest"));
  // It goes on failing; the condition keeps its first message and time.
  world.advance(seconds(5));
  EXPECT_EQ(api::find_condition(world.set("web")["status"], "ReplicaFailure"), condition);
  // Mended by hand: the condition is removed, not set to false.
  world.request(
      "PATCH", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets/web",
      {{"spec", {{"template", {{"spec", {{"domain", {{"memory", {{"guest", "64Mi"}}}}}}}}}}}},
      nullptr, "application/merge-patch+json");
  world.settle();
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_FALSE(world.set("web")["status"].contains("conditions"));
}

TEST(ReplicaSet, FailuresAreRetriedEverMoreSlowly) {
  World world;
  world.create_set("web", 1, {{"template", {{"spec", {{"domain", {{"memory", nullptr}}}}}}}});
  world.settle();
  const auto rows = world.committer->rows;
  world.advance(std::chrono::minutes(10));
  // A hot loop would write thousands of events.
  EXPECT_LT(world.committer->rows - rows, 60u);
}

TEST(ReplicaSet, PausedDoesNothingButTellTheNumbers) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const std::string path =
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets/web";
  world.request("PATCH", path, {{"spec", {{"paused", true}}}}, nullptr,
                "application/merge-patch+json");
  world.settle();
  const Json conditions = world.set("web")["status"]["conditions"];
  ASSERT_THAT(conditions, SizeIs(1));
  EXPECT_EQ(conditions[0]["type"], "ReplicaPaused");
  EXPECT_EQ(conditions[0]["reason"], "Paused");
  EXPECT_EQ(conditions[0]["message"], "Controller got paused");
  world.scale("web", 5);
  world.hypervisor->power_off_guest(world.uuid_of(world.instance_names().at(0)));
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(2));
  EXPECT_EQ(world.set("web")["status"]["replicas"], 1);
  EXPECT_EQ(world.set("web")["status"]["readyReplicas"], 1);
  world.request("PATCH", path, {{"spec", {{"paused", false}}}}, nullptr,
                "application/merge-patch+json");
  world.settle();
  EXPECT_FALSE(world.set("web")["status"].contains("conditions"));
  EXPECT_EQ(world.host.alive(), 5u);
  EXPECT_THAT(
      world.events(api::replica_set_kind),
      testing::AllOf(Contains("SuccessfulPaused: Paused"), Contains("SuccessfulResumed: Resumed")));
}

TEST(ReplicaSet, ShrinksByTheNotReadyFirstAndThenTheNewest) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const auto oldest = world.instance_names();
  world.advance(seconds(2));
  world.scale("web", 4);
  world.advance(seconds(2));
  // One of the oldest is not ready.
  world.hypervisor->pause(world.uuid_of(oldest[0]), hypervisor::PauseReason::user);
  world.settle();
  world.scale("web", 3);
  world.settle();
  EXPECT_EQ(world.get(api::instance_kind, oldest[0]), Json());
  world.scale("web", 1);
  world.settle();
  EXPECT_THAT(world.instance_names(), testing::ElementsAre(oldest[1]));
}

// It is deleted, and replaced, before libvirt has said how it ended.
TEST(ReplicaSet, CrashedReplicaIsSeenAsFailedBeforeItGoes) {
  World world;
  world.create_set("web", 1);
  world.settle();
  const std::string name = world.instance_names().at(0);
  const std::string uuid = world.uuid_of(name);
  const store::Revision before = world.store->revision();
  world.hypervisor->kill_process(uuid);
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(2));
  world.hypervisor->notice_death(uuid);
  world.settle();
  std::vector<std::string> phases;
  const store::WatchFeed& feed = world.store->feed();
  for (const auto* change = feed.next_after(before); change;
       change = feed.next_after(change->revision())) {
    if (change->object->key().name != name) continue;
    const auto document = change->object->document();
    const std::string phase = (*document)["status"]["phase"];
    if (phases.empty() || phases.back() != phase) phases.push_back(phase);
  }
  EXPECT_THAT(phases, ElementsAre("Running", "Failed"));
}

TEST(ReplicaSet, AdoptsMatchingOrphansAndReleasesOthers) {
  World world;
  Json orphan = instance("orphan");
  orphan["metadata"]["labels"] = {{"app", "web"}};
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", orphan);
  world.settle();
  world.create_set("web", 2);
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(2));
  EXPECT_EQ(world.get(api::instance_kind, "orphan")["metadata"]["ownerReferences"][0]["name"],
            "web");
  // Relabelled: it is let go, runs on, and is replaced.
  world.request("PATCH", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/orphan",
                {{"metadata", {{"labels", {{"app", "other"}}}}}}, nullptr,
                "application/merge-patch+json");
  world.settle();
  const Json released = world.get(api::instance_kind, "orphan");
  EXPECT_FALSE(released["metadata"].contains("ownerReferences"));
  EXPECT_EQ(released["status"]["phase"], "Running");
  EXPECT_THAT(world.events(api::replica_set_kind),
              Contains(HasSubstr("SuccessfulRelease: Released virtual machine instance orphan")));
  EXPECT_THAT(world.instances(), SizeIs(3));
  EXPECT_EQ(world.host.alive(), 3u);
}

TEST(ReplicaSet, AdoptsAndReleasesWhenTheCommitHasFailed) {
  World world;
  const auto orphan_owned = [&] {
    return world.get(api::instance_kind, "orphan")["metadata"].contains("ownerReferences");
  };
  const auto failure = [&] {
    return api::find_condition(world.set("web")["status"], "ReplicaFailure");
  };
  bool refuse_owned = true;
  int refusals = 0;
  const auto refuse = [&](const store::Row& row) {
    const Json owner = api::controller_of(*row.object->document());
    const bool refused = row.object->key().name == "orphan" && owner.is_null() != refuse_owned;
    refusals += refused ? 1 : 0;
    return refused;
  };
  Json orphan = instance("orphan");
  orphan["metadata"]["labels"] = {{"app", "web"}};
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", orphan);
  world.settle();
  world.committer->refuse = refuse;
  world.create_set("web", 2);
  world.advance(seconds(5));
  EXPECT_GT(refusals, 1);
  EXPECT_FALSE(orphan_owned());
  EXPECT_THAT(world.instances(), SizeIs(1));  // none is made in its place
  EXPECT_EQ(failure()["reason"], "FailedUpdate");
  world.committer->refuse = nullptr;
  world.advance(minutes(2));
  EXPECT_TRUE(orphan_owned());
  EXPECT_TRUE(failure().is_null());
  EXPECT_THAT(world.instances(), SizeIs(2));

  world.patch(api::instance_kind, "orphan", {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.settle();
  EXPECT_FALSE(orphan_owned());
  world.patch(api::instance_kind, "orphan", {{"metadata", {{"labels", {{"app", "web"}}}}}});
  world.settle();
  EXPECT_TRUE(orphan_owned());
  refuse_owned = false;
  refusals = 0;
  world.committer->refuse = refuse;
  world.patch(api::instance_kind, "orphan", {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.advance(seconds(5));
  EXPECT_GT(refusals, 1);
  EXPECT_TRUE(orphan_owned());
  world.committer->refuse = nullptr;
  world.advance(minutes(2));
  EXPECT_FALSE(orphan_owned());
  EXPECT_TRUE(failure().is_null());
}

// Scaling counts those that belong to it.
TEST(ReplicaSet, ReleaseThatHasFailedComesBeforeScaling) {
  World world;
  world.create_set("web", 3);
  world.settle();
  const auto names = world.instance_names();
  world.committer->refuse = [&](const store::Row& row) {
    return row.object->key().name == names[0] &&
           api::controller_of(*row.object->document()).is_null();
  };
  world.patch(api::instance_kind, names[0], {{"metadata", {{"labels", {{"app", "other"}}}}}});
  world.advance(seconds(20));
  EXPECT_EQ(world.instance_names(), names);
  world.committer->refuse = nullptr;
  world.scale("web", 2);
  world.settle();
  EXPECT_EQ(world.instance_names(), names);
  EXPECT_FALSE(world.get(api::instance_kind, names[0])["metadata"].contains("ownerReferences"));
  EXPECT_EQ(world.host.alive(), 3u);
}

TEST(ReplicaSet, AdoptsAFinishedOrphanAndRemovesIt) {
  World world;
  Json orphan = instance("orphan");
  orphan["metadata"]["labels"] = {{"app", "web"}};
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", orphan);
  world.settle();
  world.hypervisor->power_off_guest(world.uuid_of("orphan"));
  world.settle();
  EXPECT_EQ(world.get(api::instance_kind, "orphan")["status"]["phase"], "Succeeded");
  world.create_set("web", 1);
  world.settle();
  EXPECT_EQ(world.get(api::instance_kind, "orphan"), Json());
  EXPECT_EQ(world.host.alive(), 1u);
}

TEST(ReplicaSet, TwoSetsOfOneSelectorDoNotFight) {
  World world;
  world.create_set("one", 2,
                   {{"selector", {{"matchLabels", {{"app", "x"}}}}},
                    {"template", {{"metadata", {{"labels", {{"app", "x"}}}}}}}});
  world.create_set("two", 3,
                   {{"selector", {{"matchLabels", {{"app", "x"}}}}},
                    {"template", {{"metadata", {{"labels", {{"app", "x"}}}}}}}});
  world.settle();
  world.advance(seconds(30));
  EXPECT_EQ(world.host.alive(), 5u);
  EXPECT_EQ(world.host.starts, 5);
  EXPECT_EQ(world.set("one")["status"]["replicas"], 2);
  EXPECT_EQ(world.set("two")["status"]["replicas"], 3);
}

TEST(ReplicaSet, StoredSelectorThatCannotMatchIsLeftAlone) {
  World world;
  // Admission refuses it, so it is put into the store from behind.
  Json bad = replica_set("bad", 2);
  bad["metadata"].merge_patch({{"namespace", "default"},
                               {"uid", "u"},
                               {"generation", 1},
                               {"creationTimestamp", "2026-01-01T00:00:00Z"}});
  bad["spec"]["selector"]["matchLabels"]["app"] = "other";
  world.store->write(
      {api::kubevirt_group, api::replica_set_kind, "default", "bad"},
      [&](const store::Object*) { return store::Store::Mutation::put(bad); }, nullptr);
  world.settle();
  world.advance(seconds(60));
  EXPECT_THAT(world.instances(), SizeIs(0));
  EXPECT_FALSE(world.set("bad").contains("status"));
}

TEST(ReplicaSet, DeletionTakesTheInstancesAlong) {
  World world;
  world.create_set("web", 3);
  world.settle();
  world.remove(api::replica_set_kind, "web");
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(0));
  EXPECT_EQ(world.host.domains.size(), 0u);
}

TEST(ReplicaSet, ForegroundDeletionWaitsForTheInstances) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_set("web", 2);
  world.settle();
  world.remove(api::replica_set_kind, "web", "Foreground");
  world.settle();
  EXPECT_TRUE(world.set("web")["metadata"].contains("deletionTimestamp"));
  world.advance(seconds(29));
  EXPECT_TRUE(world.set("web").is_object());
  // A deleting set neither scales nor replaces.
  EXPECT_THAT(world.instances(), SizeIs(2));
  world.advance(seconds(3));
  EXPECT_EQ(world.set("web"), Json());
  EXPECT_THAT(world.instances(), SizeIs(0));
}

TEST(ReplicaSet, OrphaningLeavesTheInstancesWithoutOwner) {
  World world;
  world.create_set("web", 2);
  world.settle();
  const int starts = world.host.starts;
  world.remove(api::replica_set_kind, "web", "Orphan");
  world.settle();
  EXPECT_EQ(world.set("web"), Json());
  ASSERT_THAT(world.instances(), SizeIs(2));
  for (const Json& instance : world.instances()) {
    EXPECT_FALSE(instance["metadata"].contains("ownerReferences"));
    EXPECT_EQ(instance["status"]["phase"], "Running");
  }
  EXPECT_EQ(world.host.starts, starts);
}

// ---- what is promised beyond KubeVirt ----

// P1: a replacement exists at once, and starts only when the old one has ended.
TEST(ReplicaSet, NeverHasMoreDomainsThanReplicas) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_set("web", 3);
  world.settle();
  for (const std::string& name : world.instance_names()) world.remove(api::instance_kind, name);
  world.settle();
  EXPECT_THAT(world.instances(), SizeIs(6));
  EXPECT_EQ(world.host.domains.size(), 3u);
  EXPECT_EQ(count(world, "Pending"), 3);
  for (int second = 0; second < 40; ++second) {
    world.advance(seconds(1));
    EXPECT_LE(world.host.alive(), 3u);
  }
  EXPECT_THAT(world.instances(), SizeIs(3));
  EXPECT_EQ(world.host.alive(), 3u);
}

TEST(ReplicaSet, ScaleStormEndsAtCount) {
  World world;
  world.hypervisor->guests_obey = false;
  world.create_set("web", 0);
  for (const int replicas : {20, 5, 12}) {
    world.scale("web", replicas);
    world.scheduler.run();
  }
  for (int second = 0; second < 40; ++second) {
    world.advance(seconds(1));
    EXPECT_LE(world.host.alive(), 20u);
  }
  EXPECT_EQ(world.host.alive(), 12u);
  EXPECT_THAT(world.instances(), SizeIs(12));
  EXPECT_EQ(world.images.disks.size(), 0u);
}

TEST(ReplicaSet, CrashLoopBacksOffAndForgives) {
  World world;
  world.create_set("web", 1);
  world.settle();
  const auto crash = [&] {
    const std::string name = world.instance_names().at(0);
    world.hypervisor->power_off_guest(world.uuid_of(name));
    world.settle();
  };
  world.advance(seconds(2));
  crash();  // the first is replaced at once
  EXPECT_EQ(world.host.starts, 2);
  world.advance(seconds(2));
  crash();
  EXPECT_EQ(world.host.starts, 2);
  EXPECT_EQ(world.set("web")["status"]["startFailure"]["consecutiveFailCount"], 2);
  EXPECT_THAT(world.events(api::replica_set_kind), Contains(HasSubstr("BackOff: ")));
  world.advance(seconds(8));
  EXPECT_EQ(world.host.starts, 2);
  // A restart of the daemon does not get around it.
  world.crash();
  world.boot();
  EXPECT_EQ(world.host.starts, 2);
  world.advance(seconds(4));
  EXPECT_EQ(world.host.starts, 3);
  world.advance(seconds(2));
  crash();
  world.advance(seconds(17));
  EXPECT_EQ(world.host.starts, 3);
  world.advance(seconds(5));
  EXPECT_EQ(world.host.starts, 4);
  // It stays up: forgiven.
  world.advance(seconds(90));
  EXPECT_FALSE(world.set("web")["status"].contains("startFailure"));
  crash();
  EXPECT_EQ(world.host.starts, 5);
}

TEST(ReplicaSet, ReplicasThatCrashTogetherHaveFailedOnce) {
  World world;
  world.create_set("web", 10);
  world.settle();
  world.advance(seconds(3));
  for (const std::string& name : world.instance_names()) {
    world.hypervisor->power_off_guest(world.uuid_of(name));
  }
  world.settle();
  EXPECT_EQ(world.set("web")["status"]["startFailure"]["consecutiveFailCount"], 1);
  EXPECT_EQ(world.host.alive(), 10u);
}

TEST(ReplicaSet, LongLivedReplicasAreReplacedAtOnceHoweverOften) {
  World world;
  world.create_set("web", 3);
  world.settle();
  world.advance(seconds(120));
  for (const std::string& name : world.instance_names()) {
    world.hypervisor->power_off_guest(world.uuid_of(name));
    world.settle();
    EXPECT_EQ(world.host.alive(), 3u);
  }
  EXPECT_FALSE(world.set("web")["status"].contains("startFailure"));
}

}  // namespace
}  // namespace virtset::test
