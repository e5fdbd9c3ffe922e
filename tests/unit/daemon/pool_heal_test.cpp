// Pools that replace what fails, and only what fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/lifecycle.h"
#include "tests/unit/daemon/pool_support.h"

namespace virtset::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// What the virtual machine controller says of one that does not start.
void say(World& world, const std::string& machine, const Json& status) {
  world.store->write(
      {api::kubevirt_group, api::machine_kind, "default", machine},
      [=](const store::Object* current) {
        Json document = *current->document();
        document["status"].merge_patch(status);
        return store::Store::Mutation::put(document);
      },
      nullptr);
}

Json failing_image() {
  Json spec;
  spec["virtualMachineTemplate"]["spec"]["template"]["spec"]["volumes"] = {
      {{"name", "root"}, {"containerDisk", {{"image", "i:1"}}}}};
  return spec;
}

TEST(PoolHealing, MachineThatFailsToStartIsReplaced) {
  World world;
  world.create_pool("web", 2, {{"autohealing", Json::object()}});
  world.settle();
  const std::string sick = uid_of(world, "web-0");
  const std::string well = uid_of(world, "web-1");
  // Ready machines are not looked at, so this one is not.
  world.hypervisor->pause(world.uuid_of("web-0"), hypervisor::PauseReason::user);
  say(world, "web-0", {{"startFailure", {{"consecutiveFailCount", 2}}}});
  world.settle();
  EXPECT_EQ(uid_of(world, "web-0"), sick);
  say(world, "web-0", {{"startFailure", {{"consecutiveFailCount", 3}}}});
  world.settle();
  EXPECT_NE(uid_of(world, "web-0"), sick);
  EXPECT_EQ(uid_of(world, "web-1"), well);
  EXPECT_EQ(world.host.alive(), 2u);
  EXPECT_EQ(world.pool("web")["status"]["healing"][0]["name"], "web-0");
}

TEST(PoolHealing, NothingIsHealedUnlessAsked) {
  World world;
  world.create_pool("web", 1);
  world.settle();
  const std::string uid = uid_of(world, "web-0");
  world.hypervisor->pause(world.uuid_of("web-0"), hypervisor::PauseReason::user);
  say(world, "web-0", {{"startFailure", {{"consecutiveFailCount", 9}}}});
  world.advance(minutes(20));
  EXPECT_EQ(uid_of(world, "web-0"), uid);
}

// KubeVirt looks at all of the namespace, and also while the pool is paused.
TEST(PoolHealing, OnlyOwnMachinesAreHealedAndOnlyUnlessPaused) {
  World world;
  world.create_pool("web", 1, {{"autohealing", Json::object()}, {"paused", true}});
  world.create_pool("other", 1);
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", false}}}});
  world.settle();
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", true}}}});
  world.settle();
  const std::string own = uid_of(world, "web-0");
  const std::string foreign = uid_of(world, "other-0");
  for (const char* name : {"web-0", "other-0"}) {
    world.hypervisor->pause(world.uuid_of(name), hypervisor::PauseReason::user);
    say(world, name, {{"startFailure", {{"consecutiveFailCount", 9}}}});
  }
  world.settle();
  EXPECT_EQ(uid_of(world, "web-0"), own);
  world.patch(api::pool_kind, "web", {{"spec", {{"paused", false}}}});
  world.settle();
  EXPECT_NE(uid_of(world, "web-0"), own);
  EXPECT_EQ(uid_of(world, "other-0"), foreign);
}

// KubeVirt waits for an event that may never come, and counts from the time of the last probe.
TEST(PoolHealing, StateOfFailureIsHealedWhenItsTimeHasComeWithoutAnyEvent) {
  World world;
  world.images.refuse["i:1"] = "manifest unknown";
  world.create_pool("web", 1, failing_image());
  world.patch(api::pool_kind, "web",
              {{"spec", {{"autohealing", {{"minFailingToStartDuration", "2m"}}}}}});
  world.advance(seconds(100));
  EXPECT_EQ(world.pool("web")["status"].contains("healing"), false);
  const std::string uid = uid_of(world, "web-0");
  world.advance(seconds(40));
  EXPECT_NE(uid_of(world, "web-0"), uid);
  EXPECT_EQ(world.pool("web")["status"]["healing"][0]["count"], 1);
}

TEST(PoolHealing, HealingBacksOffAndForgives) {
  World world;
  world.images.refuse["i:1"] = "manifest unknown";
  Json spec = failing_image();
  spec["autohealing"] = {{"minFailingToStartDuration", "10s"}};
  world.create_pool("web", 1, spec);
  const auto count = [&] {
    const Json healing = member(world.pool("web"), "status", "healing");
    return healing.empty() ? 0 : healing[0]["count"].get<int>();
  };
  world.advance(minutes(1));
  EXPECT_EQ(count(), 1);
  world.advance(minutes(3));
  // A restart does not get around it.
  world.crash();
  world.boot();
  world.advance(seconds(30));
  EXPECT_EQ(count(), 1);
  world.advance(minutes(2));
  EXPECT_EQ(count(), 2);
  world.advance(minutes(8));
  EXPECT_EQ(count(), 2);
  world.images.refuse.clear();
  world.advance(minutes(30));
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(count(), 0);
}

TEST(PoolHealing, GuestThatADiskErrorHasPausedIsRestartedWithItsMachineLeftAlone) {
  World world;
  world.create_pool("web", 1, {{"autohealing", {{"minFailingToStartDuration", "1m"}}}});
  world.settle();
  const std::string machine = uid_of(world, "web-0");
  world.hypervisor->pause(world.uuid_of("web-0"), hypervisor::PauseReason::io_error);
  world.advance(seconds(50));
  const int starts = world.host.starts;
  world.advance(seconds(20));
  EXPECT_EQ(world.host.starts, starts + 1);
  EXPECT_EQ(uid_of(world, "web-0"), machine);
  EXPECT_EQ(world.pool("web")["status"]["readyReplicas"], 1);
}

TEST(PoolHealing, OneThatNeverBecomesReadyIsReplacedIfAskedFor) {
  World world;
  world.probes->silent_ports = {80};
  Json body = pool("web", 1);
  body["metadata"]["annotations"]["virtset.io/heal-never-ready-after"] = "3m";
  body["spec"]["autohealing"] = Json::object();
  body["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"].merge_patch(
      {{"readinessProbe", {{"tcpSocket", {{"port", 80}}}}},
       {"domain", {{"devices", {{"autoattachPodInterface", true}}}}}});
  int status = 0;
  world.request("POST", "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools",
                body, &status);
  ASSERT_EQ(status, 201);
  world.settle();
  const std::string uid = uid_of(world, "web-0");
  world.advance(seconds(170));
  EXPECT_EQ(uid_of(world, "web-0"), uid);
  world.advance(seconds(20));
  EXPECT_NE(uid_of(world, "web-0"), uid);
}

// Its image, or its disks, may take any time.
TEST(PoolHealing, GuestThatHasNotBegunToRunIsNotOneThatNeverBecameReady) {
  World world;
  world.images.refuse["i:1"] = "manifest unknown";
  Json spec = failing_image();
  spec["autohealing"] = {{"minFailingToStartDuration", "2h"}};
  world.create_pool("web", 1, spec);
  world.patch(api::pool_kind, "web",
              {{"metadata", {{"annotations", {{"virtset.io/heal-never-ready-after", "1m"}}}}}});
  world.settle();
  const std::string uid = uid_of(world, "web-0");
  world.advance(minutes(30));
  EXPECT_EQ(uid_of(world, "web-0"), uid);
  world.images.refuse.clear();
  world.advance(minutes(20));
  EXPECT_EQ(uid_of(world, "web-0"), uid);
  EXPECT_EQ(world.host.alive(), 1u);
}

// Facts 2.9.
TEST(PoolHealing, MachineWhoseClaimIsMissingIsReplaced) {
  World world;
  Json spec;
  spec["autohealing"] = {{"minFailingToStartDuration", "2m"}};
  spec["virtualMachineTemplate"]["spec"]["template"]["spec"]["volumes"] = {
      {{"name", "root"}, {"persistentVolumeClaim", {{"claimName", "nobody-has-it"}}}}};
  world.create_pool("web", 1, spec);
  world.advance(seconds(100));
  const std::string uid = uid_of(world, "web-0");
  EXPECT_EQ(world.get(api::machine_kind, "web-0")["status"]["printableStatus"], "ErrorPvcNotFound");
  EXPECT_FALSE(world.pool("web")["status"].contains("healing"));
  world.advance(seconds(40));
  EXPECT_NE(uid_of(world, "web-0"), uid);
}

}  // namespace
}  // namespace virtset::test
