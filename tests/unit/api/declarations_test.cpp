// Promises about the declarations themselves, and what is made of them: discovery and OpenAPI.

#include <set>

#include "api/kinds/json_access.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using api::member;
using api::text;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Paths of fields that kubectl explain would show without a word.
void find_silent(const Json& schema, const Json& definitions, const std::string& path,
                 std::vector<std::string>& silent) {
  for (const auto& [name, property] : member(schema, "properties").items()) {
    const std::string at = path + "." + name;
    Json resolved = property;
    if (const std::string reference = text(member(property, "$ref")); !reference.empty()) {
      resolved = definitions.at(reference.substr(reference.rfind('/') + 1));
      resolved.update(property);
    }
    if (text(member(resolved, "description")).empty() && !resolved.contains("x-virtset-ignored") &&
        !resolved.contains("x-virtset-unsupported")) {
      silent.push_back(at);
    }
    // Old kubectls refuse a document in which a list has no items.
    if (text(member(resolved, "type")) == "array" && !resolved.contains("items")) {
      silent.push_back(at + "[]");
    }
    find_silent(resolved, definitions, at, silent);
    find_silent(member(resolved, "items"), definitions, at + "[]", silent);
  }
}

TEST(Declarations, EveryFieldIsDescribed) {
  const api::Kinds& kinds = api::builtin_kinds();
  std::vector<std::string> silent;
  for (const api::Kind& kind : kinds.all()) {
    EXPECT_FALSE(text(member(kind.schema_document, "description")).empty()) << kind.kind;
    find_silent(kind.schema_document, kinds.definitions(), kind.kind, silent);
  }
  for (const auto& [name, definition] : kinds.definitions().items()) {
    if (name != "DeleteOptions") find_silent(definition, kinds.definitions(), name, silent);
  }
  EXPECT_THAT(silent, ElementsAre());
}

// All $ref in a document, wherever they stand.
void find_references(const Json& json, std::set<std::string>& references) {
  if (json.is_object() && json.contains("$ref")) references.insert(text(json["$ref"]));
  if (json.is_structured()) {
    for (const Json& item : json) find_references(item, references);
  }
}

class OpenApiTest : public RestTest {};

TEST_F(OpenApiTest, EveryDocumentOfTheIndexIsCompleteInItself) {
  const Json index = get("/openapi/v3").json();
  EXPECT_TRUE(index["paths"].contains("api/v1")) << index;
  EXPECT_TRUE(index["paths"].contains("apis/kubevirt.io/v1alpha3")) << index;
  for (const auto& [path, entry] : index["paths"].items()) {
    std::string url = text(entry["serverRelativeURL"]);
    ASSERT_THAT(url, HasSubstr("?hash="));
    url.resize(url.find('?'));
    const Answer answer = get(url);
    ASSERT_EQ(answer.status, 200) << url;
    std::set<std::string> references;
    find_references(answer.json(), references);
    for (const std::string& reference : references) {
      EXPECT_TRUE(answer.json().contains(Json::json_pointer(reference.substr(1)))) << reference;
    }
    for (const auto& [name, schema] : answer.json()["components"]["schemas"].items()) {
      for (const auto& [property, of] : member(schema, "properties").items()) {
        EXPECT_FALSE(text(member(of, "description")).empty()) << name << "." << property;
      }
    }
  }
}

TEST_F(OpenApiTest, TellsKubectlThatTheServerValidates) {
  const Json document = get("/openapi/v3/apis/kubevirt.io/v1").json();
  const Json& patch =
      document["paths"]
              ["/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{name}"]
              ["patch"];
  EXPECT_EQ(patch["x-kubernetes-group-version-kind"]["kind"], "VirtualMachineInstance");
  EXPECT_FALSE(patch.contains("requestBody"));
  EXPECT_THAT(patch["parameters"].dump(), HasSubstr("\"fieldValidation\""));
}

TEST_F(OpenApiTest, SaysWhereVirtsetDiffers) {
  const Json schemas = get("/openapi/v3/apis/kubevirt.io/v1").json()["components"]["schemas"];
  const Json& spec = schemas["io.virtset.definitions.VirtualMachineInstanceSpec"]["properties"];
  EXPECT_THAT(text(spec["affinity"]["description"]), HasSubstr("Taken with a warning"));
  EXPECT_THAT(text(spec["accessCredentials"]["description"]), HasSubstr("Refused"));
  EXPECT_EQ(spec.dump().find("x-virtset"), std::string::npos);
}

TEST_F(OpenApiTest, UnknownGroupHasNone) {
  EXPECT_EQ(get("/openapi/v3/apis/none/v1").status, 404);
  EXPECT_EQ(get("/openapi/v3/api/v2").status, 404);
  EXPECT_EQ(get("/openapi").status, 404);
}

class DiscoveryTest : public RestTest {};

TEST_F(DiscoveryTest, NamesTheVerbsThatAreServed) {
  const Json list = get("/api/v1").json()["resources"];
  std::vector<std::string> pods;
  for (const Json& resource : list) {
    if (resource["name"] == "pods") pods = resource["verbs"].get<std::vector<std::string>>();
    if (resource["name"] == "configmaps") {
      EXPECT_THAT(resource["verbs"].get<std::vector<std::string>>(), Contains("deletecollection"));
    }
  }
  EXPECT_THAT(pods, ElementsAre("get", "list", "watch"));
}

TEST_F(DiscoveryTest, VerbsThatAreNotServedAreRefused) {
  EXPECT_EQ(send("POST", core + "/pods", {{"metadata", {{"name", "x"}}}}).status, 405);
  EXPECT_EQ(get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").status, 405);
  EXPECT_EQ(get(core + "/pods").json()["items"], Json::array());
}

TEST_F(DiscoveryTest, FrontPageIsForPeopleAndPrograms) {
  EXPECT_THAT(get("/", "*/*").text, HasSubstr("Accept: text/plain"));
  EXPECT_THAT(get("/", "application/json").json()["paths"], Contains("/apis/kubevirt.io/v1"));
}

}  // namespace
}  // namespace virtset::test
