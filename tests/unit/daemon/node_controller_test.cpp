// The node, as it is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/rest/version.h"
#include "daemon/controllers/node/controller.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using api::member;
using api::text;
using std::chrono::minutes;
using std::chrono::seconds;
using store::Json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json condition(const World& world, const std::string& type) {
  return api::find_condition(member(world.node(), "status"), type);
}

std::string revision(const World& world) { return world.node()["metadata"]["resourceVersion"]; }

// Answers the code.
int patch(World& world, const Json& changes, const std::string& subresource = "") {
  int status = 0;
  world.request("PATCH", "/api/v1/nodes/host" + subresource, changes, &status,
                "application/merge-patch+json");
  return status;
}

// ---- what it says ----

TEST(Node, SaysWhatTheHostIsAndHas) {
  World world({.guest_memory = 7ull << 30, .network = "10.88.0.0/24"});
  const Json node = world.node();
  EXPECT_EQ(node["metadata"]["labels"], (Json{{"kubernetes.io/hostname", "host"},
                                              {"kubernetes.io/os", "linux"},
                                              {"kubernetes.io/arch", "amd64"},
                                              {"kubevirt.io/schedulable", "true"}}));
  EXPECT_EQ(node["spec"], (Json{{"podCIDR", "10.88.0.0/24"}, {"podCIDRs", {"10.88.0.0/24"}}}));
  const Json& status = node["status"];
  EXPECT_EQ(status["capacity"], (Json{{"cpu", "4"},
                                      {"memory", "8388608Ki"},
                                      {"ephemeral-storage", "100000000000"},
                                      {"pods", "253"},
                                      {"devices.kubevirt.io/kvm", "1k"}}));
  Json allocatable = status["capacity"];
  allocatable["memory"] = "7340032Ki";
  EXPECT_EQ(status["allocatable"], allocatable);
  EXPECT_EQ(status["addresses"], (Json{{{"type", "InternalIP"}, {"address", "192.0.2.7"}},
                                       {{"type", "Hostname"}, {"address", "host"}}}));
  const std::string version = api::version_document()["gitVersion"];
  EXPECT_EQ(status["nodeInfo"], (Json{{"machineID", "m"},
                                      {"systemUUID", "s"},
                                      {"bootID", "b"},
                                      {"kernelVersion", "6.1.0"},
                                      {"osImage", "A Linux"},
                                      {"operatingSystem", "linux"},
                                      {"architecture", "amd64"},
                                      {"kubeletVersion", version},
                                      {"kubeProxyVersion", version},
                                      {"containerRuntimeVersion", "libvirt://9.0.0+qemu-7.2.0"}}));
  EXPECT_EQ(condition(world, "Ready")["reason"], "LibvirtConnected");
  for (const char* type : {"MemoryPressure", "DiskPressure", "NetworkUnavailable"}) {
    EXPECT_EQ(condition(world, type)["status"], "False") << type;
  }
  EXPECT_THAT(world.events(api::node_kind), IsEmpty());
}

TEST(Node, IsWrittenBeforeAnythingWasHeard) {
  NodeFacts facts{.name = "host", .pod_addresses = 2, .emulated = true};
  facts.host = {.architecture = "arm64", .cpus = 1, .memory = 1ull << 30, .disk = 1};
  Json node;
  bring_up_to_date(node, facts, {});
  EXPECT_EQ(node["metadata"]["labels"]["kubevirt.io/schedulable"], "false");
  EXPECT_EQ(api::find_condition(node["status"], "Ready"), Json());
  EXPECT_EQ(node["status"]["capacity"]["devices.kubevirt.io/kvm"], "0");
  // Without a limit guests may have what there is.
  EXPECT_EQ(node["status"]["allocatable"], node["status"]["capacity"]);
  EXPECT_FALSE(node["status"]["nodeInfo"].contains("containerRuntimeVersion"));
}

TEST(Node, WhatCannotBeFoundOutIsLeftAsItIs) {
  World world;
  world.host_state.address = "";
  world.host_state.disk = 0;
  world.host_state.memory = 0;
  world.host_state.kernel = "6.2.0";
  world.advance(minutes(1));
  const Json status = world.node()["status"];
  EXPECT_EQ(status["nodeInfo"]["kernelVersion"], "6.2.0");
  EXPECT_EQ(status["addresses"][0]["address"], "192.0.2.7");
  EXPECT_EQ(status["capacity"]["ephemeral-storage"], "100000000000");
  EXPECT_EQ(status["capacity"]["memory"], "8388608Ki");
  EXPECT_EQ(condition(world, "MemoryPressure")["status"], "False");
}

TEST(Node, NameMayHaveDots) {
  World world;
  world.crash();
  world.node_name = "edge-7.shop.example";
  world.boot();
  EXPECT_EQ(world.node(world.node_name)["metadata"]["name"], world.node_name);
}

// ---- when it is written ----

TEST(Node, IsNotWrittenWhenNothingHasChanged) {
  World world;
  world.advance(minutes(2));
  const std::string before = revision(world);
  const auto of_the_store = world.store->revision();
  world.host_state.available_memory -= 1 << 20;
  world.host_state.disk_used_percent = 50;
  world.advance(minutes(30));
  EXPECT_EQ(revision(world), before);
  EXPECT_EQ(world.store->revision(), of_the_store);
  world.crash();
  world.boot();
  world.advance(minutes(2));
  EXPECT_EQ(revision(world), before);
}

TEST(Node, LossOfLibvirtIsSaidInItsOwnWordsAndSoIsItsReturn) {
  World world;
  const Json before = condition(world, "Ready");
  world.advance(minutes(5));
  world.hypervisor->disconnect("libvirt does not answer");
  world.settle();
  const Json lost = condition(world, "Ready");
  EXPECT_EQ(lost["status"], "False");
  EXPECT_EQ(lost["reason"], "LibvirtUnreachable");
  EXPECT_EQ(lost["message"], "libvirt does not answer");
  EXPECT_EQ(lost["lastTransitionTime"], api::format_time(world.scheduler.now()));
  EXPECT_EQ(lost["lastHeartbeatTime"], lost["lastTransitionTime"]);
  EXPECT_EQ(world.node()["metadata"]["labels"]["kubevirt.io/schedulable"], "false");
  EXPECT_THAT(world.events(api::node_kind), ElementsAre("NodeNotReady: libvirt does not answer"));
  // Other words for the same do not make it a transition.
  world.advance(minutes(5));
  world.hypervisor->disconnect("no such socket");
  world.settle();
  EXPECT_EQ(condition(world, "Ready")["message"], "no such socket");
  EXPECT_EQ(condition(world, "Ready")["lastTransitionTime"], lost["lastTransitionTime"]);

  world.hypervisor->runs.libvirt = "9.1.0";
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(condition(world, "Ready")["reason"], "LibvirtConnected");
  EXPECT_EQ(condition(world, "Ready")["lastTransitionTime"],
            api::format_time(world.scheduler.now()));
  EXPECT_NE(condition(world, "Ready")["lastTransitionTime"], before["lastTransitionTime"]);
  EXPECT_EQ(world.node()["metadata"]["labels"]["kubevirt.io/schedulable"], "true");
  EXPECT_EQ(world.node()["status"]["nodeInfo"]["containerRuntimeVersion"],
            "libvirt://9.1.0+qemu-7.2.0");
  EXPECT_THAT(world.events(api::node_kind), Contains("NodeReady: libvirt answers"));
}

TEST(Node, RestartOfTheDaemonIsNoTransition) {
  World world;
  const Json before = condition(world, "Ready");
  world.crash();
  world.scheduler.advance(minutes(5));
  world.boot();
  EXPECT_EQ(condition(world, "Ready"), before);
}

TEST(Node, SaysThatThereIsNoPodNetworkAndWhy) {
  World world;
  world.hypervisor->refuse_network = "a network named vs0 is defined and is not ours";
  world.network->ensure();
  world.settle();
  EXPECT_EQ(condition(world, "NetworkUnavailable")["status"], "True");
  EXPECT_EQ(condition(world, "NetworkUnavailable")["message"], world.hypervisor->refuse_network);
  // The words count, not only the fact.
  world.hypervisor->refuse_network = "a network named vs0 exists with other addresses";
  world.advance(seconds(10));
  EXPECT_EQ(condition(world, "NetworkUnavailable")["message"], world.hypervisor->refuse_network);
  world.hypervisor->refuse_network.clear();
  world.advance(seconds(10));
  EXPECT_EQ(condition(world, "NetworkUnavailable")["status"], "False");
  EXPECT_EQ(condition(world, "Ready")["status"], "True");
}

TEST(Node, MemoryPressureBeginsLowAndEndsHigher) {
  World world;
  const auto pressure_at = [&](std::uint64_t mebibytes) {
    world.host_state.available_memory = mebibytes << 20;
    world.advance(minutes(1));
    return text(condition(world, "MemoryPressure")["status"]);
  };
  EXPECT_EQ(pressure_at(150), "False");
  EXPECT_EQ(pressure_at(99), "True");
  EXPECT_EQ(pressure_at(150), "True");
  EXPECT_EQ(pressure_at(200), "False");
  EXPECT_EQ(pressure_at(150), "False");
  EXPECT_THAT(world.events(api::node_kind),
              testing::UnorderedElementsAre(HasSubstr("NodeHasInsufficientMemory: "),
                                            HasSubstr("NodeHasSufficientMemory: ")));
}

TEST(Node, DiskPressureIsBetweenTheWaterMarks) {
  World world;
  const auto pressure_at = [&](unsigned percent) {
    world.host_state.disk_used_percent = percent;
    world.advance(minutes(1));
    return text(condition(world, "DiskPressure")["status"]);
  };
  EXPECT_EQ(pressure_at(84), "False");
  EXPECT_EQ(pressure_at(85), "True");
  EXPECT_EQ(pressure_at(81), "True");
  EXPECT_EQ(pressure_at(80), "False");
  EXPECT_EQ(pressure_at(84), "False");
}

TEST(Node, WriteThatFailedIsTriedAgain) {
  World world;
  world.committer->failing = true;
  world.host_state.kernel = "6.2.0";
  world.advance(minutes(1));
  EXPECT_EQ(world.node()["status"]["nodeInfo"]["kernelVersion"], "6.1.0");
  world.committer->failing = false;
  world.advance(seconds(30));
  EXPECT_EQ(world.node()["status"]["nodeInfo"]["kernelVersion"], "6.2.0");
}

// ---- whose it is ----

TEST(Node, KeepsWhatUsersHavePutIn) {
  World world;
  ASSERT_EQ(patch(world, {{"metadata",
                           {{"labels", {{"rack", "7"}, {"kubernetes.io/arch", "z80"}}},
                            {"annotations", {{"owner", "me"}}}}},
                          {"spec",
                           {{"unschedulable", true},
                            {"taints", {{{"key", "a"}, {"value", "b"}, {"effect", "NoExecute"}}}},
                            {"providerID", "shop://7"}}}}),
            200);
  const Json mine{{"type", "Dusty"}, {"status", "True"}};
  Json conditions = world.node()["status"]["conditions"];
  conditions.push_back(mine);
  ASSERT_EQ(patch(world,
                  {{"status",
                    {{"capacity", {{"example.com/dongle", "2"}, {"cpu", "99"}}},
                     {"conditions", conditions}}}},
                  "/status"),
            200);
  world.hypervisor->disconnect();
  world.settle();
  world.crash();
  world.boot();
  const Json node = world.node();
  EXPECT_EQ(node["metadata"]["labels"]["rack"], "7");
  EXPECT_EQ(node["metadata"]["labels"]["kubernetes.io/arch"], "amd64");
  EXPECT_EQ(node["metadata"]["annotations"]["owner"], "me");
  EXPECT_EQ(node["spec"]["unschedulable"], true);
  EXPECT_EQ(node["spec"]["taints"][0]["key"], "a");
  EXPECT_EQ(node["status"]["capacity"]["example.com/dongle"], "2");
  EXPECT_EQ(node["status"]["capacity"]["cpu"], "4");
  EXPECT_THAT(node["status"]["conditions"], Contains(mine));
}

TEST(Node, RefusesWhatIsNotTheUsersToSay) {
  World world;
  EXPECT_EQ(patch(world, {{"spec", {{"podCIDR", "10.0.0.0/8"}}}}), 422);
  const Json taint{{"key", "a"}, {"effect", "NoSchedule"}};
  EXPECT_EQ(patch(world, {{"spec", {{"taints", {taint, taint}}}}}), 422);
  EXPECT_EQ(patch(world, {{"spec", {{"taints", {{{"key", "a b"}, {"effect", "NoSchedule"}}}}}}}),
            422);
  EXPECT_EQ(patch(world, {{"spec", {{"taints", {{{"key", "a"}, {"effect", "Sometimes"}}}}}}}), 422);
  EXPECT_EQ(patch(world, {{"spec", {{"providerID", "shop://7"}}}}), 200);
  EXPECT_EQ(patch(world, {{"spec", {{"providerID", "shop://8"}}}}), 422);
}

TEST(Node, OfAHostThatWasRenamedGoes) {
  World world;
  world.crash();
  world.node_name = "house";
  world.boot();
  EXPECT_TRUE(world.node("host").is_null());
  EXPECT_EQ(world.node("house")["metadata"]["labels"]["kubernetes.io/hostname"], "house");
  EXPECT_EQ(world.store->list(api::core_group, api::node_kind).size(), 1u);
}

TEST(Node, TableIsThatOfKubernetes) {
  World world;
  const api::Kind& kind = *api::builtin_kinds().find(api::core_group, api::node_kind);
  Json node = world.node();
  const auto cell = [&](const std::string& column) { return *kind.rules->cell(column, node); };
  EXPECT_EQ(cell("Status"), "Ready");
  EXPECT_EQ(cell("Roles"), "<none>");
  EXPECT_EQ(cell("Internal-IP"), "192.0.2.7");
  EXPECT_EQ(cell("External-IP"), "<none>");
  node["metadata"]["labels"]["node-role.kubernetes.io/worker"] = "";
  node["metadata"]["labels"]["node-role.kubernetes.io/edge"] = "";
  node["spec"]["unschedulable"] = true;
  EXPECT_EQ(cell("Status"), "Ready,SchedulingDisabled");
  EXPECT_EQ(cell("Roles"), "edge,worker");
  api::set_condition(node["status"], {"Ready", false, "", ""}, {});
  EXPECT_EQ(cell("Status"), "NotReady,SchedulingDisabled");
  node["status"].erase("conditions");
  EXPECT_EQ(cell("Status"), "Unknown,SchedulingDisabled");
  node["status"].erase("nodeInfo");
  EXPECT_EQ(cell("Container-Runtime"), "<unknown>");
}

}  // namespace
}  // namespace virtset::test
