// Pools that get a new template: within maxUnavailable, gated by readiness, and back again.

#include "api/kinds/conditions.h"
#include "api/kinds/lifecycle.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class PoolRollout : public testing::Test {
 protected:
  void create(int replicas, const Json& more = nullptr) {
    world_.probes->silent_ports = world_.silent_ports = {bad_port};
    world_.create_pool("web", replicas, spec_of(good_port, more));
    world_.advance(seconds(10));
    ASSERT_EQ(ready(), replicas) << pool();
  }
  void boot() {
    world_.crash();
    world_.boot();
  }
  void roll_to(int port) { change(guest_change(ready_on(port))); }
  void change(const Json& patch) { world_.patch(api::pool_kind, "web", patch); }
  void annotate(const std::string& name, const std::string& value) {
    change({{"metadata", {{"annotations", {{name, value}}}}}});
  }

  Json pool() const { return world_.pool("web"); }
  int count(const char* field) const {
    return static_cast<int>(api::integer(member(pool(), "status", field), 0));
  }
  int ready() const { return count("readyReplicas"); }
  Json progressing() const { return api::find_condition(pool()["status"], "Progressing"); }
  std::string reason() const { return api::text(member(progressing(), "reason")); }

  int on_port(int port) const {
    int result = 0;
    for (const Json& instance : world_.instances()) {
      result += member(instance, "spec", "readinessProbe", "tcpSocket", "port") == port ? 1 : 0;
    }
    return result;
  }
  // Guests that answer.
  int serving() const {
    int result = 0;
    for (const Json& instance : world_.instances()) {
      const bool up = api::condition_is_true(member(instance, "status"), "Ready") &&
                      !api::is_deleting(instance);
      result += up ? 1 : 0;
    }
    return result;
  }
  std::map<std::string, std::string> guests() const {
    std::map<std::string, std::string> uids;
    for (const Json& instance : world_.instances()) {
      uids[instance["metadata"]["name"]] = instance["metadata"]["uid"];
    }
    return uids;
  }
  // Watches while time goes by.
  void advance(seconds duration, int least_serving) {
    for (auto left = duration; left.count() > 0; --left) {
      world_.advance(seconds(1));
      ASSERT_GE(serving(), least_serving);
      ASSERT_LE(world_.host.alive(), static_cast<std::size_t>(count("replicas")));
    }
  }

  World world_;
};

TEST_F(PoolRollout, OneAfterTheOtherByDefault) {
  create(4);
  const auto before = guests();
  roll_to(79);
  EXPECT_EQ(reason(), "ReplicasUpdating");
  advance(seconds(60), 3);
  EXPECT_EQ(on_port(79), 4);
  EXPECT_EQ(ready(), 4);
  EXPECT_EQ(count("updatedReplicas"), 4);
  EXPECT_EQ(reason(), "RolloutComplete");
  EXPECT_EQ(progressing()["message"], "4 of 4 updated");
  for (const auto& [name, uid] : guests()) EXPECT_NE(uid, before.at(name)) << name;
  EXPECT_EQ(pool()["status"]["currentRevision"], "web-2");
  EXPECT_EQ(world_.get(api::machine_kind, "web-0")["metadata"]["labels"][revision_label], "web-2");
  EXPECT_EQ(world_.get(api::instance_kind, "web-0")["metadata"]["labels"][revision_label], "web-2");
  EXPECT_THAT(
      world_.events(api::pool_kind),
      testing::AllOf(Contains("SuccessfulUpdate: Updated VM default/web-0"),
                     Contains("SuccessfulDelete: Successfully updated resource default/web-0")));
}

TEST_F(PoolRollout, AsManyAtATimeAsMaxUnavailableSays) {
  create(4, {{"maxUnavailable", "50%"}});
  world_.hypervisor->guests_obey = false;
  roll_to(79);
  int least = 4;
  for (int i = 0; i < 60; ++i) {
    world_.advance(seconds(1));
    least = std::min(least, serving());
  }
  EXPECT_EQ(least, 2);
  EXPECT_EQ(on_port(79), 4);
  EXPECT_EQ(ready(), 4);
}

// Must show 3 of the issue.
TEST_F(PoolRollout, StopsAtTheFirstThatDoesNotBecomeReadyAndSaysSo) {
  create(4);
  annotate("virtset.io/progress-deadline-seconds", "120");
  const auto before = guests();
  roll_to(bad_port);
  advance(seconds(60), 3);
  EXPECT_EQ(on_port(bad_port), 1);
  EXPECT_EQ(progressing()["status"], "True");
  EXPECT_THAT(api::text(progressing()["message"]),
              HasSubstr("1 of 4 updated, waiting for web-0 to become ready"));
  advance(seconds(120), 3);
  EXPECT_EQ(on_port(bad_port), 1);
  EXPECT_EQ(ready(), 3);
  EXPECT_EQ(count("updatedReplicas"), 1);
  EXPECT_EQ(progressing()["status"], "False");
  EXPECT_EQ(reason(), "ProgressDeadlineExceeded");
  EXPECT_THAT(api::text(progressing()["message"]), HasSubstr("web-0"));
  EXPECT_THAT(world_.events(api::pool_kind), Contains(HasSubstr("ProgressDeadlineExceeded: ")));

  // Going back mends the one, and touches nobody else.
  roll_to(good_port);
  advance(seconds(20), 3);
  EXPECT_EQ(ready(), 4);
  EXPECT_EQ(on_port(good_port), 4);
  EXPECT_EQ(reason(), "RolloutComplete");
  auto after = guests();
  EXPECT_NE(after["web-0"], before.at("web-0"));
  for (const char* name : {"web-1", "web-2", "web-3"}) EXPECT_EQ(after[name], before.at(name));
}

TEST_F(PoolRollout, DeadlineCountsFromTheLastProgressAlsoOverARestart) {
  create(3);
  annotate("virtset.io/progress-deadline-seconds", "100");
  roll_to(bad_port);
  world_.advance(seconds(80));
  EXPECT_EQ(reason(), "ReplicasUpdating");
  boot();
  world_.advance(seconds(10));
  EXPECT_EQ(reason(), "ReplicasUpdating");
  world_.advance(seconds(20));
  EXPECT_EQ(reason(), "ProgressDeadlineExceeded");
  // It is no verdict: when it becomes ready after all, the roll-out goes on.
  world_.probes->silent_ports.clear();
  world_.advance(seconds(60));
  EXPECT_EQ(reason(), "RolloutComplete");
  EXPECT_EQ(on_port(bad_port), 3);
}

TEST_F(PoolRollout, BrokenTemplateCanBeLeftForANewOne) {
  create(3);
  roll_to(bad_port);
  world_.advance(seconds(30));
  roll_to(79);
  advance(seconds(60), 2);
  EXPECT_EQ(on_port(79), 3);
  EXPECT_EQ(ready(), 3);
}

// KubeVirt restarts those that are not ready whatever maxUnavailable says.
TEST_F(PoolRollout, ThoseThatAreNotReadyAreNotAllTakenToABrokenTemplate) {
  create(4, {{"maxUnavailable", 1}});
  for (const char* name : {"web-2", "web-3"}) {
    world_.hypervisor->pause(world_.uuid_of(name), hypervisor::PauseReason::user);
  }
  world_.settle();
  roll_to(bad_port);
  advance(seconds(60), 2);
  EXPECT_EQ(on_port(bad_port), 1);
  // It was one of those that cost nothing.
  EXPECT_EQ(world_.get(api::instance_kind, "web-2")["spec"]["readinessProbe"]["tcpSocket"]["port"],
            bad_port);
}

TEST_F(PoolRollout, BrokenOneOfTheOldTemplateIsMendedFirst) {
  create(3);
  world_.hypervisor->pause(world_.uuid_of("web-1"), hypervisor::PauseReason::user);
  world_.settle();
  roll_to(79);
  advance(seconds(60), 2);
  EXPECT_EQ(on_port(79), 3);
  EXPECT_EQ(ready(), 3);
}

TEST_F(PoolRollout, RolledBackByTheNumberOfARevision) {
  create(2);
  roll_to(79);
  world_.advance(seconds(30));
  EXPECT_EQ(on_port(79), 2);
  annotate("virtset.io/rollback-to", "1");
  world_.advance(seconds(30));
  EXPECT_EQ(on_port(good_port), 2);
  EXPECT_FALSE(member(pool(), "metadata", "annotations").contains("virtset.io/rollback-to"));
  EXPECT_THAT(world_.events(api::pool_kind),
              Contains("SuccessfulRollback: Rolled back to revision 1"));
  annotate("virtset.io/rollback-to", "77");
  world_.settle();
  EXPECT_FALSE(member(pool(), "metadata", "annotations").contains("virtset.io/rollback-to"));
  EXPECT_THAT(world_.events(api::pool_kind), Contains(HasSubstr("RollbackRevisionNotFound")));
}

TEST_F(PoolRollout, RevisionsThatNobodyNeedsGo) {
  create(1);
  for (int port = 20; port < 35; ++port) {
    roll_to(port);
    world_.advance(seconds(20));
  }
  EXPECT_EQ(on_port(34), 1);
  EXPECT_THAT(world_.store->list(api::apps_group, api::controller_revision_kind), SizeIs(10));
  // Nor does scaling pile them up.
  for (int replicas : {2, 1, 2, 1, 2}) {
    change({{"spec", {{"replicas", replicas}}}});
    world_.advance(seconds(20));
  }
  EXPECT_LE(world_.store->list(api::apps_group, api::controller_revision_kind).size(), 12u);
}

TEST_F(PoolRollout, ChangeOfTheMachinesAloneRestartsNoGuest) {
  create(3);
  const auto before = guests();
  change(
      {{"spec", {{"virtualMachineTemplate", {{"metadata", {{"labels", {{"color", "blue"}}}}}}}}}});
  world_.advance(seconds(5));
  EXPECT_EQ(guests(), before);
  for (const char* name : {"web-0", "web-1", "web-2"}) {
    const Json labels = world_.get(api::machine_kind, name)["metadata"]["labels"];
    EXPECT_EQ(labels["color"], "blue");
    // The guests are of that revision now.
    EXPECT_EQ(world_.get(api::instance_kind, name)["metadata"]["labels"][revision_label],
              labels[revision_label]);
  }
  EXPECT_EQ(reason(), "RolloutComplete");
  EXPECT_FALSE(
      api::condition_is_true(world_.get(api::machine_kind, "web-0")["status"], "RestartRequired"));
}

TEST_F(PoolRollout, OtherFieldsOfThePoolMakeNothingOutdated) {
  create(2);
  const auto before = guests();
  change({{"spec",
           {{"maxUnavailable", 2},
            {"nameGeneration", {{"appendIndexToSecretRefs", true}}},
            {"scaleInStrategy", {{"unmanaged", Json::object()}}}}}});
  world_.advance(seconds(20));
  EXPECT_EQ(guests(), before);
  EXPECT_EQ(world_.get(api::machine_kind, "web-0")["metadata"]["labels"][revision_label], "web-1");
}

TEST_F(PoolRollout, OpportunisticLeavesTheGuestsToOthers) {
  create(2, {{"updateStrategy", {{"opportunistic", Json::object()}}}});
  const auto before = guests();
  roll_to(79);
  world_.advance(seconds(30));
  EXPECT_EQ(guests(), before);
  const Json machine = world_.get(api::machine_kind, "web-0");
  EXPECT_EQ(machine["spec"]["template"]["spec"]["readinessProbe"]["tcpSocket"]["port"], 79);
  EXPECT_TRUE(api::condition_is_true(machine["status"], "RestartRequired"));
  EXPECT_EQ(world_.act("web-0", "restart"), 202);
  world_.advance(seconds(30));
  EXPECT_EQ(on_port(79), 1);
}

TEST_F(PoolRollout, UnmanagedUpdatesNothing) {
  create(2, {{"updateStrategy", {{"unmanaged", Json::object()}}}});
  const auto before = guests();
  roll_to(79);
  world_.advance(seconds(30));
  EXPECT_EQ(guests(), before);
  EXPECT_EQ(world_.get(api::machine_kind, "web-0")["metadata"]["labels"][revision_label], "web-1");
  // Only new ones are made from it.
  change({{"spec", {{"replicas", 3}}}});
  world_.advance(seconds(10));
  EXPECT_EQ(on_port(79), 1);
}

TEST_F(PoolRollout, ProactiveLeavesThoseAloneThatItsSelectorsDoNotMatch) {
  create(2, {{"updateStrategy",
              {{"proactive",
                {{"selectionPolicy",
                  {{"selectors", {{"labelSelector", {{"matchLabels", {{"tier", "x"}}}}}}}}}}}}}});
  const auto before = guests();
  roll_to(79);
  world_.advance(seconds(30));
  EXPECT_EQ(guests(), before);
  EXPECT_EQ(world_.get(api::machine_kind, "web-0")["metadata"]["labels"][revision_label], "web-1");
}

TEST_F(PoolRollout, SortPolicySaysWhoIsFirst) {
  create(3, {{"updateStrategy",
              {{"proactive", {{"selectionPolicy", {{"sortPolicy", "DescendingOrder"}}}}}}}});
  roll_to(bad_port);
  world_.advance(seconds(30));
  EXPECT_EQ(world_.get(api::instance_kind, "web-2")["spec"]["readinessProbe"]["tcpSocket"]["port"],
            bad_port);
  EXPECT_EQ(on_port(bad_port), 1);
}

// KubeVirt overwrites all of it.
TEST_F(PoolRollout, WhatUsersDidToAMachineSurvives) {
  create(2);
  world_.patch(api::machine_kind, "web-0", {{"metadata", {{"labels", {{"mine", "x"}}}}}});
  const Json firmware =
      world_.get(api::machine_kind, "web-0")["spec"]["template"]["spec"]["domain"]["firmware"];
  ASSERT_EQ(world_.act("web-1", "stop"), 202);
  world_.advance(seconds(20));
  roll_to(79);
  world_.advance(seconds(40));
  const Json machine = world_.get(api::machine_kind, "web-0");
  EXPECT_EQ(machine["metadata"]["labels"]["mine"], "x");
  EXPECT_EQ(machine["spec"]["template"]["spec"]["domain"]["firmware"], firmware);
  EXPECT_EQ(on_port(79), 1);
  // The one that was stopped has the template, is not started, and stands in nobody's way.
  const Json stopped = world_.get(api::machine_kind, "web-1");
  EXPECT_EQ(stopped["spec"]["runStrategy"], "Halted");
  EXPECT_EQ(stopped["spec"]["template"]["spec"]["readinessProbe"]["tcpSocket"]["port"], 79);
  EXPECT_EQ(reason(), "RolloutComplete");
}

TEST_F(PoolRollout, RestartsGuestsAlsoWithRunStrategiesThatDoNotStartThemAgain) {
  for (const char* strategy : {"RerunOnFailure", "Once"}) {
    World& world = world_;
    const std::string name = strategy == std::string("Once") ? "once" : "rerun";
    world.probes->silent_ports = {bad_port};
    Json spec = spec_of(good_port);
    spec["virtualMachineTemplate"]["spec"]["runStrategy"] = strategy;
    world.create_pool(name, 2, spec);
    world.advance(seconds(10));
    world.patch(api::pool_kind, name, guest_change(ready_on(79)));
    world.advance(seconds(60));
    const Json status = world.pool(name)["status"];
    EXPECT_EQ(status["updatedReplicas"], 2) << strategy << status;
    EXPECT_EQ(status["readyReplicas"], 2) << strategy;
  }
}

TEST_F(PoolRollout, StopThatSomebodyHasAskedForComesBeforeARestart) {
  Json spec = spec_of(good_port);
  spec["virtualMachineTemplate"]["spec"]["runStrategy"] = "RerunOnFailure";
  world_.create_pool("web", 1, spec);
  world_.advance(seconds(10));
  world_.hypervisor->guests_obey = false;
  EXPECT_EQ(world_.act("web-0", "stop"), 202);
  roll_to(79);
  world_.advance(minutes(1));
  EXPECT_EQ(world_.host.alive(), 0u);
  EXPECT_EQ(on_port(79), 0);
  EXPECT_EQ(count("updatedReplicas"), 1);
}

TEST_F(PoolRollout, PausedPoolRollsNothingOutAndItsClockStands) {
  create(2);
  annotate("virtset.io/progress-deadline-seconds", "60");
  roll_to(bad_port);
  world_.advance(seconds(30));
  change({{"spec", {{"paused", true}}}});
  world_.advance(minutes(5));
  EXPECT_EQ(reason(), "ReplicasUpdating");
  change({{"spec", {{"paused", false}}}});
  world_.advance(seconds(30));
  EXPECT_EQ(reason(), "ReplicasUpdating");
  world_.advance(seconds(40));
  EXPECT_EQ(reason(), "ProgressDeadlineExceeded");
}

TEST_F(PoolRollout, NewTemplateInTheMiddleOfARollOut) {
  create(4);
  roll_to(79);
  world_.advance(seconds(7));
  roll_to(78);
  advance(seconds(90), 3);
  EXPECT_EQ(on_port(78), 4);
  EXPECT_EQ(reason(), "RolloutComplete");
}

TEST_F(PoolRollout, NothingWritesAnythingWhenItIsDone) {
  create(3);
  roll_to(79);
  world_.advance(minutes(2));
  const auto rows = world_.committer->rows;
  world_.advance(minutes(30));
  EXPECT_EQ(world_.committer->rows, rows);
}

// ---- surge, and readiness that has to last ----

TEST_F(PoolRollout, SurgeComesFirstAndGoesInTheEnd) {
  create(4);
  annotate("virtset.io/max-surge", "1");
  const auto before = guests();
  roll_to(79);
  std::size_t most = 0;
  for (int i = 0; i < 90; ++i) {
    world_.advance(seconds(1));
    // With the surge nobody is missed.
    ASSERT_GE(serving(), 4);
    most = std::max(most, world_.machine_names().size());
  }
  EXPECT_THAT(world_.machine_names(), ElementsAre("web-0", "web-1", "web-2", "web-3"));
  EXPECT_EQ(on_port(79), 4);
  EXPECT_EQ(reason(), "RolloutComplete");
  for (const auto& [name, uid] : guests()) EXPECT_NE(uid, before.at(name)) << name;
  EXPECT_THAT(world_.events(api::pool_kind), Contains(HasSubstr("Created VM default/web-4")));
}

TEST_F(PoolRollout, BrokenTemplateGetsNoFurtherThanTheSurge) {
  create(4);
  annotate("virtset.io/max-surge", "25%");
  const auto before = guests();
  roll_to(bad_port);
  advance(seconds(60), 4);
  EXPECT_EQ(on_port(bad_port), 1);
  EXPECT_THAT(world_.machine_names(), SizeIs(5));
  EXPECT_THAT(api::text(progressing()["message"]), HasSubstr("waiting for web-4"));
  // Going back needs nothing but its end.
  roll_to(good_port);
  advance(seconds(20), 4);
  EXPECT_EQ(guests(), before);
  EXPECT_EQ(reason(), "RolloutComplete");
}

TEST_F(PoolRollout, SurgeIsNotMistakenForAReplicaByScaling) {
  create(3, {{"scaleInStrategy",
              {{"proactive", {{"selectionPolicy", {{"sortPolicy", "AscendingOrder"}}}}}}}});
  annotate("virtset.io/max-surge", "1");
  roll_to(bad_port);
  world_.advance(seconds(20));
  EXPECT_THAT(world_.machine_names(), SizeIs(4));
  change({{"spec", {{"replicas", 2}}}});
  world_.advance(seconds(20));
  EXPECT_THAT(world_.machine_names(), ElementsAre("web-1", "web-2", "web-3"));
  roll_to(79);
  world_.advance(seconds(60));
  EXPECT_THAT(world_.machine_names(), ElementsAre("web-1", "web-2"));
  EXPECT_EQ(on_port(79), 2);
}

TEST_F(PoolRollout, GoesOnOnlyWhenReadinessHasLasted) {
  create(3);
  annotate("virtset.io/min-ready-seconds", "20");
  roll_to(79);
  world_.advance(seconds(18));
  EXPECT_EQ(on_port(79), 1);
  world_.advance(seconds(20));
  EXPECT_EQ(on_port(79), 2);
  EXPECT_EQ(reason(), "ReplicasUpdating");
  world_.advance(seconds(60));
  EXPECT_EQ(on_port(79), 3);
  EXPECT_EQ(reason(), "RolloutComplete");
}

TEST_F(PoolRollout, WithoutOneThereIsNoSurge) {
  world_.probes->silent_ports = world_.silent_ports = {bad_port};
  Json body = test::pool("web", 3);
  body["metadata"]["annotations"]["virtset.io/max-surge"] = "1";
  body["spec"].merge_patch(spec_of(good_port));
  int status = 0;
  world_.request("POST", "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools",
                 body, &status);
  ASSERT_EQ(status, 201);
  const auto watch = [&](std::size_t most) {
    for (int i = 0; i < 20; ++i) {
      world_.advance(seconds(1));
      ASSERT_LE(world_.machine_names().size(), most);
    }
    EXPECT_EQ(ready(), static_cast<int>(most));
  };
  watch(3);
  world_.hypervisor->destroy_from_outside(world_.uuid_of("web-1"));
  watch(3);
  change({{"spec", {{"replicas", 5}}}});
  watch(5);
}

// Facts 2.9.
TEST(PoolGuestLabels, ReachWhomTheStrategyLets) {
  const Json selectors = {{"selectors", {{"labelSelector", {{"matchLabels", {{"tier", "x"}}}}}}}};
  struct Case {
    Json strategy;
    bool machine, guest;
  };
  for (const Case& at :
       {Case{Json::object(), true, true}, Case{{{"opportunistic", Json::object()}}, true, false},
        Case{{{"unmanaged", Json::object()}}, false, false},
        Case{{{"proactive", {{"selectionPolicy", selectors}}}}, false, false}}) {
    SCOPED_TRACE(at.strategy.dump());
    World world;
    world.create_pool("web", 1, {{"updateStrategy", at.strategy}});
    world.advance(seconds(5));
    const Json before = world.get(api::instance_kind, "web-0");
    const Json labels{{"metadata", {{"labels", {{"color", "blue"}}}}}};
    world.patch(api::pool_kind, "web",
                {{"spec", {{"virtualMachineTemplate", {{"spec", {{"template", labels}}}}}}}});
    world.advance(seconds(60));
    const Json machine = world.get(api::machine_kind, "web-0");
    const Json guest = world.get(api::instance_kind, "web-0");
    EXPECT_EQ(member(machine, "spec", "template", "metadata", "labels").contains("color"),
              at.machine);
    EXPECT_EQ(member(guest, "metadata", "labels").contains("color"), at.guest);
    EXPECT_EQ(guest["metadata"]["uid"] != before["metadata"]["uid"], at.guest);
  }
}

TEST_F(PoolRollout, NothingIsSaidOfAMachineThatIsNotReadyAndNeedsNoUpdate) {
  create(2);
  world_.hypervisor->pause(world_.uuid_of("web-1"), hypervisor::PauseReason::user);
  world_.advance(minutes(2));
  EXPECT_THAT(world_.events(api::pool_kind),
              testing::Not(Contains(HasSubstr("Successfully updated resource"))));
}

}  // namespace
}  // namespace virtset::test
