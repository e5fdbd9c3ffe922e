// What an instance's volumes refer to: it waits for it, says so, and is woken by its coming.

#include "tests/unit/daemon/disks_fixture.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

const std::string secrets_path = "/api/v1/namespaces/default/secrets";
const std::string config_maps_path = "/api/v1/namespaces/default/configmaps";

Json secret(const std::string& name, const Json& text) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", {{"name", name}}},
          {"stringData", text}};
}

class InstanceVolumes : public Disks {
 protected:
  const hypervisor::Disk& disk(std::size_t index = 0) const {
    return world.host.domains.begin()->second.description.disks.at(index);
  }
  // The ISO that was made for the only disk.
  images::SeedIso iso() const {
    return std::get<images::SeedIso>(world.images.plans.begin()->second.at(0));
  }
};

TEST_F(InstanceVolumes, ClaimIsAttachedAsItIs) {
  create_claim(claim("data"));
  create_instance(user_of_claim("vm", "data"));
  ASSERT_EQ(phase(vmi("vm")), "Running");
  EXPECT_EQ(disk().path, world.volumes.file(uid(claim_of("data"))));
  EXPECT_EQ(disk().format, "raw");
  EXPECT_FALSE(disk().backing);
  EXPECT_FALSE(disk().read_only);
  EXPECT_FALSE(disk().shareable);
  const Json info = vmi("vm")["status"]["volumeStatus"][0]["persistentVolumeClaimInfo"];
  EXPECT_EQ(info["claimName"], "data");
  EXPECT_EQ(info["capacity"]["storage"], "1Gi");
}

TEST_F(InstanceVolumes, MissingClaimIsWaitedFor) {
  create_instance(user_of_claim("vm", "data"));
  EXPECT_EQ(phase(vmi("vm")), "Pending");
  EXPECT_EQ(reason(vmi("vm"), "Synchronized"), "FailedPvcNotFound");
  EXPECT_THAT(message(vmi("vm"), "Synchronized"),
              AllOf(HasSubstr("default/data"), HasSubstr("\"disk\"")));
  EXPECT_THAT(world.events("VirtualMachineInstance"), Contains(HasSubstr("FailedPvcNotFound")));
  create_claim(claim("data"));
  EXPECT_EQ(phase(vmi("vm")), "Running");
  EXPECT_TRUE(condition(vmi("vm"), "Synchronized").is_null());
}

TEST_F(InstanceVolumes, WaitingGoesOnOverARestart) {
  create_instance(user_of_claim("vm", "data"));
  world.crash();
  world.boot();
  create_claim(claim("data"));
  EXPECT_EQ(phase(vmi("vm")), "Running");
}

TEST_F(InstanceVolumes, NobodyPollsForWhatIsMissing) {
  create_instance(user_of_claim("vm", "data"));
  const auto revision = world.store->revision();
  const auto timers = world.scheduler.timers();
  world.advance(seconds(60));
  EXPECT_EQ(world.store->revision(), revision);
  EXPECT_LE(world.scheduler.timers(), timers);
}

TEST_F(InstanceVolumes, UnfinishedDataVolumeIsWaitedForAndNamed) {
  world.volumes.refuse["http://s/d"] = "down";
  create_data_volume(data_volume("root", {{"http", {{"url", "http://s/d"}}}}));
  create_instance(user_of_data_volume("vm", "root"));
  EXPECT_EQ(phase(vmi("vm")), "Pending");
  EXPECT_EQ(reason(vmi("vm"), "DataVolumesReady"), "NotAllDVsReady");
  EXPECT_THAT(message(vmi("vm"), "DataVolumesReady"),
              AllOf(HasSubstr("default/root"), HasSubstr("ImportInProgress")));
  world.volumes.refuse.clear();
  world.advance(seconds(10));
  EXPECT_EQ(phase(vmi("vm")), "Running");
  EXPECT_EQ(condition(vmi("vm"), "DataVolumesReady")["status"], "True");
}

TEST_F(InstanceVolumes, DataVolumeWithoutObjectIsItsClaim) {
  create_instance(user_of_data_volume("vm", "data"));
  EXPECT_EQ(reason(vmi("vm"), "Synchronized"), "FailedPvcNotFound");
  create_claim(claim("data"));
  EXPECT_EQ(phase(vmi("vm")), "Running");
}

TEST_F(InstanceVolumes, SecondInstanceWaitsForTheFirst) {
  create_claim(claim("data"));
  create_instance(user_of_claim("one", "data"));
  create_instance(user_of_claim("two", "data"));
  EXPECT_EQ(phase(vmi("one")), "Running");
  EXPECT_EQ(phase(vmi("two")), "Pending");
  EXPECT_EQ(reason(vmi("two"), "Synchronized"), "PvcInUse");
  EXPECT_THAT(message(vmi("two"), "Synchronized"),
              AllOf(HasSubstr("default/data"), HasSubstr("default/one")));
  world.crash();
  world.boot();
  EXPECT_EQ(phase(vmi("two")), "Pending") << "the restart forgot who has it";
  world.remove(api::instance_kind, "one");
  world.settle();
  EXPECT_EQ(phase(vmi("two")), "Running");
}

TEST_F(InstanceVolumes, EndedInstanceLetsGoOfItsClaim) {
  create_claim(claim("data"));
  create_instance(user_of_claim("one", "data"));
  create_instance(user_of_claim("two", "data"));
  world.hypervisor->power_off_guest(world.uuid_of("one"));
  world.settle();
  EXPECT_EQ(phase(vmi("one")), "Succeeded");
  EXPECT_EQ(phase(vmi("two")), "Running");
}

TEST_F(InstanceVolumes, ManyMayRead) {
  create_claim(claim("data"));
  for (const char* name : {"one", "two"}) {
    create_instance(
        user_of(name, {{"persistentVolumeClaim", {{"claimName", "data"}, {"readOnly", true}}}}));
    EXPECT_EQ(phase(vmi(name)), "Running");
  }
  EXPECT_TRUE(disk().read_only);
  create_instance(user_of_claim("writer", "data"));
  EXPECT_EQ(phase(vmi("writer")), "Pending");
}

TEST_F(InstanceVolumes, ManyMayWriteWhereTheClaimSaysSo) {
  Json shared = claim("data");
  shared["spec"]["accessModes"] = {"ReadWriteMany"};
  create_claim(shared);
  for (const char* name : {"one", "two"}) {
    create_instance(user_of_claim(name, "data"));
    EXPECT_EQ(phase(vmi(name)), "Running");
  }
  EXPECT_TRUE(disk().shareable);
}

TEST_F(InstanceVolumes, EphemeralLeavesTheClaimAsItIs) {
  create_claim(claim("golden"));
  const Json source{{"ephemeral", {{"persistentVolumeClaim", {{"claimName", "golden"}}}}}};
  for (const char* name : {"one", "two"}) {
    create_instance(user_of(name, source));
    EXPECT_EQ(phase(vmi(name)), "Running");
  }
  const auto overlay = std::get<images::VolumeOverlay>(world.images.plans.begin()->second.at(0));
  EXPECT_EQ(overlay.file, world.volumes.file(uid(claim_of("golden"))));
  EXPECT_EQ(overlay.size, 1ull << 30);
}

TEST_F(InstanceVolumes, ClaimInUseIsDeletedWhenItIsFree) {
  create_claim(claim("data"));
  create_instance(user_of_claim("vm", "data"));
  remove(claims_path + "/data");
  EXPECT_TRUE(claim_of("data")["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(world.volumes.volumes.size(), 1u);
  world.crash();
  world.boot();
  EXPECT_EQ(world.volumes.volumes.size(), 1u) << "deleted under a running guest";
  // Nobody new gets it.
  create_instance(user_of_claim("next", "data"));
  EXPECT_EQ(reason(vmi("next"), "Synchronized"), "FailedPvcNotFound");
  world.remove(api::instance_kind, "vm");
  world.settle();
  EXPECT_TRUE(claim_of("data").is_null());
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
}

TEST_F(InstanceVolumes, SecretFeedsCloudInit) {
  Json source{{"cloudInitNoCloud",
               {{"secretRef", {{"name", "user"}}}, {"networkDataSecretRef", {{"name", "net"}}}}}};
  create_instance(user_of("vm", source));
  EXPECT_EQ(phase(vmi("vm")), "Pending");
  EXPECT_EQ(reason(vmi("vm"), "Synchronized"), "FailedReferenceNotFound");
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("Secret default/user"));
  create(secrets_path, secret("user", {{"password", "hunter2"}}));
  EXPECT_EQ(reason(vmi("vm"), "Synchronized"), "FailedReferenceKeyNotFound");
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("userdata and userData"));
  EXPECT_EQ(patch(secrets_path + "/user", {{"stringData", {{"userData", "#!/bin/hunter2"}}}}), 200);
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("Secret default/net"));
  create(secrets_path, secret("net", {{"networkdata", "version: 2"}}));
  EXPECT_EQ(phase(vmi("vm")), "Running");
  EXPECT_EQ(iso().label, "cidata");
  EXPECT_EQ(iso().files.at("user-data"), "#!/bin/hunter2");
  EXPECT_EQ(iso().files.at("network-config"), "version: 2");
  EXPECT_THAT(vmi("vm").dump(), Not(HasSubstr("hunter2")));
  for (const std::string& event : world.events("VirtualMachineInstance")) {
    EXPECT_THAT(event, Not(HasSubstr("hunter2")));
  }
}

TEST_F(InstanceVolumes, ConfigDriveHasOpenStacksLayout) {
  create_instance(user_of("vm", {{"cloudInitConfigDrive", {{"userData", "#cloud-config"}}}}));
  EXPECT_EQ(iso().label, "config-2");
  EXPECT_EQ(iso().files.at("openstack/latest/user_data"), "#cloud-config");
  const Json meta = Json::parse(iso().files.at("openstack/latest/meta_data.json"));
  EXPECT_EQ(meta["instance_id"], "vm.default");
  EXPECT_EQ(meta["hostname"], "vm");
  EXPECT_EQ(meta["uuid"], world.uuid_of("vm"));
}

TEST_F(InstanceVolumes, OnlyTheFirstCloudInitVolumeCounts) {
  Json object = user_of("vm", {{"cloudInitNoCloud", {{"userData", "first"}}}});
  object["spec"]["volumes"].push_back(
      {{"name", "other"}, {"cloudInitNoCloud", {{"userData", "second"}}}});
  create_instance(object);
  for (const auto& planned : world.images.plans.begin()->second) {
    EXPECT_EQ(std::get<images::SeedIso>(planned).files.at("user-data"), "first");
  }
}

TEST_F(InstanceVolumes, KeysOfASecretAndAConfigMapAreFiles) {
  create(secrets_path, secret("s", {{"key", "value"}}));
  create_instance(user_of("vm", {{"secret", {{"secretName", "s"}, {"volumeLabel", "mine"}}}}));
  EXPECT_EQ(iso().label, "mine");
  EXPECT_THAT(iso().files, ElementsAre(Pair("key", "value")));
  world.remove(api::instance_kind, "vm");
  world.images.plans.clear();
  create_instance(user_of("vm", {{"configMap", {{"name", "c"}}}}));
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("ConfigMap default/c"));
  create(config_maps_path, {{"metadata", {{"name", "c"}}},
                            {"data", {{"a", "text"}}},
                            {"binaryData", {{"b", "Ynl0ZXM="}}}});
  EXPECT_EQ(iso().label, "cfgdata");
  EXPECT_THAT(iso().files, ElementsAre(Pair("a", "text"), Pair("b", "bytes")));
}

TEST_F(InstanceVolumes, OptionalReferenceMayBeMissing) {
  create_instance(user_of("vm", {{"configMap", {{"name", "c"}, {"optional", true}}}}));
  EXPECT_EQ(phase(vmi("vm")), "Running");
  EXPECT_THAT(iso().files, IsEmpty());
}

TEST_F(InstanceVolumes, SysprepNeedsAnAnswerFile) {
  create(config_maps_path, {{"metadata", {{"name", "c"}}}, {"data", {{"other.xml", "x"}}}});
  create_instance(user_of("vm", {{"sysprep", {{"configMap", {{"name", "c"}}}}}}));
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("autounattend.xml"));
  EXPECT_EQ(patch(config_maps_path + "/c", {{"data", {{"Unattend.xml", "x"}}}}), 200);
  EXPECT_EQ(phase(vmi("vm")), "Running");
  EXPECT_EQ(iso().label, "unattendCD");
}

}  // namespace
}  // namespace virtset::test
