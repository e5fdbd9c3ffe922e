// The life of an instance, and what it survives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using api::member;
using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* instances_path =
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

Json with_disk(const std::string& name, const std::string& image) {
  Json object = instance(name);
  object["spec"]["volumes"] = {{{"name", "root"}, {"containerDisk", {{"image", image}}}}};
  return object;
}

Json with_network(const std::string& name, const Json& probe = nullptr) {
  Json object = instance(name);
  Json& spec = object["spec"];
  spec["domain"]["devices"] = {
      {"interfaces", {{{"name", "default"}, {"masquerade", Json::object()}}}}};
  spec["networks"] = {{{"name", "default"}, {"pod", Json::object()}}};
  if (!probe.is_null()) spec["readinessProbe"] = probe;
  return object;
}

Json create(World& world, const Json& object) {
  int status = 0;
  Json answer = world.request("POST", instances_path, object, &status);
  EXPECT_EQ(status, 201) << answer;
  world.settle();
  return answer;
}

std::string phase(const World& world, const std::string& name) {
  return api::text(member(world.get(api::instance_kind, name), "status", "phase"));
}

Json condition(const World& world, const std::string& name, const std::string& type) {
  return api::find_condition(member(world.get(api::instance_kind, name), "status"), type);
}

// Of an instance named vm, the only one that there was.
void expect_nothing_left(const World& world) {
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
  EXPECT_EQ(world.host.domains.size(), 0u);
  EXPECT_EQ(world.images.disks.size(), 0u);
}

std::vector<std::string> phases(const World& world, const std::string& name) {
  std::vector<std::string> result;
  const Json object = world.get(api::instance_kind, name);
  for (const Json& entry : member(object, "status", "phaseTransitionTimestamps")) {
    result.push_back(entry["phase"]);
  }
  return result;
}

TEST(Instance, GoesThroughItsPhases) {
  World world;
  create(world, with_disk("vm", "registry/image:1"));
  EXPECT_THAT(phases(world, "vm"), ElementsAre("Pending", "Scheduling", "Scheduled", "Running"));
  const Json status = world.get(api::instance_kind, "vm")["status"];
  EXPECT_EQ(status["nodeName"], "host");
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "True");
  EXPECT_EQ(status["volumeStatus"], Json::parse(R"([{"name":"root","target":"sda"}])"));
  EXPECT_THAT(world.events(api::instance_kind),
              testing::UnorderedElementsAre("Created: VirtualMachineInstance defined.",
                                            "Started: VirtualMachineInstance started."));
}

TEST(Instance, DomainCarriesTheMark) {
  World world;
  create(world, instance("vm"));
  const auto& domain = world.host.domains.at(world.uuid_of("vm")).description;
  EXPECT_EQ(domain.name, "default_vm");
  EXPECT_EQ(domain.mark.ns, "default");
  EXPECT_EQ(domain.mark.name, "vm");
  EXPECT_EQ(domain.mark.uid, world.get(api::instance_kind, "vm")["metadata"]["uid"]);
  EXPECT_EQ(domain.memory_bytes, 64u << 20);
}

TEST(Instance, StartIsOrderedOnlyAfterScheduledIsDurable) {
  World world;
  world.committer->held = true;
  int status = 0;
  api::Request request{.method = "POST",
                       .path = instances_path,
                       .content_type = "application/json",
                       .body = instance("vm").dump()};
  world.rest->handle(request, [&](api::Response response) { status = response.status; });
  world.scheduler.run();
  EXPECT_EQ(status, 0);  // not durable, not answered
  world.committer->release();
  world.scheduler.run();
  EXPECT_EQ(status, 201);
  world.settle();
  EXPECT_EQ(world.host.starts, 0);
  EXPECT_EQ(phase(world, "vm"), "Pending");
  world.committer->held = false;
  world.committer->release();
  world.settle();
  EXPECT_EQ(world.host.starts, 1);
}

TEST(Instance, DeletionAsksAgainAndThenEndsTheDomain) {
  World world;
  world.hypervisor->guests_obey = false;
  create(world, with_disk("vm", "i:1"));
  world.remove(api::instance_kind, "vm");
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(1));
  world.advance(seconds(12));
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(3));  // at 0, 5 and 10 s
  EXPECT_EQ(world.host.alive(), 1u);
  world.advance(seconds(19));
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
  EXPECT_EQ(world.images.disks.size(), 0u);
  // KubeVirt: said once.
  int said = 0;
  for (const std::string& event : world.events(api::instance_kind)) {
    said += event == "ShuttingDown: Signaled Graceful Shutdown" ? 1 : 0;
  }
  EXPECT_EQ(said, 1);
}

TEST(Instance, GraceOfZeroEndsTheDomainAtOnce) {
  World world;
  world.hypervisor->guests_obey = false;
  Json object = instance("vm");
  object["spec"]["terminationGracePeriodSeconds"] = 0;
  create(world, object);
  world.remove(api::instance_kind, "vm");
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(0));
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
}

TEST(Instance, GracePeriodOfTheDeletionMayBeShorter) {
  World world;
  world.hypervisor->guests_obey = false;
  create(world, instance("vm"));
  world.remove(api::instance_kind, "vm");
  EXPECT_EQ(world.host.alive(), 1u);
  world.request("DELETE", std::string(instances_path) + "/vm", {{"gracePeriodSeconds", 0}});
  world.settle();
  EXPECT_EQ(world.host.alive(), 0u);
}

TEST(Instance, DeletedWhileItsImageIsPulled) {
  World world;
  world.jobs->hold(Lane::pull);
  create(world, with_disk("vm", "i:1"));
  world.remove(api::instance_kind, "vm");
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
  world.jobs->hold(Lane::pull, false);
  world.settle();
  EXPECT_EQ(world.host.starts, 0);
  EXPECT_EQ(world.images.disks.size(), 0u);
}

TEST(Instance, DeletedWhileItsDisksAreMade) {
  World world;
  world.jobs->hold(Lane::disk);
  create(world, with_disk("vm", "i:1"));
  world.remove(api::instance_kind, "vm");
  EXPECT_TRUE(world.get(api::instance_kind, "vm").is_object());
  world.jobs->hold(Lane::disk, false);
  world.settle();
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
  EXPECT_EQ(world.host.starts, 0);
  EXPECT_EQ(world.images.disks.size(), 0u);
}

TEST(Instance, DeletedWhileItIsStarted) {
  World world;
  world.jobs->hold(Lane::start);
  create(world, with_disk("vm", "i:1"));
  world.remove(api::instance_kind, "vm");
  world.jobs->hold(Lane::start, false);
  world.settle();
  expect_nothing_left(world);
}

TEST(Instance, GuestThatPowersOffSucceeded) {
  World world;
  create(world, with_disk("vm", "i:1"));
  world.hypervisor->power_off_guest(world.uuid_of("vm"));
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Succeeded");
  EXPECT_EQ(condition(world, "vm", "Ready")["reason"], "GuestNotRunning");
  EXPECT_EQ(world.images.disks.size(), 0u);
  EXPECT_THAT(world.events(api::instance_kind),
              Contains("Stopped: The VirtualMachineInstance was shut down."));
  // Final for good, and it can be deleted.
  world.advance(seconds(60));
  EXPECT_EQ(world.host.starts, 1);
  world.remove(api::instance_kind, "vm");
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
}

TEST(Instance, KilledProcessIsSeenAtOnceAndFailsWhenLibvirtSaysHow) {
  World world;
  create(world, instance("vm"));
  const std::string uuid = world.uuid_of("vm");
  world.hypervisor->kill_process(uuid);
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(condition(world, "vm", "Ready")["reason"], "PodTerminating");
  world.hypervisor->notice_death(uuid);
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Failed");
  EXPECT_THAT(world.events(api::instance_kind),
              Contains("Stopped: The VirtualMachineInstance crashed."));
}

// KubeVirt: destroyed is a failure if there was a grace period, else a success.
// libvirtd killed while the domain started, and started again: it finds the process dead and tells
// nobody.
TEST(Instance, EndThatLibvirtNeverTellsIsAskedFor) {
  World world;
  create(world, instance("vm"));
  const std::string uuid = world.uuid_of("vm");
  world.hypervisor->kill_process(uuid);
  world.host.domains.erase(uuid);
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
  world.advance(seconds(4));
  EXPECT_EQ(phase(world, "vm"), "Failed");
  EXPECT_THAT(world.events(api::instance_kind),
              Contains("Stopped: The VirtualMachineInstance crashed."));
}

TEST(Instance, DeletionAfterAnEndThatLibvirtNeverTellsIsFinished) {
  World world;
  create(world, instance("vm"));
  const std::string uuid = world.uuid_of("vm");
  world.hypervisor->kill_process(uuid);
  world.host.domains.erase(uuid);
  world.remove(api::instance_kind, "vm");
  world.settle();
  world.advance(seconds(4));
  EXPECT_TRUE(world.instances().empty());
}

TEST(Instance, DestroyedFromOutside) {
  World world;
  create(world, instance("patient"));
  Json hasty = instance("hasty");
  hasty["spec"]["terminationGracePeriodSeconds"] = 0;
  create(world, hasty);
  for (const char* name : {"patient", "hasty"}) {
    world.hypervisor->destroy_from_outside(world.uuid_of(name));
  }
  world.settle();
  EXPECT_EQ(phase(world, "patient"), "Failed");
  EXPECT_EQ(phase(world, "hasty"), "Succeeded");
}

TEST(Instance, PausedAndAgentConditionsFollowTheDomain) {
  World world;
  create(world, instance("vm"));
  const std::string uuid = world.uuid_of("vm");
  world.hypervisor->connect_agent(uuid);
  world.hypervisor->pause(uuid, hypervisor::PauseReason::io_error);
  world.settle();
  EXPECT_EQ(condition(world, "vm", "AgentConnected")["status"], "True");
  EXPECT_EQ(condition(world, "vm", "Paused")["reason"], "PausedIOError");
  EXPECT_EQ(condition(world, "vm", "Ready")["reason"], "ReadinessGatesNotReady");
  world.hypervisor->resume(uuid);
  world.settle();
  EXPECT_EQ(condition(world, "vm", "Paused"), Json());
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "True");
}

// ---- readiness and liveness ----

TEST(Instance, ReadyOnlyWhenTheProbeSucceeds) {
  World world;
  world.probes->answers_by_default = false;
  create(world, with_network("vm", {{"httpGet", {{"port", 80}}}}));
  const std::string address =
      world.get(api::instance_kind, "vm")["status"]["interfaces"][0]["ipAddress"];
  world.advance(seconds(5));
  EXPECT_EQ(condition(world, "vm", "Ready")["reason"], "ContainersNotReady");
  EXPECT_GE(world.probes->attempts[address], 4);  // every second until the first success
  world.probes->answering.insert(address);
  world.advance(seconds(2));
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "True");
  // Then by its period, and three failures in a row.
  world.probes->answering.clear();
  world.advance(seconds(25));
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "True");
  world.advance(seconds(15));
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "False");
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Instance, StaysReadyOverARestartOfTheDaemon) {
  World world;
  create(world, with_network("vm", {{"httpGet", {{"port", 80}}}}));
  world.advance(seconds(2));
  ASSERT_EQ(condition(world, "vm", "Ready")["status"], "True");
  const auto revision =
      world.store->get({api::kubevirt_group, api::instance_kind, "default", "vm"})->revision();
  world.crash();
  world.boot();
  world.advance(seconds(30));
  EXPECT_EQ(
      world.store->get({api::kubevirt_group, api::instance_kind, "default", "vm"})->revision(),
      revision);
}

TEST(Instance, LivenessFailureStopsIt) {
  World world;
  world.hypervisor->guests_obey = false;
  Json object = with_network("vm");
  object["spec"]["livenessProbe"] = {{"tcpSocket", {{"port", 22}}}, {"periodSeconds", 5}};
  create(world, object);
  world.advance(seconds(60));
  EXPECT_EQ(phase(world, "vm"), "Running");
  world.probes->answers_by_default = false;
  world.advance(seconds(16));
  EXPECT_THAT(world.host.asked_to_shut_down, testing::Not(testing::IsEmpty()));
  world.advance(seconds(35));
  EXPECT_EQ(phase(world, "vm"), "Failed");
  EXPECT_THAT(world.events(api::instance_kind), Contains(HasSubstr("Liveness probe failed")));
}

// ---- images, disks, network, host ----

TEST(Instance, ImageErrorsAreToldBackedOffAndMendThemselves) {
  World world;
  world.images.refuse["i:1"] = "manifest unknown";
  create(world, with_disk("vm", "i:1"));
  EXPECT_EQ(phase(world, "vm"), "Scheduling");
  EXPECT_EQ(condition(world, "vm", "Synchronized")["reason"], "ErrImagePull");
  EXPECT_THAT(condition(world, "vm", "Synchronized")["message"].get<std::string>(),
              HasSubstr("manifest unknown"));
  world.advance(seconds(12));
  EXPECT_EQ(world.images.pulls["i:1"], 2);
  EXPECT_EQ(condition(world, "vm", "Synchronized")["reason"], "ImagePullBackOff");
  world.advance(seconds(15));
  EXPECT_EQ(world.images.pulls["i:1"], 2);
  // The back-off is not reset by a restart.
  world.crash();
  world.boot();
  EXPECT_EQ(world.images.pulls["i:1"], 2);
  world.images.refuse.clear();
  world.advance(seconds(10));
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(condition(world, "vm", "Synchronized"), Json());
  EXPECT_FALSE(world.get(api::instance_kind, "vm")["status"].contains("startFailure"));
}

TEST(Instance, OnePullForAllWhoWait) {
  World world;
  world.jobs->hold(Lane::pull);
  for (int i = 0; i < 20; ++i) create(world, with_disk("vm" + std::to_string(i), "i:1"));
  world.jobs->hold(Lane::pull, false);
  world.settle();
  EXPECT_EQ(world.images.pulls["i:1"], 1);
  EXPECT_EQ(world.host.alive(), 20u);
}

TEST(Instance, LongPullIsSeenInThePhase) {
  World world;
  world.jobs->hold(Lane::pull);
  create(world, with_disk("vm", "i:1"));
  EXPECT_EQ(phase(world, "vm"), "Pending");
  world.scheduler.advance(milliseconds(300));
  EXPECT_EQ(phase(world, "vm"), "Scheduling");
  EXPECT_THAT(world.events(api::instance_kind), Contains("Pulling: Pulling image \"i:1\""));
  world.jobs->hold(Lane::pull, false);
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Instance, FullDiskIsAConditionAndMendsItself) {
  World world;
  world.images.disk_is_full = true;
  create(world, with_disk("vm", "i:1"));
  EXPECT_EQ(condition(world, "vm", "Synchronized")["reason"], "DiskFull");
  EXPECT_THAT(world.events(api::instance_kind), Contains(HasSubstr("DiskFull: ")));
  world.advance(seconds(60));
  EXPECT_EQ(world.host.starts, 0);
  world.images.disk_is_full = false;
  world.advance(seconds(120));
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Instance, RefusedStartIsToldAndTriedAgain) {
  World world;
  world.hypervisor->refuse_starts = "unsupported configuration: no such CPU model";
  create(world, instance("vm"));
  EXPECT_EQ(condition(world, "vm", "Synchronized")["reason"], "SyncFailed");
  EXPECT_THAT(world.events(api::instance_kind), Contains(HasSubstr("no such CPU model")));
  EXPECT_EQ(world.get(api::instance_kind, "vm")["status"]["startFailure"]["consecutiveFailCount"],
            1);
  world.hypervisor->refuse_starts.clear();
  world.advance(seconds(4));
  EXPECT_EQ(phase(world, "vm"), "Scheduled");
  world.advance(seconds(3));
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Instance, WaitsForTheNetwork) {
  World world;
  world.hypervisor->refuse_network = "a network named vs0 exists and is not ours";
  world.crash();
  world.boot();
  world.hypervisor->refuse_network = "a network named vs0 exists and is not ours";
  world.network->ensure();
  world.settle();
  create(world, with_network("vm"));
  EXPECT_EQ(condition(world, "vm", "Synchronized")["reason"], "NetworkNotReady");
  world.hypervisor->refuse_network.clear();
  world.advance(seconds(6));
  EXPECT_EQ(phase(world, "vm"), "Running");
}

TEST(Instance, AddressesAreTheInstancesAloneAndComeBack) {
  World world({.network = "10.1.0.0/29"});  // five guests
  for (int i = 0; i < 6; ++i) create(world, with_network("vm" + std::to_string(i)));
  std::set<std::string> addresses;
  for (const Json& instance : world.instances()) {
    const Json& interfaces = member(instance, "status", "interfaces");
    if (interfaces.is_array()) addresses.insert(interfaces[0]["ipAddress"].get<std::string>());
  }
  EXPECT_THAT(addresses, SizeIs(5));
  EXPECT_EQ(condition(world, "vm5", "Synchronized")["reason"], "FailedAddress");
  world.crash();
  world.boot();
  world.remove(api::instance_kind, "vm2");
  world.settle();
  world.advance(seconds(20));
  EXPECT_EQ(phase(world, "vm5"), "Running");
}

TEST(Instance, OwnMacIsReservedAndGivenBack) {
  World world;
  Json object = with_network("vm");
  object["spec"]["domain"]["devices"]["interfaces"][0]["macAddress"] = "02:AA-bb:00:00:01";
  int status = 0;
  world.request("POST", instances_path, object, &status);
  EXPECT_EQ(status, 422);
  object["spec"]["domain"]["devices"]["interfaces"][0]["macAddress"] = "02-AA-bb-00-00-01";
  create(world, object);
  const Json interface = world.get(api::instance_kind, "vm")["status"]["interfaces"][0];
  EXPECT_EQ(interface["mac"], "02:aa:bb:00:00:01");
  EXPECT_THAT(world.host.reservations,
              Contains(hypervisor::Reservation{"02:aa:bb:00:00:01", interface["ipAddress"]}));
  object["metadata"]["name"] = "twin";
  create(world, object);
  EXPECT_THAT(condition(world, "twin", "Synchronized")["message"].get<std::string>(),
              HasSubstr("is in use by another instance"));
}

TEST(Instance, WaitsForMemoryOfTheHost) {
  World world({.guest_memory = 300ull << 20});
  for (int i = 0; i < 3; ++i) create(world, instance("vm" + std::to_string(i)));
  EXPECT_EQ(world.host.alive(), 2u);  // 64 MiB and 48 MiB of overhead each
  EXPECT_EQ(condition(world, "vm2", "PodScheduled")["reason"], "Unschedulable");
  EXPECT_THAT(condition(world, "vm2", "PodScheduled")["message"].get<std::string>(),
              HasSubstr("Insufficient memory"));
  world.remove(api::instance_kind, "vm0");
  world.settle();
  EXPECT_EQ(phase(world, "vm2"), "Running");
  EXPECT_EQ(condition(world, "vm2", "PodScheduled"), Json());
}

// ---- the hypervisor comes and goes ----

TEST(Instance, LostConnectionIsNoReasonToBelieveAnything) {
  World world;
  create(world, instance("vm"));
  world.hypervisor->disconnect();
  world.settle();
  world.advance(seconds(60));
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(condition(world, "vm", "Ready")["status"], "True");
  create(world, instance("next"));
  EXPECT_EQ(condition(world, "next", "Synchronized")["reason"], "HypervisorUnavailable");
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(phase(world, "next"), "Running");
  EXPECT_EQ(world.host.starts, 2);
}

TEST(Instance, DeathWhileTheHypervisorIsAway) {
  World world;
  create(world, instance("vm"));
  world.hypervisor->disconnect();
  world.settle();
  world.hypervisor->kill_process(world.uuid_of("vm"));
  world.settle();
  EXPECT_EQ(condition(world, "vm", "Ready")["reason"], "PodTerminating");
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Failed");
}

TEST(Instance, StartWhoseAnswerWasLostIsNotOrderedTwice) {
  World world;
  world.hypervisor->lose_next_answer = true;
  create(world, with_disk("vm", "i:1"));
  EXPECT_EQ(world.host.starts, 1);
  world.advance(seconds(30));
  EXPECT_EQ(world.host.starts, 1);
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.host.starts, 1);
  EXPECT_EQ(world.images.made[world.get(api::instance_kind, "vm")["metadata"]["uid"]], 1);
}

TEST(Instance, StartThatDidNotComeThroughIsOrderedAgainWithFreshDisks) {
  World world;
  world.hypervisor->lose_next_answer = true;
  create(world, with_disk("vm", "i:1"));
  world.host.domains.clear();  // libvirtd was killed while it was starting it
  world.hypervisor->connect();
  world.settle();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.images.made[world.get(api::instance_kind, "vm")["metadata"]["uid"]], 2);
}

// ---- the daemon is killed ----

TEST(Instance, RunningOnesAreAdopted) {
  World world;
  create(world, with_disk("vm", "i:1"));
  world.crash();
  world.boot();
  world.advance(seconds(60));
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.host.starts, 1);
  EXPECT_EQ(world.images.disks.size(), 1u);
}

TEST(Instance, DiedWhileNoDaemonRan) {
  World world;
  create(world, with_disk("vm", "i:1"));
  const std::string uuid = world.uuid_of("vm");
  world.crash();
  world.host.domains.erase(uuid);
  world.boot();
  EXPECT_EQ(phase(world, "vm"), "Failed");
  EXPECT_EQ(world.images.disks.size(), 0u);
}

TEST(Instance, DaemonKilledWithTheStartOrderedAndNotSeen) {
  World world;
  world.jobs->hold(Lane::start);
  create(world, with_disk("vm", "i:1"));
  world.jobs->run_without_results();
  world.crash();
  world.boot();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.host.starts, 1);
}

TEST(Instance, DaemonKilledBeforeTheStart) {
  World world;
  world.jobs->hold(Lane::start);
  create(world, with_disk("vm", "i:1"));
  ASSERT_EQ(phase(world, "vm"), "Scheduled");
  world.crash();
  world.boot();
  EXPECT_EQ(phase(world, "vm"), "Running");
  EXPECT_EQ(world.host.starts, 1);
}

TEST(Instance, StrayDomainsAndDisksAreRemoved) {
  World world;
  create(world, with_disk("vm", "i:1"));
  const auto key = store::Key{api::kubevirt_group, api::instance_kind, "default", "vm"};
  world.crash();
  world.disk.rows.erase(key);  // a backup was restored, say
  world.boot();
  world.settle();
  expect_nothing_left(world);
}

TEST(Instance, DomainOfOneThatLostItsFinalizersIsRemoved) {
  World world;
  create(world, with_disk("vm", "i:1"));
  ASSERT_EQ(phase(world, "vm"), "Running");
  int status = 0;
  world.request("PATCH", instances_path + std::string("/vm"),
                {{"metadata", {{"finalizers", nullptr}}}}, &status, "application/merge-patch+json");
  ASSERT_EQ(status, 200);
  world.remove(api::instance_kind, "vm");
  world.settle();
  expect_nothing_left(world);
}

// Only one of them can have it; the other must not hide its end.
TEST(Instance, EndIsSeenThoughAnotherAsksForTheSameUuid) {
  World world;
  Json first = instance("first");
  first["spec"]["domain"]["firmware"]["uuid"] = "11111111-0000-4000-a000-000000000000";
  Json second = first;
  second["metadata"]["name"] = "second";
  create(world, first);
  create(world, second);
  ASSERT_EQ(phase(world, "first"), "Running");
  world.hypervisor->destroy_from_outside(world.uuid_of("first"));
  world.settle();
  EXPECT_EQ(phase(world, "first"), "Failed");
}

// P4
TEST(Instance, OtherPeoplesDomainsAreLeftAlone) {
  World world;
  hypervisor::Domain foreign{.name = "default_vm", .uuid = "11111111-0000-4000-a000-000000000000"};
  foreign.mark = {"another-installation", "default", "vm", "some-uid", "hash"};
  world.host.domains[foreign.uuid] = {.description = foreign};
  world.crash();
  world.boot();
  create(world, instance("vm"));
  EXPECT_THAT(condition(world, "vm", "Synchronized")["message"].get<std::string>(),
              HasSubstr("already exists"));
  world.remove(api::instance_kind, "vm");
  EXPECT_EQ(world.get(api::instance_kind, "vm"), Json());
  EXPECT_TRUE(world.host.domains.contains(foreign.uuid));
}

TEST(Instance, StoreThatIsFullStopsNothingThatRuns) {
  World world;
  create(world, instance("vm"));
  world.committer->failing = true;
  int status = 0;
  world.request("POST", instances_path, instance("next"), &status);
  EXPECT_EQ(status, 507);
  world.hypervisor->pause(world.uuid_of("vm"), hypervisor::PauseReason::user);
  world.advance(seconds(5));
  EXPECT_EQ(condition(world, "vm", "Paused"), Json());
  world.committer->failing = false;
  world.advance(seconds(70));
  EXPECT_EQ(condition(world, "vm", "Paused")["status"], "True");
}

}  // namespace
}  // namespace virtset::test
