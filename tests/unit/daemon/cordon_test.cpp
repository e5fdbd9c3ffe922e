// A cordoned node: nothing new is started, and nothing that runs is touched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using api::member;
using api::text;
using std::chrono::minutes;
using store::Json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* instances_path =
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

Json create(World& world, const std::string& name) {
  int status = 0;
  Json answer = world.request("POST", instances_path, instance(name), &status);
  EXPECT_EQ(status, 201) << answer;
  world.settle();
  return answer;
}

std::string phase(const World& world, const std::string& name) {
  return text(member(world.get(api::instance_kind, name), "status", "phase"));
}

Json scheduled_condition(const World& world, const std::string& name) {
  return api::find_condition(world.get(api::instance_kind, name)["status"], "PodScheduled");
}

TEST(Cordon, NewInstanceWaitsAndGoesOnAtOnceWhenItEnds) {
  World world;
  create(world, "old");
  world.cordon();
  create(world, "new");
  world.advance(minutes(1));
  EXPECT_EQ(phase(world, "new"), "Pending");
  EXPECT_EQ(scheduled_condition(world, "new")["status"], "False");
  EXPECT_EQ(scheduled_condition(world, "new")["reason"], "Unschedulable");
  EXPECT_EQ(scheduled_condition(world, "new")["message"],
            "the node is cordoned (kubectl uncordon host lets it start)");
  EXPECT_EQ(phase(world, "old"), "Running");
  EXPECT_EQ(world.host.alive(), 1u);
  world.cordon(false);
  EXPECT_EQ(phase(world, "new"), "Running");
  EXPECT_EQ(scheduled_condition(world, "new"), Json());
  EXPECT_THAT(world.events(api::node_kind),
              testing::UnorderedElementsAre(HasSubstr("NodeNotSchedulable: "),
                                            HasSubstr("NodeSchedulable: ")));
}

TEST(Cordon, LastsOverARestartAndLeavesAloneWhatRuns) {
  World world;
  create(world, "old");
  world.cordon();
  create(world, "new");
  world.crash();
  world.boot();
  EXPECT_EQ(phase(world, "old"), "Running");
  EXPECT_EQ(phase(world, "new"), "Pending");
  EXPECT_EQ(world.host.starts, 1);
  world.cordon(false);
  EXPECT_EQ(phase(world, "new"), "Running");
}

TEST(Cordon, ReplacementsWaitToo) {
  World world;
  world.create_set("web", 2);
  world.settle();
  world.cordon();
  world.hypervisor->kill_process(world.uuid_of(world.instance_names().at(0)));
  world.advance(minutes(1));
  EXPECT_EQ(world.host.alive(), 1u);
  world.cordon(false);
  EXPECT_EQ(world.host.alive(), 2u);
}

TEST(Cordon, DoesNotHoldUpWhatIsOnItsWay) {
  World world;
  Json object = instance("vm");
  object["spec"]["volumes"] = {{{"name", "root"}, {"containerDisk", {{"image", "reg/a:1"}}}}};
  world.images.refuse["reg/a:1"] = "the registry sleeps";
  world.request("POST", instances_path, object);
  world.settle();
  ASSERT_EQ(phase(world, "vm"), "Scheduling");
  world.cordon();
  world.images.refuse.clear();
  world.advance(minutes(1));
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Cordon, IsForgottenOnceAnImageIsWaitedForInstead) {
  World world;
  world.cordon();
  Json object = instance("vm");
  object["spec"]["volumes"] = {{{"name", "root"}, {"containerDisk", {{"image", "reg/a:1"}}}}};
  world.images.refuse["reg/a:1"] = "the registry sleeps";
  world.request("POST", instances_path, object);
  world.settle();
  ASSERT_EQ(scheduled_condition(world, "vm")["reason"], "Unschedulable");
  EXPECT_THAT(world.images.pulls, IsEmpty());
  world.cordon(false);
  EXPECT_EQ(phase(world, "vm"), "Scheduling");
  EXPECT_EQ(scheduled_condition(world, "vm"), Json());
}

TEST(Cordon, DomainThatCameThroughUnseenIsAdopted) {
  World world;
  world.hypervisor->lose_next_answer = true;
  create(world, "vm");
  world.cordon();
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.host.starts, 1);
}

TEST(Cordon, OneThatGotItsMemoryMeanwhileWaits) {
  World world({.guest_memory = 200ull << 20});
  create(world, "first");
  create(world, "second");
  ASSERT_THAT(text(scheduled_condition(world, "second")["message"]), HasSubstr("memory"));
  world.cordon();
  world.remove(api::instance_kind, "first");
  world.settle();
  EXPECT_EQ(phase(world, "second"), "Pending");
  EXPECT_THAT(text(scheduled_condition(world, "second")["message"]), HasSubstr("cordoned"));
  world.cordon(false);
  EXPECT_EQ(phase(world, "second"), "Running");
}

}  // namespace
}  // namespace virtset::test
