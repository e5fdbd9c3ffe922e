// A virtual machine that is saved when it goes, and the next one of its name that goes on from
// there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using api::member;
using std::chrono::seconds;
using store::Json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string machines = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines";

class SavedMachineTest : public testing::Test {
 protected:
  SavedMachineTest() {
    world.create_machine(
        "vm", {{"template",
                {{"spec",
                  {{"domain", {{"devices", {{"autoattachPodInterface", true}}}}},
                   {"terminationGracePeriodSeconds", 30},
                   {"volumes", {{{"name", "scratch"}, {"emptyDisk", {{"capacity", "1Mi"}}}}}}}}}}});
    world.settle();
    first = vm();
  }

  Json vm() const { return world.get(api::machine_kind, "vm"); }
  Json vmi() const { return world.get(api::instance_kind, "vm"); }
  Json saved() const {
    const auto object =
        world.store->get({api::virtset_group, api::saved_machine_kind, "default", "vm"});
    return object ? *object->document() : Json();
  }

  // As a pool does: the record first, then the deletion that asks for the memory.
  void scale_in(bool with_memory = true) {
    const Json owner{{"apiVersion", "v1"},
                     {"kind", "ConfigMap"},
                     {"name", "owner"},
                     {"uid", owner_uid},
                     {"controller", true}};
    const api::Kind& kind = *api::builtin_kinds().find(api::virtset_group, api::saved_machine_kind);
    const Json object =
        api::admit_new(kind, api::saved_machine(vm(), vmi(), owner, with_memory),
                       {"default", nullptr}, api::FieldValidation::strict, world.scheduler.now())
            .object;
    const std::string uid = object["metadata"]["uid"];
    world.store->write(
        {api::virtset_group, api::saved_machine_kind, "default", "vm"},
        [object](const store::Object*) { return store::Store::Mutation::put(object); }, nullptr);
    world.store->write(
        {api::kubevirt_group, api::machine_kind, "default", "vm"},
        [&, uid](const store::Object* current) {
          Json document = *current->document();
          if (with_memory) document["metadata"]["annotations"][api::save_annotation] = uid;
          return api::begin_deletion(document, std::nullopt, std::nullopt, world.scheduler.now());
        },
        nullptr);
  }
  void scale_out() {
    Json next = machine("vm");
    next["spec"] = first["spec"];
    next["spec"]["template"]["spec"]["domain"].erase("firmware");
    api::restore_machine(next, saved());
    int status = 0;
    world.request("POST", machines, next, &status);
    ASSERT_EQ(status, 201);
    world.settle();
  }
  // From now on its one disk is that of the claim "data".
  void run_on_a_claim() {
    world.request("POST", "/api/v1/namespaces/default/persistentvolumeclaims",
                  {{"metadata", {{"name", "data"}}},
                   {"spec",
                    {{"accessModes", {"ReadWriteOnce"}},
                     {"resources", {{"requests", {{"storage", "1Mi"}}}}}}}});
    world.request("PATCH", machines + "/vm",
                  {{"spec", {{"template", {{"spec", {{"volumes", volumes}}}}}}}}, nullptr,
                  "application/merge-patch+json");
    world.act("vm", "restart");
    world.settle();
  }
  void make_owner() {
    const Json made = world.request("POST", "/api/v1/namespaces/default/configmaps",
                                    {{"metadata", {{"name", "owner"}}}});
    owner_uid = made["metadata"]["uid"];
  }

  const Json volumes = {{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}};
  World world;
  Json first;
  std::string owner_uid;
};

TEST_F(SavedMachineTest, GoesOnWithItsMemoryDisksIdentityAndAddress) {
  make_owner();
  const Json card = vmi()["status"]["interfaces"][0];
  scale_in();
  world.settle();
  EXPECT_TRUE(vm().is_null());
  EXPECT_TRUE(vmi().is_null());
  EXPECT_EQ(world.host.alive(), 0u);
  EXPECT_THAT(world.host.asked_to_shut_down, IsEmpty());
  EXPECT_EQ(saved()["status"]["phase"], "Saved");
  EXPECT_GT(saved()["status"]["memoryBytes"], 0);
  // Its address waits for it.
  EXPECT_NE(world.network->addresses().owner_of(card["mac"]), "");
  world.crash();
  world.boot();
  EXPECT_NE(world.network->addresses().owner_of(card["mac"]), "");
  scale_out();
  EXPECT_EQ(world.host.alive(), 1u);
  const auto& domain = world.host.domains.begin()->second.description;
  EXPECT_THAT(domain.memory_file, HasSubstr("memory.used"));
  EXPECT_EQ(domain.uuid, first["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"]);
  EXPECT_EQ(vmi()["status"]["interfaces"][0], card);
  EXPECT_TRUE(saved().is_null());
  EXPECT_TRUE(world.images.saved.empty());
  // The next run is a boot.
  world.act("vm", "restart");
  world.settle();
  EXPECT_EQ(world.host.domains.begin()->second.description.memory_file, "");
}

TEST_F(SavedMachineTest, WithoutMemoryItKeepsItsIdentity) {
  make_owner();
  scale_in(false);
  world.settle();
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(1));
  EXPECT_EQ(saved()["status"]["phase"], "Saved");
  scale_out();
  const auto& domain = world.host.domains.begin()->second.description;
  EXPECT_EQ(domain.uuid, first["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"]);
  EXPECT_EQ(domain.memory_file, "");
  EXPECT_TRUE(saved().is_null());
}

// libvirt would refuse it, and the guest would not know itself.
TEST_F(SavedMachineTest, AnotherTemplateBoots) {
  make_owner();
  scale_in();
  world.settle();
  Json next = machine("vm");
  next["spec"] = first["spec"];
  next["spec"]["template"]["spec"]["domain"]["memory"]["guest"] = "128Mi";
  next["metadata"]["ownerReferences"] = saved()["metadata"]["ownerReferences"];
  api::restore_machine(next, saved());
  world.request("POST", machines, next);
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_EQ(world.host.domains.begin()->second.description.memory_file, "");
  EXPECT_TRUE(saved().is_null());
  EXPECT_TRUE(world.images.saved.empty());
}

// A guest that goes on over a disk which has changed meanwhile ruins it.
TEST_F(SavedMachineTest, NobodyElseGetsItsDisksMeanwhile) {
  make_owner();
  run_on_a_claim();
  first = vm();
  scale_in();
  world.settle();
  Json thief = instance("thief");
  thief["spec"]["volumes"] = volumes;
  world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", thief);
  world.settle();
  EXPECT_EQ(world.host.alive(), 0u);
  world.crash();
  world.boot();
  EXPECT_EQ(world.host.alive(), 0u);
  const Json waiting = world.get(api::instance_kind, "thief");
  EXPECT_THAT(waiting["status"]["conditions"].dump(), HasSubstr("PvcInUse"));
  scale_out();
  EXPECT_EQ(world.host.alive_of("default_vm"), 1u);
  EXPECT_TRUE(saved().is_null());
  world.remove(api::machine_kind, "vm");
  world.settle();
  EXPECT_EQ(world.host.alive_of("default_thief"), 1u);
}

// Annotations are the users' too: what they say must not lead to the files of others.
TEST_F(SavedMachineTest, AnnotationsAloneReachNothing) {
  world.images.saved["../volumes"] = {};
  world.images.saved["k"] = {};
  for (const std::string key : {"../volumes", "k"}) {
    Json other = instance("other");
    other["metadata"]["annotations"] = {{api::restore_annotation, key},
                                        {api::save_annotation, key}};
    world.request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances", other);
    world.settle();
    EXPECT_EQ(world.host.alive_of("default_other"), 1u);
    world.remove(api::instance_kind, "other");
    world.settle();
    EXPECT_EQ(world.host.alive_of("default_other"), 0u);
  }
  EXPECT_THAT(world.images.saved, SizeIs(2));
  EXPECT_TRUE(world.host.saved.empty());
}

// The memory knows another template than the next one would run.
TEST_F(SavedMachineTest, GuestOfAnOlderTemplateIsNotSaved) {
  make_owner();
  world.request(
      "PATCH", machines + "/vm",
      {{"spec", {{"template", {{"spec", {{"domain", {{"memory", {{"guest", "96Mi"}}}}}}}}}}}},
      nullptr, "application/merge-patch+json");
  world.settle();
  scale_in();
  world.settle();
  EXPECT_TRUE(world.host.saved.empty());
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(1));
}

TEST_F(SavedMachineTest, DiskThatIsDeletedTakesTheMemoryAlong) {
  make_owner();
  run_on_a_claim();
  scale_in();
  world.settle();
  ASSERT_FALSE(world.images.saved.empty());
  world.request("DELETE", "/api/v1/namespaces/default/persistentvolumeclaims/data");
  world.settle();
  EXPECT_TRUE(saved().is_null());
  EXPECT_TRUE(world.images.saved.empty());
  EXPECT_TRUE(
      world.request("GET", "/api/v1/namespaces/default/persistentvolumeclaims")["items"].empty());
}

TEST_F(SavedMachineTest, GuestHasItsGraceAfterASaveThatFailed) {
  make_owner();
  world.hypervisor->guests_obey = false;
  scale_in();
  // As if writing the memory had taken longer than the grace period.
  world.scheduler.advance(seconds(40));
  world.hypervisor->refuse_save = "No space left on device";
  world.settle();
  EXPECT_EQ(world.host.alive(), 1u);
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(1));
  world.advance(seconds(31));
  EXPECT_EQ(world.host.alive(), 0u);
}

// A patch may leave out of a record what we wrote into it.
TEST_F(SavedMachineTest, RecordWithoutContentHarmsNobody) {
  make_owner();
  scale_in(false);
  world.settle();
  const std::string path = "/apis/virtset.io/v1alpha1/namespaces/default/savedvirtualmachines/vm";
  int status = 0;
  world.request("PATCH", path, {{"spec", nullptr}}, &status, "application/merge-patch+json");
  EXPECT_EQ(status, 200);
  world.settle();
  world.crash();
  world.boot();
  world.request("DELETE", path);
  world.settle();
  EXPECT_TRUE(saved().is_null());
}

TEST_F(SavedMachineTest, MemoryThatCannotBeSavedIsSaidAndTheGuestIsShutDown) {
  make_owner();
  world.hypervisor->refuse_save = "No space left on device";
  scale_in();
  world.settle();
  EXPECT_TRUE(vm().is_null());
  EXPECT_THAT(world.host.asked_to_shut_down, SizeIs(1));
  EXPECT_THAT(world.events(api::instance_kind), Contains(HasSubstr("SaveFailed: No space left")));
  EXPECT_EQ(saved()["status"]["memoryBytes"], 0);
  EXPECT_THAT(saved()["status"]["message"].get<std::string>(), HasSubstr("was not saved"));
  scale_out();
  EXPECT_EQ(world.host.alive(), 1u);
}

TEST_F(SavedMachineTest, RecordThatIsDeletedMeanwhileTakesTheStateAlong) {
  make_owner();
  world.jobs->hold(Lane::save);
  world.jobs->hold(Lane::disk);
  scale_in();
  world.settle();
  world.request("DELETE", "/apis/virtset.io/v1alpha1/namespaces/default/savedvirtualmachines/vm");
  world.jobs->hold(Lane::save, false);
  world.settle();
  EXPECT_EQ(vmi()["status"]["phase"], "Succeeded");
  world.jobs->hold(Lane::disk, false);
  world.settle();
  EXPECT_TRUE(vmi().is_null());
  EXPECT_TRUE(saved().is_null());
  EXPECT_TRUE(world.images.saved.empty());
}

TEST_F(SavedMachineTest, DeletingTheRecordForgetsTheState) {
  make_owner();
  const Json card = vmi()["status"]["interfaces"][0];
  scale_in();
  world.settle();
  ASSERT_FALSE(world.images.saved.empty());
  // By the garbage collector, when its owner goes.
  world.request("DELETE", "/api/v1/namespaces/default/configmaps/owner");
  world.settle();
  EXPECT_TRUE(saved().is_null());
  EXPECT_TRUE(world.images.saved.empty());
  EXPECT_EQ(world.network->addresses().owner_of(card["mac"]), "");
}

// Wherever the daemon is killed: saved once, restored once, and nothing left over.
TEST(SavedMachineCrash, GoesOnAfterAnyCommit) {
  for (int commits = 1; commits < 24; ++commits) {
    SCOPED_TRACE(commits);
    class Case : public SavedMachineTest {
     public:
      void TestBody() override {}
      void run(int commits) {
        make_owner();
        world.committer->last_commit = world.committer->commits + commits;
        scale_in();
        world.settle();
        world.crash();
        world.boot();
        world.advance(seconds(1));
        if (!vm().is_null()) return;  // the deletion was not acknowledged
        ASSERT_FALSE(saved().is_null());
        EXPECT_EQ(world.host.alive(), 0u);
        ASSERT_GT(saved()["status"]["memoryBytes"], 0);
        world.committer->last_commit = world.committer->commits + commits;
        try {
          scale_out();
        } catch (const std::exception&) {
        }
        world.crash();
        world.boot();
        world.advance(seconds(1));
        if (vm().is_null()) return;
        EXPECT_EQ(world.host.alive(), 1u);
        EXPECT_TRUE(saved().is_null());
        EXPECT_TRUE(world.images.saved.empty());
        EXPECT_EQ(world.host.starts, 2);
        EXPECT_THAT(world.images.disks, SizeIs(1));
      }
    };
    Case one;
    one.run(commits);
  }
}

}  // namespace
}  // namespace virtset::test
