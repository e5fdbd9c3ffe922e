// Virtual machines: run strategies, start, stop and restart, what is said of them, and what stays
// with them (facts: KubeVirt's VirtualMachine).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachine/rules.h"
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

class MachineTest : public testing::Test {
 protected:
  Json vm(const std::string& name = "vm") const { return world.get(api::machine_kind, name); }
  Json vmi(const std::string& name = "vm") const { return world.get(api::instance_kind, name); }
  std::string uid() const { return vmi().is_null() ? "" : vmi()["metadata"]["uid"]; }
  std::string printed() const { return vm()["status"]["printableStatus"]; }
  Json condition(const char* type) const { return api::find_condition(vm()["status"], type); }
  Json patch(const Json& body) {
    return world.request("PATCH", "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/vm",
                         body, nullptr, "application/merge-patch+json");
  }
  void crash_guest() {
    const std::string uuid = world.uuid_of("vm");
    world.hypervisor->kill_process(uuid);
    world.settle();
    world.hypervisor->notice_death(uuid);
    world.settle();
  }
  void power_off() {
    world.hypervisor->power_off_guest(world.uuid_of("vm"));
    world.settle();
  }
  void run(const std::string& strategy) {
    world.create_machine("vm", {{"runStrategy", strategy}});
    world.settle();
  }

  World world;
};

TEST_F(MachineTest, RunsAsAnInstanceOfItsName) {
  world.create_machine(
      "vm",
      {{"template", {{"metadata", {{"labels", {{"a", "b"}}}, {"annotations", {{"c", "d"}}}}}}}});
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  const Json owner = vmi()["metadata"]["ownerReferences"][0];
  EXPECT_EQ(owner["kind"], "VirtualMachine");
  EXPECT_EQ(owner["uid"], vm()["metadata"]["uid"]);
  EXPECT_EQ(owner["controller"], true);
  EXPECT_EQ(vmi()["metadata"]["labels"]["a"], "b");
  EXPECT_EQ(vmi()["metadata"]["annotations"]["c"], "d");
  EXPECT_EQ(printed(), "Running");
  EXPECT_EQ(vm()["status"]["created"], true);
  EXPECT_EQ(vm()["status"]["ready"], true);
  EXPECT_EQ(vm()["status"]["runStrategy"], "Always");
  EXPECT_EQ(condition("Ready")["status"], "True");
  EXPECT_TRUE(condition("RestartRequired").is_null());
  EXPECT_THAT(world.events(api::machine_kind),
              Contains("SuccessfulCreate: Started the virtual machine by creating the new virtual "
                       "machine instance vm"));
}

TEST_F(MachineTest, HaltedDoesNotRun) {
  run("Halted");
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(printed(), "Stopped");
  EXPECT_EQ(condition("Ready")["reason"], "VMINotExists");
  EXPECT_EQ(vm()["status"]["created"], false);
}

TEST_F(MachineTest, LegacyRunningIsKeptAsItIsWritten) {
  world.create_machine("vm", {{"runStrategy", nullptr}, {"running", true}});
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(world.act("vm", "stop"), 202);
  world.settle();
  EXPECT_EQ(vm()["spec"]["running"], false);
  EXPECT_FALSE(vm()["spec"].contains("runStrategy"));
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(world.act("vm", "start"), 202);
  EXPECT_EQ(vm()["spec"]["running"], true);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
}

TEST_F(MachineTest, AlwaysIsStartedAgainWhateverEndsIt) {
  run("Always");
  const std::string first = uid();
  world.advance(seconds(61));
  power_off();
  EXPECT_NE(uid(), first);
  EXPECT_EQ(world.host.alive(), 1u);
  const std::string second = uid();
  world.advance(seconds(61));
  crash_guest();
  EXPECT_NE(uid(), second);
  EXPECT_EQ(printed(), "Running");
}

TEST_F(MachineTest, RerunOnFailureIsStartedAgainAfterAFailureAlone) {
  run("RerunOnFailure");
  EXPECT_EQ(world.host.alive(), 1u);
  world.advance(seconds(61));
  crash_guest();
  EXPECT_EQ(world.host.alive(), 1u);
  world.advance(seconds(61));
  power_off();
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_TRUE(vmi().is_null());
  EXPECT_EQ(printed(), "Stopped");
  EXPECT_EQ(world.act("vm", "start"), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_FALSE(vm()["status"].contains("stateChangeRequests"));
}

TEST_F(MachineTest, ManualDoesWhatItIsAskedFor) {
  run("Manual");
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(world.act("vm", "stop"), 409);
  EXPECT_EQ(world.act("vm", "restart"), 409);
  EXPECT_EQ(world.act("vm", "start"), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(world.act("vm", "start"), 409);
  const std::string first = uid();
  EXPECT_EQ(world.act("vm", "restart"), 202);
  world.settle();
  EXPECT_NE(uid(), first);
  EXPECT_EQ(world.host.alive(), 1u);
  // KubeVirt: one that ended is kept.
  power_off();
  EXPECT_EQ(vmi()["status"]["phase"], "Succeeded");
  EXPECT_EQ(printed(), "Stopped");
  EXPECT_EQ(world.act("vm", "start"), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(world.act("vm", "stop"), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(vm()["spec"]["runStrategy"], "Manual");
}

TEST_F(MachineTest, OnceIsNotStartedAgain) {
  run("Once");
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(world.act("vm", "start"), 409);
  EXPECT_EQ(world.act("vm", "restart"), 409);
  power_off();
  EXPECT_EQ(vmi()["status"]["phase"], "Succeeded");
  world.advance(seconds(400));
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(world.host.starts, 1);
}

TEST_F(MachineTest, StopOfAlwaysHaltsItAndStartUndoesThat) {
  run("Always");
  EXPECT_EQ(world.act("vm", "start"), 409);
  EXPECT_EQ(world.act("vm", "stop"), 202);
  EXPECT_EQ(vm()["spec"]["runStrategy"], "Halted");
  world.settle();
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(world.act("vm", "stop"), 409);
  EXPECT_EQ(world.act("vm", "restart"), 409);
  EXPECT_EQ(world.act("vm", "start"), 202);
  world.settle();
  EXPECT_EQ(vm()["spec"]["runStrategy"], "Always");
  EXPECT_EQ(world.host.alive(), 1u);
}

TEST_F(MachineTest, RestartKeepsIdentityAndAddress) {
  world.create_machine(
      "vm",
      {{"template", {{"spec", {{"domain", {{"devices", {{"autoattachPodInterface", true}}}}}}}}}});
  world.settle();
  const Json before = vmi();
  const Json card = before["status"]["interfaces"][0];
  EXPECT_EQ(before["spec"]["domain"]["firmware"],
            vm()["spec"]["template"]["spec"]["domain"]["firmware"]);
  // Others come and take what is free.
  world.act("vm", "stop");
  world.settle();
  ASSERT_TRUE(vmi().is_null());
  Json other = instance("other");
  other["spec"]["domain"]["devices"] = Json::object();
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", other);
  world.crash();
  world.boot();
  world.act("vm", "start");
  world.settle();
  EXPECT_NE(vmi()["metadata"]["uid"], before["metadata"]["uid"]);
  EXPECT_EQ(vmi()["spec"]["domain"]["firmware"], before["spec"]["domain"]["firmware"]);
  EXPECT_EQ(vmi()["status"]["interfaces"][0], card);
  EXPECT_NE(vmi("other")["status"]["interfaces"][0]["mac"], card["mac"]);
  // And when it is gone for good they are free.
  world.remove(api::machine_kind, "vm");
  world.settle();
  EXPECT_EQ(world.network->addresses().owner_of(card["mac"]), "");
}

TEST_F(MachineTest, ForcedRestartDoesNotWaitForTheGuest) {
  run("Always");
  world.hypervisor->guests_obey = false;
  const std::string first = uid();
  EXPECT_EQ(world.act("vm", "restart", {{"gracePeriodSeconds", 5}}), 400);
  EXPECT_EQ(world.act("vm", "restart"), 202);
  world.advance(seconds(2));
  EXPECT_EQ(uid(), first);
  EXPECT_EQ(printed(), "Stopping");
  EXPECT_EQ(world.act("vm", "restart"), 409);
  world.advance(seconds(30));
  EXPECT_NE(uid(), first);
  const std::string second = uid();
  EXPECT_EQ(world.act("vm", "restart", {{"gracePeriodSeconds", 0}}), 202);
  world.settle();
  EXPECT_NE(uid(), second);
}

TEST_F(MachineTest, StopMayBeHurried) {
  run("Always");
  world.hypervisor->guests_obey = false;
  EXPECT_EQ(world.act("vm", "stop"), 202);
  world.advance(seconds(1));
  EXPECT_EQ(printed(), "Stopping");
  EXPECT_EQ(world.act("vm", "stop", {{"gracePeriod", 2}}), 202);
  world.advance(seconds(3));
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(printed(), "Stopped");
}

// KubeVirt: a guest that is booting may miss the signal, so it is sent again.
TEST_F(MachineTest, GuestIsAskedAgainUntilItsGraceIsOver) {
  run("Always");
  world.hypervisor->guests_obey = false;
  world.act("vm", "stop");
  world.advance(seconds(12));
  EXPECT_EQ(world.host.asked_to_shut_down.size(), 3u);
  world.advance(seconds(20));
  EXPECT_EQ(world.host.alive(), 0u);
}

TEST_F(MachineTest, DryRunChangesNothing) {
  run("Always");
  EXPECT_EQ(world.act("vm", "stop", {{"dryRun", {"All"}}}), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(vm()["spec"]["runStrategy"], "Always");
}

TEST_F(MachineTest, ChangedTemplateAsksForARestart) {
  run("Always");
  patch({{"metadata", {{"labels", {{"x", "y"}}}}}});
  world.settle();
  EXPECT_TRUE(condition("RestartRequired").is_null());
  patch({{"spec", {{"template", {{"spec", {{"domain", {{"memory", {{"guest", "96Mi"}}}}}}}}}}}});
  world.settle();
  EXPECT_EQ(condition("RestartRequired")["status"], "True");
  EXPECT_EQ(vmi()["spec"]["domain"]["memory"]["guest"], "64Mi");
  world.act("vm", "restart");
  world.settle();
  EXPECT_EQ(vmi()["spec"]["domain"]["memory"]["guest"], "96Mi");
  EXPECT_TRUE(condition("RestartRequired").is_null());
  EXPECT_EQ(vm()["status"]["observedGeneration"], vm()["metadata"]["generation"]);
}

TEST_F(MachineTest, ConditionsOfTheInstanceAreMirrored) {
  run("Always");
  world.hypervisor->pause(world.uuid_of("vm"), hypervisor::PauseReason::io_error);
  world.settle();
  EXPECT_EQ(condition("Paused")["reason"], "PausedIOError");
  EXPECT_EQ(condition("Ready")["status"], "False");
  EXPECT_EQ(printed(), "Paused");
  world.hypervisor->resume(world.uuid_of("vm"));
  world.settle();
  EXPECT_TRUE(condition("Paused").is_null());
  EXPECT_EQ(printed(), "Running");
  world.act("vm", "stop");
  world.settle();
  EXPECT_TRUE(condition("LiveMigratable").is_null());
}

TEST_F(MachineTest, CrashLoopBacksOffAlsoOverARestartOfTheDaemon) {
  run("Always");
  crash_guest();  // the first one is started again at once
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(vm()["status"]["startFailure"]["consecutiveFailCount"], 1);
  crash_guest();
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_EQ(printed(), "CrashLoopBackOff");
  EXPECT_EQ(vm()["status"]["startFailure"]["consecutiveFailCount"], 2);
  world.crash();
  world.boot();
  world.advance(seconds(8));
  EXPECT_EQ(world.host.alive(), 0u);
  world.advance(seconds(8));  // 10 s, and up to half of it more
  EXPECT_EQ(world.host.alive(), 1u);
  crash_guest();
  world.advance(seconds(38));
  EXPECT_EQ(world.host.alive(), 0u);
  // Whoever asks does not wait.
  EXPECT_EQ(world.act("vm", "stop"), 202);
  EXPECT_EQ(world.act("vm", "start"), 202);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_FALSE(vm()["status"].contains("startFailure"));
}

TEST_F(MachineTest, StableRunEndsTheBackOff) {
  run("Always");
  crash_guest();
  world.advance(seconds(59));
  EXPECT_TRUE(vm()["status"].contains("startFailure"));
  world.advance(seconds(2));
  EXPECT_FALSE(vm()["status"].contains("startFailure"));
}

TEST_F(MachineTest, ImageThatCannotBePulledIsNamedInItsStatus) {
  world.images.refuse["nowhere/none:1"] = "unauthorized";
  world.create_machine(
      "vm", {{"template",
              {{"spec",
                {{"volumes",
                  {{{"name", "root"}, {"containerDisk", {{"image", "nowhere/none:1"}}}}}}}}}}});
  world.settle();
  EXPECT_EQ(printed(), "ErrImagePull");
  EXPECT_THAT(condition("Synchronized")["message"].get<std::string>(), HasSubstr("unauthorized"));
}

TEST_F(MachineTest, DeletionTakesTheInstanceAlong) {
  run("Always");
  world.hypervisor->guests_obey = false;
  world.remove(api::machine_kind, "vm");
  EXPECT_EQ(printed(), "Terminating");
  EXPECT_FALSE(vmi().is_null());
  world.advance(seconds(31));
  EXPECT_TRUE(vm().is_null());
  EXPECT_TRUE(vmi().is_null());
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_TRUE(world.images.disks.empty());
}

TEST_F(MachineTest, OrphanedInstanceRunsOnAndIsAdoptedAgain) {
  run("Always");
  const std::string first = uid();
  world.remove(api::machine_kind, "vm", "Orphan");
  world.settle();
  EXPECT_TRUE(vm().is_null());
  EXPECT_EQ(uid(), first);
  EXPECT_FALSE(vmi()["metadata"].contains("ownerReferences"));
  run("Always");
  EXPECT_EQ(uid(), first);
  EXPECT_EQ(vmi()["metadata"]["ownerReferences"][0]["uid"], vm()["metadata"]["uid"]);
  EXPECT_EQ(world.host.starts, 1);
}

TEST_F(MachineTest, InstanceOfAnotherOwnerIsLeftAlone) {
  Json other = instance("vm");
  other["metadata"]["ownerReferences"] = {{{"apiVersion", "apps/v1"},
                                           {"kind", "Deployment"},
                                           {"name", "d"},
                                           {"uid", "u"},
                                           {"controller", true}}};
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", other);
  run("Always");
  EXPECT_EQ(condition("Failure")["reason"], "FailedCreate");
  EXPECT_THAT(
      world.events(api::machine_kind),
      Contains(HasSubstr("FailedCreate: Error creating virtual machine instance: there is")));
  world.remove(api::instance_kind, "vm");
  world.settle();
  EXPECT_TRUE(condition("Failure").is_null());
  EXPECT_EQ(printed(), "Running");
}

TEST_F(MachineTest, TemplateThatIsRefusedSaysWhy) {
  world.create_machine("vm", {{"template", {{"spec", {{"domain", {{"memory", nullptr}}}}}}}});
  world.settle();
  EXPECT_EQ(condition("Failure")["reason"], "FailedCreate");
  EXPECT_THAT(condition("Failure")["message"].get<std::string>(), HasSubstr("no memory requested"));
  patch({{"spec", {{"template", {{"spec", {{"domain", {{"memory", {{"guest", "64Mi"}}}}}}}}}}}});
  world.advance(seconds(61));
  EXPECT_TRUE(condition("Failure").is_null());
  EXPECT_EQ(printed(), "Running");
}

TEST_F(MachineTest, GuestRebootIsNoExit) {
  run("Always");
  const std::string first = uid();
  // A reboot is no event of the domain's life: libvirt resets it in place.
  world.advance(seconds(600));
  EXPECT_EQ(uid(), first);
  EXPECT_EQ(world.host.starts, 1);
}

// Wherever the daemon is killed, what was acknowledged happens, once.
TEST(MachineCrash, RestartIsCarriedOutOnceAfterAnyCommit) {
  int acknowledged_runs = 0;
  for (int commits = 0; commits < 16; ++commits) {
    World world;
    world.create_machine("vm", {{"runStrategy", "RerunOnFailure"}});
    world.settle();
    const Json before = world.get(api::instance_kind, "vm");
    world.committer->last_commit = world.committer->commits + commits;
    bool acknowledged = false;
    try {
      acknowledged = world.act("vm", "restart") == 202;
    } catch (const std::runtime_error&) {
    }
    world.crash();
    world.boot();
    world.settle();
    const Json after = world.get(api::instance_kind, "vm");
    ASSERT_FALSE(after.is_null()) << commits;
    EXPECT_EQ(world.host.alive(), 1u) << commits;
    EXPECT_EQ(after["status"]["phase"], "Running") << commits;
    EXPECT_EQ(world.host.starts, acknowledged ? 2 : 1) << commits;
    acknowledged_runs += acknowledged ? 1 : 0;
  }
  EXPECT_GT(acknowledged_runs, 5);
}

}  // namespace
}  // namespace virtset::test
