// Manifests that must be refused, each a file that says with what answer; and what KubeVirt makes
// of those that are accepted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "api/kinds/yaml.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

namespace fs = std::filesystem;
using store::Json;

struct BadManifest {
  std::string name;
  std::string body;
  int code = 0;
  std::string reason, field, message;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name.
void PrintTo(const BadManifest& manifest, std::ostream* out) { *out << manifest.name; }

std::vector<BadManifest> read_bad_manifests() {
  std::vector<BadManifest> manifests;
  for (const auto& entry : fs::directory_iterator(SOURCE_ROOT "/tests/manifests/bad")) {
    std::ifstream file(entry.path());
    std::ostringstream body;
    body << file.rdbuf();
    BadManifest manifest{.name = entry.path().stem(), .body = body.str()};
    std::istringstream lines(manifest.body);
    std::string line;
    std::getline(lines, line);
    std::istringstream expected(line.substr(std::string("# expected: ").size()));
    expected >> manifest.code >> manifest.reason >> manifest.field;
    std::getline(lines, line);
    manifest.message = line.substr(std::string("# message: ").size());
    manifests.push_back(std::move(manifest));
  }
  std::sort(manifests.begin(), manifests.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return manifests;
}

class BadManifests : public testing::TestWithParam<BadManifest> {};

TEST_P(BadManifests, AreRefusedWithTheFieldAndChangeNothing) {
  const BadManifest& manifest = GetParam();
  World world;
  const auto revision = world.store->revision();
  api::Request request{.method = "POST",
                       .path =
                           "/apis/kubevirt.io/v1/namespaces/default/"
                           "virtualmachineinstancereplicasets",
                       .accept = "application/json",
                       .content_type = "application/yaml",
                       .body = manifest.body};
  std::optional<api::Response> response;
  world.rest->handle(request, [&](api::Response answer) { response = std::move(answer); });
  world.settle();
  ASSERT_TRUE(response);
  const Json status = Json::parse(response->body);
  EXPECT_EQ(response->status, manifest.code) << status;
  EXPECT_EQ(status["kind"], "Status");
  EXPECT_EQ(status["code"], manifest.code);
  EXPECT_EQ(status["reason"], manifest.code == 422 ? "Invalid" : "BadRequest");
  EXPECT_THAT(status["message"].get<std::string>(), testing::HasSubstr(manifest.message));
  if (!manifest.field.empty()) {
    const Json& causes = api::member(status, "details", "causes");
    ASSERT_FALSE(causes.empty()) << status;
    EXPECT_EQ(causes[0]["field"], manifest.field) << status;
    EXPECT_EQ(causes[0]["reason"], manifest.reason) << status;
  }
  EXPECT_EQ(world.store->revision(), revision);
  EXPECT_THAT(world.instances(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, BadManifests, testing::ValuesIn(read_bad_manifests()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The manifests of the documents that this project was founded on.
TEST(SeedManifests, AreAccepted) {
  World world;
  for (const auto& entry : fs::directory_iterator(SOURCE_ROOT "/tests/manifests/seeds")) {
    std::ifstream file(entry.path());
    std::ostringstream body;
    body << file.rdbuf();
    const Json object = api::parse_yaml(body.str());
    const std::string version = object["apiVersion"].get<std::string>();
    int status = 0;
    const auto* kind = api::builtin_kinds().find(version.substr(0, version.find('/')),
                                                 object["kind"].get<std::string>());
    ASSERT_NE(kind, nullptr) << entry.path();
    const Json answer = world.request(
        "POST", "/apis/" + version + "/namespaces/default/" + kind->plural, object, &status);
    EXPECT_EQ(status, 201) << entry.path() << answer;
    EXPECT_EQ(answer["apiVersion"], version);
  }
  EXPECT_EQ(world.store->list(api::kubevirt_group, api::replica_set_kind).size(), 2u);
  EXPECT_EQ(world.store->list(api::pool_group, api::pool_kind).size(), 1u);
}

Json completed(const std::string& yaml) {
  Json spec = api::parse_yaml(yaml);
  api::complete_instance_spec(spec);
  return spec;
}

TEST(InstanceDefaults, DiskBusIsSataAndVolumesAreAttached) {
  const Json spec = completed(
      "domain: {devices: {disks: [{name: a, cdrom: {}}]}}\n"
      "volumes: [{name: a, emptyDisk: {capacity: 1Gi}}, {name: b, emptyDisk: {capacity: 1Gi}}]");
  EXPECT_EQ(spec["domain"]["devices"]["disks"],
            Json::parse(R"([{"name":"a","cdrom":{"bus":"sata","readonly":true,"tray":"closed"}},
                            {"name":"b","disk":{"bus":"sata"}}])"));
}

TEST(InstanceDefaults, PodNetworkWithBridge) {
  const Json spec = completed("domain: {devices: {}}");
  EXPECT_EQ(spec["networks"], Json::parse(R"([{"name":"default","pod":{}}])"));
  EXPECT_EQ(spec["domain"]["devices"]["interfaces"],
            Json::parse(R"([{"name":"default","bridge":{}}])"));
  EXPECT_FALSE(
      completed("domain: {devices: {autoattachPodInterface: false}}").contains("networks"));
}

TEST(InstanceDefaults, CpuTopology) {
  const auto topology = [](const std::string& domain) {
    const Json cpu = completed("domain: {devices: {}, " + domain + "}")["domain"]["cpu"];
    return std::vector<int>{cpu["sockets"], cpu["cores"], cpu["threads"]};
  };
  using testing::ElementsAre;
  EXPECT_THAT(topology("memory: {}"), ElementsAre(1, 1, 1));
  EXPECT_THAT(topology("cpu: {cores: 4}"), ElementsAre(1, 4, 1));
  EXPECT_THAT(topology("resources: {limits: {cpu: 300m}, requests: {cpu: 100m}}"),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(topology("resources: {requests: {cpu: 2500m}}"), ElementsAre(3, 1, 1));
  EXPECT_THAT(topology("cpu: {cores: 2}, resources: {limits: {cpu: 8}}"), ElementsAre(1, 2, 1));
}

TEST(InstanceDefaults, MemoryAndRequests) {
  const auto guest = [](const std::string& resources) {
    return api::member(completed("domain: {devices: {}, resources: " + resources + "}"), "domain",
                       "memory", "guest");
  };
  EXPECT_EQ(guest("{requests: {memory: 64M}}"), "64M");
  EXPECT_EQ(guest("{limits: {memory: 65M}}"), "65M");
  EXPECT_EQ(guest("{requests: {memory: 64M}, limits: {memory: 65M}}"), "64M");
  EXPECT_EQ(guest("{}"), Json());
  EXPECT_EQ(completed("domain: {devices: {}, resources: {limits: {cpu: 2}}}")["domain"]["resources"]
                                                                             ["requests"]["cpu"],
            2);
}

TEST(InstanceDefaults, PullPolicyAndFirmware) {
  const Json spec = completed(
      "domain: {devices: {}}\nvolumes: [{name: a, containerDisk: {image: x}},"
      "{name: b, containerDisk: {image: 'x:1'}}]");
  EXPECT_EQ(spec["volumes"][0]["containerDisk"]["imagePullPolicy"], "Always");
  EXPECT_EQ(spec["volumes"][1]["containerDisk"]["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(spec["domain"]["machine"]["type"], "q35");
  EXPECT_EQ(spec["domain"]["cpu"]["model"], "host-model");
  EXPECT_NE(spec["domain"]["firmware"]["uuid"],
            completed("domain: {devices: {}}")["domain"]["firmware"]["uuid"]);
}

}  // namespace
}  // namespace virtset::test
