// Claims and DataVolumes: how they come to have a disk, and how they lose it.

#include "tests/unit/daemon/disks_fixture.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Claims : public Disks {};
class DataVolumes : public Disks {};

TEST_F(Claims, BlankOneIsBoundAtOnce) {
  create_claim(claim("data", "1500k"));
  const Json data = claim_of("data");
  EXPECT_EQ(phase(data), "Bound");
  EXPECT_EQ(data["status"]["capacity"]["storage"], "1500k");
  EXPECT_EQ(data["status"]["accessModes"], Json::array({"ReadWriteOnce"}));
  EXPECT_EQ(data["spec"]["volumeName"], "pvc-" + uid(data));
  EXPECT_FALSE(data["status"].contains("provisioning"));
  EXPECT_EQ(volume("data").size, 2u << 20) << "not rounded up to whole MiB";
  EXPECT_EQ(volume("data").content, "blank");
}

TEST_F(Claims, StatusAndFinalizersOfUsersDoNotCount) {
  Json forged = claim("data");
  forged["status"] = {{"phase", "Bound"}, {"capacity", {{"storage", "9Ti"}}}};
  create_claim(forged);
  EXPECT_EQ(claim_of("data")["status"]["capacity"]["storage"], "1Gi");
  EXPECT_THAT(claim_of("data")["metadata"]["finalizers"], Contains("kubernetes.io/pvc-protection"));
}

TEST_F(Claims, DeletionRemovesTheFilesFirst) {
  create_claim(claim("data"));
  world.jobs->hold(Lane::disk);
  remove(claims_path + "/data");
  EXPECT_EQ(claim_of("data")["metadata"]["finalizers"].size(), 1u);
  world.jobs->hold(Lane::disk, false);
  world.settle();
  EXPECT_TRUE(claim_of("data").is_null());
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
}

TEST_F(Claims, FilesGoEvenIfSomebodyTakesTheFinalizerAway) {
  create_claim(claim("data"));
  EXPECT_EQ(patch(claims_path + "/data", {{"metadata", {{"finalizers", nullptr}}}}), 200);
  remove(claims_path + "/data");
  EXPECT_TRUE(claim_of("data").is_null());
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
}

TEST_F(Claims, VolumesWithoutAClaimAreRemovedAtStart) {
  create_claim(claim("data"));
  world.crash();
  world.volumes.volumes["11111111-2222-4333-8444-555555555555"] = {1 << 20, "blank", true};
  world.volumes.volumes["lost+found"] = {};
  world.boot();
  EXPECT_EQ(world.volumes.volumes.size(), 2u);
  EXPECT_TRUE(world.volumes.volumes.contains("lost+found")) << "it is not ours";
  EXPECT_EQ(phase(claim_of("data")), "Bound");
}

TEST_F(Claims, VolumesAreKeptByADatabaseThatKnowsOfNoClaim) {
  world.crash();
  world.volumes.volumes["11111111-2222-4333-8444-555555555555"] = {1 << 20, "blank", true};
  world.boot();
  world.settle();
  EXPECT_EQ(world.volumes.volumes.size(), 1u);
}

TEST_F(Claims, LosesItsDiskAndFindsItAgain) {
  create_claim(claim("data"));
  world.crash();
  const auto kept = std::exchange(world.volumes.volumes, {});
  world.boot();
  EXPECT_EQ(phase(claim_of("data")), "Lost");
  EXPECT_THAT(world.volumes.volumes, IsEmpty()) << "an empty disk in place of the lost one";
  world.crash();
  world.volumes.volumes = kept;
  world.boot();
  EXPECT_EQ(phase(claim_of("data")), "Bound");
}

TEST_F(Claims, GrowsButNeverShrinks) {
  create_claim(claim("data", "1Gi"));
  EXPECT_EQ(patch(claims_path + "/data", {{"spec", storage("2Gi")}}), 200);
  EXPECT_EQ(claim_of("data")["status"]["capacity"]["storage"], "2Gi");
  EXPECT_EQ(volume("data").size, 2ull << 30);
  EXPECT_EQ(patch(claims_path + "/data", {{"spec", storage("1Gi")}}), 422);
  EXPECT_EQ(volume("data").size, 2ull << 30);
}

TEST_F(Claims, GrowsWhenItsUserHasEnded) {
  create_claim(claim("data", "1Gi"));
  create_instance(user_of_claim("vm", "data"));
  EXPECT_EQ(patch(claims_path + "/data", {{"spec", storage("2Gi")}}), 200);
  EXPECT_EQ(claim_of("data")["status"]["capacity"]["storage"], "1Gi");
  EXPECT_THAT(message(claim_of("data"), "FileSystemResizePending"), HasSubstr("default/vm"));
  world.remove(api::instance_kind, "vm");
  world.settle();
  EXPECT_EQ(claim_of("data")["status"]["capacity"]["storage"], "2Gi");
  EXPECT_TRUE(condition(claim_of("data"), "FileSystemResizePending").is_null());
}

TEST_F(Claims, FullDiskIsSaidAndMendsItself) {
  world.volumes.disk_is_full = true;
  create_claim(claim("data"));
  EXPECT_EQ(phase(claim_of("data")), "Pending");
  EXPECT_EQ(reason(claim_of("data"), "Populated"), "NoSpaceLeft");
  world.volumes.disk_is_full = false;
  world.advance(seconds(6));
  EXPECT_EQ(phase(claim_of("data")), "Bound");
  EXPECT_TRUE(condition(claim_of("data"), "Populated").is_null());
}

TEST_F(DataVolumes, MakesAClaimOfItsNameAndOwnsIt) {
  Json object = data_volume("root", {{"blank", Json::object()}});
  object["metadata"]["labels"] = {{"app", "x"}};
  create_data_volume(object);
  const Json made = claim_of("root");
  EXPECT_EQ(phase(made), "Bound");
  EXPECT_EQ(made["metadata"]["labels"]["app"], "x");
  EXPECT_EQ(made["metadata"]["ownerReferences"][0]["uid"], uid(data_volume_of("root")));
  const Json status = data_volume_of("root")["status"];
  EXPECT_EQ(status["phase"], "Succeeded");
  EXPECT_EQ(status["progress"], "100.0%");
  EXPECT_EQ(status["claimName"], "root");
  for (const char* type : {"Bound", "Ready"}) {
    EXPECT_EQ(condition(data_volume_of("root"), type)["status"], "True") << type;
  }
  EXPECT_EQ(reason(data_volume_of("root"), "Running"), "Completed");
}

TEST_F(DataVolumes, TellsHowAnImportGoes) {
  world.volumes.steps = {0.1234};
  world.jobs->hold(Lane::import);
  create_data_volume(data_volume("root", {{"http", {{"url", "http://server/disk.img"}}}}));
  EXPECT_EQ(phase(data_volume_of("root")), "ImportScheduled");
  world.jobs->hold(Lane::import, false);
  std::vector<std::string> progress;
  const auto subscription = world.store->feed().subscribe([&](const store::Change& change) {
    if (change.object->key().kind != api::data_volume_kind) return;
    const auto document = change.object->document();
    progress.push_back(phase(*document) + " " +
                       api::text(api::member(*document, "status", "progress")));
  });
  world.settle();
  EXPECT_THAT(progress, Contains("ImportInProgress 0.00%"));
  EXPECT_EQ(progress.back(), "Succeeded 100.0%");
  EXPECT_EQ(volume("root").content, "url http://server/disk.img");
  EXPECT_THAT(world.events("DataVolume"),
              Contains("ImportSucceeded: Successfully imported into PVC root"));
}

TEST_F(DataVolumes, FailingImportSaysWhyAndBacksOffOverRestarts) {
  const std::string url = "http://server/disk.img";
  world.volumes.refuse[url] = "the server answered 503 Out of Order";
  create_data_volume(data_volume("root", {{"http", {{"url", url}}}}));
  EXPECT_EQ(phase(data_volume_of("root")), "ImportInProgress");
  EXPECT_EQ(reason(data_volume_of("root"), "Running"), "ImportFailed");
  EXPECT_THAT(message(data_volume_of("root"), "Running"), HasSubstr("503 Out of Order"));
  EXPECT_THAT(world.events("DataVolume"), Contains(HasSubstr("503 Out of Order")));
  const std::string id = uid(claim_of("root"));
  EXPECT_EQ(world.volumes.made[id], 1);
  world.advance(seconds(6));
  EXPECT_EQ(world.volumes.made[id], 2);
  EXPECT_EQ(data_volume_of("root")["status"]["restartCount"], 1);
  world.crash();
  world.boot();
  EXPECT_EQ(world.volumes.made[id], 2) << "the restart got around the back-off";
  world.advance(seconds(4));
  EXPECT_EQ(world.volumes.made[id], 2);
  world.volumes.refuse.clear();
  world.advance(seconds(10));
  EXPECT_EQ(phase(data_volume_of("root")), "Succeeded");
}

TEST_F(DataVolumes, FullDiskIsTriedAgainSoonHoweverOftenItFailed) {
  world.volumes.disk_is_full = true;
  create_data_volume(data_volume("root", {{"registry", {{"url", "docker://registry/image:1"}}}}));
  EXPECT_EQ(reason(data_volume_of("root"), "Running"), "NoSpaceLeft");
  world.advance(seconds(300));
  EXPECT_EQ(phase(data_volume_of("root")), "ImportInProgress");
  world.volumes.disk_is_full = false;
  world.advance(seconds(31));
  EXPECT_EQ(phase(data_volume_of("root")), "Succeeded");
  EXPECT_EQ(volume("root").content, "image registry/image:1");
}

TEST_F(DataVolumes, TakesBackTheClaimThatItsPredecessorLeft) {
  create_data_volume(data_volume("root", {{"blank", Json::object()}}));
  const std::string first = uid(claim_of("root"));
  remove(data_volumes_path + "/root", {{"propagationPolicy", "Orphan"}});
  ASSERT_EQ(uid(claim_of("root")), first);
  EXPECT_FALSE(claim_of("root")["metadata"].contains("ownerReferences"));
  create_data_volume(data_volume("root", {{"blank", Json::object()}}));
  EXPECT_EQ(uid(claim_of("root")), first);
  EXPECT_EQ(claim_of("root")["metadata"]["ownerReferences"][0]["uid"], uid(data_volume_of("root")));
  EXPECT_EQ(phase(data_volume_of("root")), "Succeeded");
}

TEST_F(DataVolumes, LeavesForeignClaimsAlone) {
  create_claim(claim("root", "3Gi"));
  create_data_volume(data_volume("root", {{"blank", Json::object()}}));
  EXPECT_FALSE(claim_of("root")["metadata"].contains("ownerReferences"));
  EXPECT_EQ(phase(data_volume_of("root")), "Pending");
  EXPECT_EQ(reason(data_volume_of("root"), "Bound"), "ErrResourceExists");
  EXPECT_THAT(message(data_volume_of("root"), "Bound"), HasSubstr("not managed by DataVolume"));
  remove(claims_path + "/root");
  EXPECT_EQ(phase(data_volume_of("root")), "Succeeded") << "the name is free now";
  EXPECT_EQ(volume("root").size, 1ull << 30);
}

TEST_F(DataVolumes, DeletionTakesClaimAndDiskAlong) {
  create_data_volume(data_volume("root", {{"blank", Json::object()}}));
  remove(data_volumes_path + "/root");
  EXPECT_TRUE(data_volume_of("root").is_null());
  EXPECT_TRUE(claim_of("root").is_null());
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
}

TEST_F(DataVolumes, DeletionCancelsAnImport) {
  create_data_volume(data_volume("other", {{"blank", Json::object()}}));
  world.jobs->hold(Lane::import);
  create_data_volume(data_volume("root", {{"registry", {{"url", "docker://r/i:1"}}}}));
  const std::string id = uid(claim_of("root"));
  remove(data_volumes_path + "/root");
  EXPECT_TRUE(world.volumes.cancelled[id]);
  world.jobs->hold(Lane::import, false);
  world.settle();
  EXPECT_TRUE(claim_of("root").is_null());
  EXPECT_EQ(world.volumes.made[id], 0) << "it was begun although nobody wanted it";
  EXPECT_EQ(world.volumes.volumes.size(), 1u);
}

TEST_F(DataVolumes, NamespaceTakesItsDisksAlong) {
  world.request("POST", "/api/v1/namespaces", {{"metadata", {{"name", "lab"}}}});
  create("/apis/cdi.kubevirt.io/v1beta1/namespaces/lab/datavolumes",
         data_volume("root", {{"blank", Json::object()}}));
  EXPECT_EQ(world.volumes.volumes.size(), 1u);
  remove("/api/v1/namespaces/lab");
  world.advance(seconds(5));
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
  EXPECT_EQ(world.store->get({api::core_group, api::namespace_kind, "", "lab"}), nullptr);
}

TEST_F(DataVolumes, CopyHasWhatItsSourceHas) {
  create_data_volume(data_volume("golden", {{"http", {{"url", "http://s/d"}}}}));
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}, "2Gi"));
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
  EXPECT_EQ(volume("copy").content, "url http://s/d");
  EXPECT_THAT(world.events("DataVolume"),
              Contains("CloneSucceeded: Successfully cloned into PVC copy"));
}

TEST_F(DataVolumes, CopyWaitsForItsSource) {
  create_data_volume(
      data_volume("copy", {{"pvc", {{"name", "golden"}, {"namespace", "default"}}}}));
  EXPECT_EQ(phase(data_volume_of("copy")), "CloneScheduled");
  EXPECT_EQ(reason(data_volume_of("copy"), "Running"), "CloneSourceNotFound");
  create_claim(claim("golden"));
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
}

TEST_F(DataVolumes, CopyIsNeverMadeOfADiskThatIsWrittenTo) {
  create_claim(claim("golden"));
  create_instance(user_of_claim("vm", "golden"));
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}));
  EXPECT_EQ(reason(data_volume_of("copy"), "Running"), "CloneSourceInUse");
  EXPECT_THAT(message(data_volume_of("copy"), "Running"), HasSubstr("default/vm"));
  world.remove(api::instance_kind, "vm");
  world.settle();
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
}

TEST_F(DataVolumes, InstanceWaitsForACopyOfItsDisk) {
  create_claim(claim("golden"));
  world.jobs->hold(Lane::copy);
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}));
  create_instance(user_of_claim("vm", "golden"));
  EXPECT_EQ(phase(vmi("vm")), "Pending");
  EXPECT_THAT(message(vmi("vm"), "Synchronized"), HasSubstr("default/copy"));
  world.jobs->hold(Lane::copy, false);
  world.settle();
  EXPECT_EQ(phase(vmi("vm")), "Running");
}

TEST_F(DataVolumes, SlowServersKeepNoCopyWaiting) {
  create_claim(claim("golden"));
  world.jobs->hold(Lane::import);
  create_data_volume(data_volume("slow", {{"http", {{"url", "http://s/d"}}}}));
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}));
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
}

TEST_F(DataVolumes, CopyThatIsWholeNeedsItsSourceNoMore) {
  create_claim(claim("golden"));
  world.jobs->hold(Lane::copy);
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}));
  remove(claims_path + "/golden");    // as soon as it is used no more
  world.jobs->run_without_results();  // it is killed before the claim says Bound
  world.crash();
  world.boot();
  world.settle();
  EXPECT_TRUE(claim_of("golden").is_null());
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
  EXPECT_EQ(world.volumes.made[uid(claim_of("copy"))], 1);
}

TEST_F(DataVolumes, CopyIntoLessThanItsSourceFollowsIt) {
  create_claim(claim("golden", "2Gi"));
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}, "1Gi"));
  remove(claims_path + "/golden");
  EXPECT_EQ(reason(data_volume_of("copy"), "Running"), "CloneSourceNotFound");
  create_claim(claim("golden", "1Gi"));
  EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
}

TEST_F(DataVolumes, CopyIntoLessThanItsSourceIsRefused) {
  create_claim(claim("golden", "2Gi"));
  create_data_volume(data_volume("copy", {{"pvc", {{"name", "golden"}}}}, "1Gi"));
  EXPECT_EQ(reason(data_volume_of("copy"), "Running"), "CloneTargetTooSmall");
}

// The daemon is killed at each commit, or at the end of each job, on the way there or back.
struct Kill {
  const char* at;
  int number;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name.
void PrintTo(const Kill& kill, std::ostream* out) { *out << kill.at << kill.number; }

class Killed : public Disks, public testing::WithParamInterface<Kill> {
 protected:
  Killed() {
    world.volumes.steps = {0.5};
    world.volumes.refuse["http://s/d"] = "not yet";
  }

  // What a client does until it is answered.
  void demand(const std::string& path, const Json& object) {
    try {
      world.request("POST", path, object);
    } catch (const std::runtime_error&) {
    }
  }
  void demand_all() {
    demand(claims_path, claim("golden"));
    demand(data_volumes_path, data_volume("root", {{"http", {{"url", "http://s/d"}}}}));
    demand(data_volumes_path, data_volume("copy", {{"pvc", {{"name", "golden"}}}}));
    demand(instances_path, user_of_data_volume("vm", "root"));
  }
  void demand_end() {
    for (const std::string& path : {instances_path + "/vm", data_volumes_path + "/root",
                                    data_volumes_path + "/copy", claims_path + "/golden"}) {
      try {
        world.request("DELETE", path, Json::object());
      } catch (const std::runtime_error&) {
      }
    }
  }
  void arm() {
    const Kill kill = GetParam();
    if (std::string(kill.at) == "commit") {
      world.committer->last_commit = world.committer->commits + kill.number - 1;
    } else {
      world.jobs->die_after(kill.number);
    }
  }
  void die() {
    world.advance(seconds(6));
    world.crash();
    world.volumes.refuse.clear();
    world.boot();
  }
  void expect_all() {
    EXPECT_EQ(phase(data_volume_of("root")), "Succeeded");
    EXPECT_EQ(phase(data_volume_of("copy")), "Succeeded");
    EXPECT_EQ(phase(vmi("vm")), "Running");
    EXPECT_EQ(volume("root").content, "url http://s/d");
    EXPECT_EQ(volume("copy").content, "blank");
    EXPECT_EQ(world.volumes.volumes.size(), 3u);
    EXPECT_EQ(world.host.domains.size(), 1u);
  }
};

TEST_P(Killed, OnTheWayItGoesOnAndEndsRight) {
  arm();
  demand_all();
  die();
  demand_all();
  world.advance(seconds(60));
  expect_all();
}

TEST_P(Killed, OnTheWayBackNothingIsLeft) {
  world.volumes.refuse.clear();
  demand_all();
  world.advance(seconds(60));
  expect_all();
  arm();
  demand_end();
  die();
  demand_end();
  world.advance(seconds(60));
  EXPECT_THAT(world.volumes.volumes, IsEmpty());
  EXPECT_EQ(world.host.domains.size(), 0u);
  EXPECT_TRUE(claim_of("root").is_null());
  EXPECT_TRUE(claim_of("copy").is_null());
  EXPECT_TRUE(claim_of("golden").is_null());
  EXPECT_TRUE(data_volume_of("root").is_null());
}

std::vector<Kill> kills() {
  std::vector<Kill> all;
  for (int i = 1; i <= 25; ++i) all.push_back({"commit", i});
  for (int i = 1; i <= 12; ++i) all.push_back({"job", i});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Everywhere, Killed, testing::ValuesIn(kills()), [](const auto& test) {
  return test.param.at + std::to_string(test.param.number);
});

}  // namespace
}  // namespace virtset::test
