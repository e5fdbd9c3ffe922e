// What claims, DataVolumes and the volumes of instances may say.

#include "api/kinds/json_access.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;

const std::string claims = core + "/persistentvolumeclaims";
const std::string data_volumes = "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes";

const Json good_storage = Json::parse(R"({"resources": {"requests": {"storage": "1Gi"}}})");

struct Bad {
  std::string name;
  Json part;  // merged over what is right
  std::string field;
  std::string message;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name.
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

std::string name_of(const testing::TestParamInfo<Bad>& info) { return info.param.name; }

class Refused : public RestTest, public testing::WithParamInterface<Bad> {
 protected:
  void expect_refused(const std::string& path, const Json& object) {
    const auto revision = world_.store->revision();
    const Answer answer = send("POST", path, object);
    EXPECT_EQ(answer.status, 422) << answer.text;
    const Json body = answer.json();
    const Json& causes = api::member(body, "details", "causes");
    ASSERT_FALSE(causes.empty()) << answer.text;
    EXPECT_EQ(causes[0]["field"], GetParam().field) << answer.text;
    EXPECT_THAT(causes[0]["message"].get<std::string>(), HasSubstr(GetParam().message));
    EXPECT_EQ(world_.store->revision(), revision);
  }
};

class BadClaim : public Refused {};
TEST_P(BadClaim, IsRefusedWithTheField) {
  Json object{{"metadata", {{"name", "x"}}}, {"spec", good_storage}};
  object["spec"].merge_patch(GetParam().part);
  expect_refused(claims, object);
}
INSTANTIATE_TEST_SUITE_P(
    All, BadClaim,
    testing::Values(
        Bad{"NoSize",
            {{"resources", {{"requests", {{"storage", nullptr}}}}}},
            "spec.resources.requests.storage",
            "equired"},
        Bad{"ZeroSize",
            {{"resources", {{"requests", {{"storage", "0"}}}}}},
            "spec.resources.requests.storage",
            "greater than zero"},
        Bad{"NoQuantity",
            {{"resources", {{"requests", {{"storage", "big"}}}}}},
            "spec.resources.requests.storage",
            ""},
        Bad{"TooLarge",
            {{"resources", {{"requests", {{"storage", "4Ei"}}}}}},
            "spec.resources.requests.storage",
            "at most"},
        Bad{"Block", {{"volumeMode", "Block"}}, "spec.volumeMode", "Filesystem"},
        Bad{"NoModes", {{"accessModes", Json::array()}}, "spec.accessModes", "at least 1"},
        Bad{"UnknownMode",
            {{"accessModes", {"ReadSometimes"}}},
            "spec.accessModes[0]",
            "ReadWriteOnce"},
        Bad{"DataSource",
            {{"dataSource", {{"kind", "VolumeSnapshot"}}}},
            "spec.dataSource",
            "DataVolume"},
        Bad{"Selector", {{"selector", Json::object()}}, "spec.selector", "not supported"}),
    name_of);

class BadDataVolume : public Refused {};
TEST_P(BadDataVolume, IsRefusedWithTheField) {
  Json object{{"metadata", {{"name", "x"}}},
              {"spec", {{"source", {{"blank", Json::object()}}}, {"storage", good_storage}}}};
  object["spec"].merge_patch(GetParam().part);
  expect_refused(data_volumes, object);
}

Json source(const Json& what) {
  Json patch{{"source", {{"blank", nullptr}}}};
  patch["source"].update(what);
  return patch;
}
Json http(const std::string& url) { return source({{"http", {{"url", url}}}}); }

INSTANTIATE_TEST_SUITE_P(
    All, BadDataVolume,
    testing::Values(
        Bad{"NoSource", {{"source", {{"blank", nullptr}}}}, "spec.source", "Missing"},
        Bad{"TwoSources",
            {{"source", {{"http", {{"url", "http://s/d"}}}}}},
            "spec.source",
            "Multiple"},
        Bad{"S3", source({{"s3", {{"url", "x"}}}}), "spec.source.s3", "not supported"},
        Bad{"Upload", source({{"upload", Json::object()}}), "spec.source.upload", "not supported"},
        Bad{"Vddk", source({{"vddk", Json::object()}}), "spec.source.vddk", "not supported"},
        Bad{"Imageio", source({{"imageio", Json::object()}}), "spec.source.imageio",
            "not supported"},
        Bad{"Snapshot", source({{"snapshot", Json::object()}}), "spec.source.snapshot",
            "not supported"},
        Bad{"SourceRef",
            {{"sourceRef", {{"kind", "DataSource"}}}},
            "spec.sourceRef",
            "not supported"},
        Bad{"RegistryScheme", source({{"registry", {{"url", "oci-archive://x"}}}}),
            "spec.source.registry.url", "docker://"},
        Bad{"RegistryReference", source({{"registry", {{"url", "docker://A:B:C"}}}}),
            "spec.source.registry.url", "Invalid"},
        Bad{"RegistrySecret", source({{"registry", {{"url", "docker://a/b"}, {"secretRef", "s"}}}}),
            "spec.source.registry.secretRef", "not supported"},
        Bad{"FileUrl", http("file:///etc/shadow"), "spec.source.http.url", "http://"},
        Bad{"UrlWithoutHost", http("http:///x"), "spec.source.http.url", "http://"},
        Bad{"UrlWithControlCharacters", http("http://a/\r\nX: y"), "spec.source.http.url",
            "http://"},
        Bad{"UrlWithPassword", http("http://me:secret@host/x"), "spec.source.http.url",
            "without user and password"},
        Bad{"Checksum", source({{"http", {{"url", "http://s/d"}, {"checksum", "sha256:12"}}}}),
            "spec.source.http.checksum", "sha256"},
        Bad{"CloneName", source({{"pvc", {{"name", "../x"}}}}), "spec.source.pvc.name", ""},
        Bad{"CloneNamespace", source({{"pvc", {{"name", "x"}, {"namespace", "A/B"}}}}),
            "spec.source.pvc.namespace", ""},
        Bad{"NoStorage", {{"storage", nullptr}}, "spec.storage", "Missing Data volume PVC"},
        Bad{"TwoStorages", {{"pvc", good_storage}}, "spec.storage", "Duplicate"},
        Bad{"Block",
            {{"storage", {{"volumeMode", "Block"}}}},
            "spec.storage.volumeMode",
            "Filesystem"},
        Bad{"Archive", {{"contentType", "archive"}}, "spec.contentType", "kubevirt"}),
    name_of);

class BadVolume : public Refused {};
TEST_P(BadVolume, IsRefusedWithTheField) {
  Json object = instance("x");
  Json volume = GetParam().part;
  volume["name"] = "v";
  object["spec"]["volumes"] = Json::array({volume});
  expect_refused(instances, object);
}

Json of(const char* source, Json what) { return {{source, std::move(what)}}; }

INSTANTIATE_TEST_SUITE_P(
    All, BadVolume,
    testing::Values(Bad{"ClaimWithoutName", of("persistentVolumeClaim", Json::object()),
                        "spec.volumes[0].persistentVolumeClaim.claimName", "equired"},
                    Bad{"ClaimName", of("persistentVolumeClaim", {{"claimName", "../x"}}),
                        "spec.volumes[0].persistentVolumeClaim.claimName", "Invalid"},
                    Bad{"DataVolumeWithoutName", of("dataVolume", Json::object()),
                        "spec.volumes[0].dataVolume.name", "equired"},
                    Bad{"EphemeralOfNothing", of("ephemeral", Json::object()),
                        "spec.volumes[0].ephemeral.persistentVolumeClaim", "equired"},
                    Bad{"ConfigMapWithoutName", of("configMap", Json::object()),
                        "spec.volumes[0].configMap.name", "required"},
                    Bad{"SecretWithoutName", of("secret", {{"optional", true}}),
                        "spec.volumes[0].secret.secretName", "required"},
                    Bad{"Label", of("secret", {{"secretName", "s"}, {"volumeLabel", "a\"b"}}),
                        "spec.volumes[0].secret.volumeLabel", "characters"},
                    Bad{"SysprepOfBoth",
                        of("sysprep",
                           {{"secret", {{"name", "s"}}}, {"configMap", {{"name", "c"}}}}),
                        "spec.volumes[0].sysprep", "exactly one"},
                    Bad{"ServiceAccount", of("serviceAccount", {{"serviceAccountName", "x"}}),
                        "spec.volumes[0].serviceAccount", "not supported"},
                    Bad{"DownwardApi", of("downwardAPI", Json::object()),
                        "spec.volumes[0].downwardAPI", "not supported"},
                    Bad{"ConfigDriveOfNothing", of("cloudInitConfigDrive", Json::object()),
                        "spec.volumes[0].cloudInitConfigDrive", "at least one"},
                    Bad{"TwoUserData",
                        of("cloudInitNoCloud", {{"userData", "x"}, {"secretRef", {{"name", "s"}}}}),
                        "spec.volumes[0].cloudInitNoCloud", "only one userData"},
                    Bad{"TwoNetworkData",
                        of("cloudInitNoCloud", {{"networkDataBase64", "eA=="},
                                                {"networkDataSecretRef", {{"name", "s"}}}}),
                        "spec.volumes[0].cloudInitNoCloud", "only one networkData"}),
    name_of);

class DiskKinds : public RestTest {};

TEST_F(DiskKinds, ClaimsAreShownAsKubectlShowsThem) {
  ASSERT_EQ(send("POST", claims,
                 {{"metadata", {{"name", "data"}}},
                  {"spec",
                   {{"resources", {{"requests", {{"storage", "1Gi"}}}}},
                    {"accessModes", {"ReadOnlyMany", "ReadWriteOnce"}},
                    {"storageClassName", "fast"}}}})
                .status,
            201);
  const std::string table = get(claims, "text/plain").text;
  EXPECT_THAT(table, testing::MatchesRegex(
                         "NAME +STATUS +VOLUME +CAPACITY +ACCESS MODES +STORAGECLASS +AGE\n"
                         "data +Bound +pvc-[0-9a-f-]+ +1Gi +RWO,ROX +fast +[0-9]+s\n"));
}

TEST_F(DiskKinds, DataVolumesAreShownAsKubectlShowsThem) {
  ASSERT_EQ(send("POST", data_volumes,
                 {{"metadata", {{"name", "root"}}},
                  {"spec", {{"source", {{"blank", Json::object()}}}, {"pvc", good_storage}}}})
                .status,
            201);
  EXPECT_THAT(get(data_volumes, "text/plain").text,
              testing::MatchesRegex("NAME +PHASE +PROGRESS +RESTARTS +AGE\n"
                                    "root +Succeeded +100\\.0% +[0-9]+s\n"));
}

TEST_F(DiskKinds, DataVolumeCannotBeChanged) {
  send("POST", data_volumes,
       {{"metadata", {{"name", "root"}}},
        {"spec", {{"source", {{"blank", Json::object()}}}, {"storage", good_storage}}}});
  const Answer answer =
      patch(data_volumes + "/root",
            {{"spec", {{"source", {{"blank", nullptr}, {"http", {{"url", "http://s/d"}}}}}}}});
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.text, HasSubstr("Cannot update DataVolume Spec"));
  EXPECT_EQ(patch(data_volumes + "/root", {{"metadata", {{"labels", {{"a", "b"}}}}}}).status, 200);
}

TEST_F(DiskKinds, ClaimCanOnlyGrow) {
  send("POST", claims, {{"metadata", {{"name", "data"}}}, {"spec", good_storage}});
  const auto sized = [](const char* size) {
    return Json{{"spec", {{"resources", {{"requests", {{"storage", size}}}}}}}};
  };
  EXPECT_EQ(patch(claims + "/data", sized("2Gi")).status, 200);
  const Answer less = patch(claims + "/data", sized("1Gi"));
  EXPECT_EQ(less.status, 422);
  EXPECT_THAT(less.text, HasSubstr("field can not be less than previous value"));
  const Answer other = patch(claims + "/data", {{"spec", {{"accessModes", {"ReadWriteMany"}}}}});
  EXPECT_EQ(other.status, 422);
  EXPECT_THAT(other.text, HasSubstr("immutable"));
}

}  // namespace
}  // namespace virtset::test
