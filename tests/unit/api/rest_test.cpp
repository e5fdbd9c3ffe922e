// Verbs over the store, as a client sees them.

#include "api/kinds/json_access.h"
#include "api/kinds/yaml.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using api::member;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

TEST_F(RestTest, CreatedObjectIsComplete) {
  const Answer answer = send("POST", sets, replica_set("web", 0));
  EXPECT_EQ(answer.status, 201);
  const Json metadata = answer.json()["metadata"];
  EXPECT_EQ(metadata["namespace"], "default");
  EXPECT_EQ(metadata["generation"], 1);
  EXPECT_FALSE(metadata["uid"].get<std::string>().empty());
  EXPECT_FALSE(metadata["resourceVersion"].get<std::string>().empty());
  EXPECT_FALSE(metadata["creationTimestamp"].get<std::string>().empty());
  EXPECT_EQ(get(sets + "/web").json()["metadata"]["uid"], metadata["uid"]);
}

TEST_F(RestTest, NameIsTakenOnce) {
  EXPECT_EQ(send("POST", sets, replica_set("web", 0)).status, 201);
  const Answer again = send("POST", sets, replica_set("web", 0));
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(again.json()["reason"], "AlreadyExists");
  EXPECT_EQ(again.json()["message"],
            "virtualmachineinstancereplicasets.kubevirt.io \"web\" already exists");
}

TEST_F(RestTest, GeneratedName) {
  Json body = replica_set("web", 0);
  body["metadata"] = {{"generateName", "web-"}};
  EXPECT_THAT(send("POST", sets, body).json()["metadata"]["name"].get<std::string>(),
              testing::MatchesRegex("web-[a-z0-9]{5}"));
}

TEST_F(RestTest, MissingNamespace) {
  const Answer answer =
      send("POST", group + "/namespaces/none/virtualmachineinstances", instance("x"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.json()["message"], "namespaces \"none\" not found");
}

TEST_F(RestTest, StatusOfTheBodyIsIgnored) {
  Json body = replica_set("web", 0);
  body["status"] = {{"replicas", 99}};
  send("POST", sets, body);
  EXPECT_EQ(member(get(sets + "/web").json(), "status", "replicas"), Json());
  Json vm = instance("vm");
  vm["status"] = {{"phase", "Running"}, {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}};
  world_.jobs->hold(Lane::start);
  const Answer answer = send("POST", instances, vm);
  EXPECT_EQ(answer.status, 201);
  EXPECT_EQ(answer.json()["status"], Json::parse(R"({"phase":"Pending"})"));
}

TEST_F(RestTest, NullAndEmptyAreAbsent) {
  Json body = replica_set("web", 0);
  body["metadata"].merge_patch({{"creationTimestamp", nullptr}, {"annotations", Json::object()}});
  body["metadata"]["creationTimestamp"] = nullptr;
  body["metadata"]["labels"] = Json::object();
  EXPECT_EQ(send("POST", sets, body).status, 201);
  EXPECT_FALSE(get(sets + "/web").json()["metadata"].contains("labels"));
}

TEST_F(RestTest, UnknownFieldsByWish) {
  Json body = replica_set("web", 0);
  body["spec"]["bogus"] = 1;
  EXPECT_EQ(send("POST", sets, body).status, 400);
  const Answer warned = send("POST", sets, body, "application/json", {{"fieldValidation", "Warn"}});
  EXPECT_EQ(warned.status, 201);
  EXPECT_THAT(warned.warnings, ElementsAre("299 - \"unknown field \\\"spec.bogus\\\"\""));
  EXPECT_FALSE(warned.json()["spec"].contains("bogus"));
  body["metadata"]["name"] = "other";
  const Answer ignored =
      send("POST", sets, body, "application/json", {{"fieldValidation", "Ignore"}});
  EXPECT_EQ(ignored.status, 201);
  EXPECT_THAT(ignored.warnings, SizeIs(0));
}

TEST_F(RestTest, FieldsWithoutMeaningOnOneHostAreAcceptedWithAWarning) {
  Json body = replica_set("web", 0);
  body["spec"]["template"]["spec"]["affinity"] = {{"nodeAffinity", Json::object()}};
  const Answer answer = send("POST", sets, body);
  EXPECT_EQ(answer.status, 201);
  EXPECT_THAT(answer.warnings,
              ElementsAre(HasSubstr("spec.template.spec.affinity: has no effect")));
  EXPECT_TRUE(answer.json()["spec"]["template"]["spec"].contains("affinity"))
      << "it goes to KubeVirt later";
}

TEST_F(RestTest, GenerationCountsChangesOfTheSpec) {
  send("POST", sets, replica_set("web", 0));
  EXPECT_EQ(patch(sets + "/web", {{"metadata", {{"labels", {{"a", "b"}}}}}})
                .json()["metadata"]["generation"],
            1);
  EXPECT_EQ(patch(sets + "/web", {{"spec", {{"replicas", 1}}}}).json()["metadata"]["generation"],
            2);
  EXPECT_EQ(
      patch(sets + "/web", {{"metadata", {{"generation", 77}}}}).json()["metadata"]["generation"],
      2);
}

TEST_F(RestTest, ChangeOfNothingWritesNothing) {
  send("POST", sets, replica_set("web", 0));
  world_.settle();
  const auto revision = world_.store->revision();
  const Answer answer = patch(sets + "/web", {{"spec", {{"replicas", 0}}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(world_.store->revision(), revision);
}

TEST_F(RestTest, OptimisticConcurrency) {
  send("POST", sets, replica_set("web", 0));
  world_.settle();
  Json current = get(sets + "/web").json();
  Json stale = current;
  current["spec"]["replicas"] = 1;
  EXPECT_EQ(send("PUT", sets + "/web", current).status, 200);
  stale["spec"]["replicas"] = 2;
  const Answer conflict = send("PUT", sets + "/web", stale);
  EXPECT_EQ(conflict.status, 409);
  EXPECT_EQ(conflict.json()["reason"], "Conflict");
  EXPECT_EQ(patch(sets + "/web", {{"metadata", {{"resourceVersion", "1"}}}}).status, 409);
  EXPECT_EQ(patch(sets + "/web", {{"metadata", {{"uid", "another"}}}}).status, 409);
  // Kubernetes: custom resources want the version.
  stale["metadata"].erase("resourceVersion");
  EXPECT_EQ(send("PUT", sets + "/web", stale).status, 422);
}

TEST_F(RestTest, JsonPatch) {
  send("POST", sets, replica_set("web", 0));
  const auto apply = [&](const Json& operations) {
    return send("PATCH", sets + "/web", operations, "application/json-patch+json");
  };
  EXPECT_EQ(apply(Json::parse(R"([{"op":"test","path":"/spec/replicas","value":0},
                                  {"op":"replace","path":"/spec/replicas","value":2}])"))
                .status,
            200);
  EXPECT_EQ(apply(Json::parse(R"([{"op":"test","path":"/spec/replicas","value":0}])")).status, 422);
  EXPECT_EQ(apply(Json::parse(R"([{"op":"remove","path":"/spec/none"}])")).status, 422);
  EXPECT_EQ(apply(Json::parse(R"({"not":"a list"})")).status, 400);
  EXPECT_EQ(
      send("PATCH", sets + "/web", Json::object(), "application/strategic-merge-patch+json").status,
      415);
}

TEST_F(RestTest, SpecOfAnInstanceCannotBeChanged) {
  send("POST", instances, instance("vm"));
  const Answer answer = patch(instances + "/vm", {{"spec", {{"hostname", "x"}}}});
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.json()["details"]["causes"][0]["reason"], "FieldValueNotSupported");
  EXPECT_EQ(patch(instances + "/vm", {{"metadata", {{"labels", {{"a", "b"}}}}}}).status, 200);
  // KubeVirt: there is no status subresource.
  EXPECT_EQ(patch(instances + "/vm/status", {{"status", {{"phase", "Failed"}}}}).status, 404);
  EXPECT_EQ(patch(instances + "/vm", {{"status", {{"phase", "Failed"}}}}).status, 200);
  EXPECT_EQ(get(instances + "/vm").json()["status"]["phase"], "Running");
}

TEST_F(RestTest, StatusSubresourceChangesTheStatusAlone) {
  send("POST", sets, replica_set("web", 0));
  patch(sets + "/web", {{"spec", {{"paused", true}}}});
  const Json answer =
      patch(sets + "/web/status", {{"status", {{"replicas", 7}}}, {"spec", {{"replicas", 7}}}})
          .json();
  EXPECT_EQ(answer["spec"]["replicas"], 0);
  EXPECT_EQ(answer["status"]["replicas"], 7);
}

TEST_F(RestTest, Scale) {
  send("POST", sets, replica_set("web", 2));
  world_.settle();
  const Json scale = get(sets + "/web/scale").json();
  EXPECT_EQ(scale["kind"], "Scale");
  EXPECT_EQ(scale["apiVersion"], "autoscaling/v1");
  EXPECT_EQ(scale["spec"]["replicas"], 2);
  EXPECT_EQ(scale["status"], Json::parse(R"({"replicas":2,"selector":"app=web"})"));
  // kubectl sends no content type here.
  const Answer put =
      call({.method = "PUT", .path = sets + "/web/scale", .body = R"({"spec":{"replicas":3}})"});
  EXPECT_EQ(put.status, 200);
  EXPECT_EQ(put.json()["spec"]["replicas"], 3);
  EXPECT_EQ(patch(sets + "/web/scale", {{"spec", {{"replicas", 4}}}}).json()["spec"]["replicas"],
            4);
  world_.settle();
  EXPECT_EQ(world_.host.alive(), 4u);
}

TEST_F(RestTest, ScaleRefusesNonsense) {
  send("POST", sets, replica_set("web", 2));
  world_.settle();
  const std::string version = get(sets + "/web").json()["metadata"]["resourceVersion"];
  const struct {
    Json body;
    int status;
  } cases[] = {{{{"spec", {{"replicas", -1}}}}, 422},
               {{{"spec", {{"replicas", "3"}}}}, 422},
               {{{"spec", {{"replicas", 3e10}}}}, 422},
               {{{"spec", Json::object()}}, 422},
               {Json::array(), 400},
               {{{"kind", "Pod"}}, 400},
               {{{"metadata", {{"resourceVersion", "1"}}}, {"spec", {{"replicas", 3}}}}, 409}};
  for (const auto& [body, status] : cases) {
    EXPECT_EQ(send("PUT", sets + "/web/scale", body).status, status) << body;
  }
  EXPECT_EQ(get(sets + "/web").json()["metadata"]["resourceVersion"], version);
  EXPECT_EQ(get(sets + "/none/scale").status, 404);
  EXPECT_EQ(get(instances + "/x/scale").status, 404);
}

TEST_F(RestTest, DryRunTriesAndChangesNothing) {
  const auto revision = world_.store->revision();
  const Answer created =
      send("POST", sets, replica_set("web", 2), "application/json", {{"dryRun", "All"}});
  EXPECT_EQ(created.status, 201);
  EXPECT_EQ(created.json()["spec"]["replicas"], 2);
  EXPECT_EQ(world_.store->revision(), revision);
  EXPECT_EQ(get(sets + "/web").status, 404);
  send("POST", sets, replica_set("web", 2));
  world_.settle();
  EXPECT_EQ(send("DELETE", sets + "/web", {{"dryRun", {"All"}}}).status, 200);
  EXPECT_EQ(send("PATCH", sets + "/web/scale", {{"spec", {{"replicas", 9}}}},
                 "application/merge-patch+json", {{"dryRun", "All"}})
                .json()["spec"]["replicas"],
            9);
  EXPECT_EQ(get(sets + "/web").json()["spec"]["replicas"], 2);
  EXPECT_EQ(
      send("POST", sets, replica_set("x", 1), "application/json", {{"dryRun", "Some"}}).status,
      400);
}

TEST_F(RestTest, DeletionAnswersWithTheUid) {
  const Json uid = send("POST", sets, replica_set("web", 0)).json()["metadata"]["uid"];
  const Answer answer = send("DELETE", sets + "/web", {{"propagationPolicy", "Background"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json()["status"], "Success");
  EXPECT_EQ(answer.json()["details"]["uid"], uid);
  EXPECT_EQ(send("DELETE", sets + "/web", nullptr).status, 404);
  EXPECT_EQ(send("DELETE", sets + "/web", {{"propagationPolicy", "Sideways"}}).status, 400);
}

TEST_F(RestTest, DeletionPreconditions) {
  const Json uid = send("POST", sets, replica_set("web", 0)).json()["metadata"]["uid"];
  EXPECT_EQ(send("DELETE", sets + "/web", {{"preconditions", {{"uid", "another"}}}}).status, 409);
  EXPECT_EQ(send("DELETE", sets + "/web", {{"preconditions", {{"resourceVersion", "1"}}}}).status,
            409);
  EXPECT_EQ(send("DELETE", sets + "/web", {{"preconditions", {{"uid", uid}}}}).status, 200);
}

TEST_F(RestTest, FinalizersKeepADeletedObject) {
  Json body = replica_set("web", 0);
  body["metadata"]["finalizers"] = {"example.org/mine"};
  send("POST", sets, body);
  const Answer deleted = send("DELETE", sets + "/web", nullptr);
  EXPECT_EQ(deleted.status, 200);
  EXPECT_TRUE(deleted.json()["metadata"].contains("deletionTimestamp"));
  EXPECT_EQ(deleted.json()["metadata"]["generation"], 2);
  EXPECT_EQ(
      send("POST", sets, replica_set("web", 0)).json()["message"].get<std::string>().substr(0, 26),
      "object is being deleted: v");
  EXPECT_EQ(patch(sets + "/web", {{"metadata", {{"finalizers", {"example.org/mine", "new/one"}}}}})
                .status,
            422);
  EXPECT_EQ(patch(sets + "/web", {{"metadata", {{"finalizers", nullptr}}}}).status, 200);
  EXPECT_EQ(get(sets + "/web").status, 404);
}

TEST_F(RestTest, ListsWithSelectors) {
  for (const char* name : {"a", "b", "c"}) {
    Json body = replica_set(name, 0);
    body["metadata"]["labels"] = {{"letter", name}};
    send("POST", sets, body);
  }
  const auto names = [&](std::vector<std::pair<std::string, std::string>> query) {
    std::vector<std::string> result;
    const Json list = get(sets, "", std::move(query)).json();
    for (const Json& item : list["items"]) {
      result.push_back(item["metadata"]["name"]);
    }
    return result;
  };
  EXPECT_THAT(names({}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names({{"labelSelector", "letter in (a,c)"}}), ElementsAre("a", "c"));
  EXPECT_THAT(names({{"fieldSelector", "metadata.name=b"}}), ElementsAre("b"));
  EXPECT_THAT(names({{"fieldSelector", "metadata.name!=b,metadata.namespace=default"}}),
              ElementsAre("a", "c"));
  EXPECT_EQ(get(sets, "", {{"fieldSelector", "spec.replicas=1"}}).status, 400);
  EXPECT_EQ(get(sets, "", {{"labelSelector", "a in"}}).status, 400);
  const Json list = get(sets).json();
  EXPECT_EQ(list["kind"], "VirtualMachineInstanceReplicaSetList");
  EXPECT_EQ(list["metadata"]["resourceVersion"], std::to_string(world_.store->revision()));
  EXPECT_THAT(get(group + "/virtualmachineinstancereplicasets").json()["items"], SizeIs(3));
}

TEST_F(RestTest, TableForKubectl) {
  send("POST", sets, replica_set("web", 2));
  world_.settle();
  const Json table =
      get(sets, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").json();
  EXPECT_EQ(table["kind"], "Table");
  std::vector<std::string> columns;
  for (const Json& column : table["columnDefinitions"]) columns.push_back(column["name"]);
  EXPECT_THAT(columns, ElementsAre("Name", "Desired", "Current", "Ready", "Age"));
  EXPECT_EQ(table["columnDefinitions"][0]["format"], "name");
  EXPECT_EQ(table["rows"][0]["cells"], Json::parse(R"(["web",2,2,2,"0s"])"));
  EXPECT_EQ(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
  EXPECT_EQ(get(sets, "application/json;as=Table;v=v1;g=meta.k8s.io", {{"includeObject", "Object"}})
                .json()["rows"][0]["object"]["kind"],
            "VirtualMachineInstanceReplicaSet");
}

TEST_F(RestTest, TextForPeople) {
  send("POST", sets, replica_set("web", 2));
  world_.settle();
  EXPECT_EQ(get(sets, "text/plain").text,
            "NAME   DESIRED   CURRENT   READY   AGE\n"
            "web    2         2         2       0s\n");
  EXPECT_EQ(get(sets + "/web", "text/plain").text.substr(0, 4), "NAME");
  EXPECT_EQ(get(group + "/virtualmachineinstancereplicasets", "text/plain").text.substr(0, 9),
            "NAMESPACE");
  EXPECT_EQ(get(instances, "text/plain", {{"labelSelector", "x=y"}}).text,
            "No resources found in default namespace.\n");
  EXPECT_EQ(get(sets + "/none", "text/plain").text,
            "virtualmachineinstancereplicasets.kubevirt.io \"none\" not found\n");
}

TEST_F(RestTest, YamlBothWays) {
  const Answer created = call({.method = "POST",
                               .path = sets,
                               .accept = "application/yaml",
                               .content_type = "application/yaml",
                               .body = api::to_yaml(replica_set("web", 2))});
  EXPECT_EQ(created.status, 201);
  EXPECT_EQ(created.type, "application/yaml");
  EXPECT_EQ(api::parse_yaml(created.text)["spec"]["replicas"], 2);
  world_.settle();
  const Json list = api::parse_yaml(get(instances, "application/yaml").text);
  EXPECT_THAT(list["items"], SizeIs(2));
  EXPECT_EQ(list["items"], get(instances).json()["items"]);
  EXPECT_EQ(api::parse_yaml(get(sets, "application/yaml", {{"labelSelector", "x"}}).text)["items"],
            Json::array());
}

TEST_F(RestTest, BodyWithoutTypeIsRecognised) {
  // What curl -d sends, and what kubectl leaves out.
  for (const char* type : {"", "application/x-www-form-urlencoded"}) {
    EXPECT_EQ(
        call({.method = "POST",
              .path = sets,
              .content_type = type,
              .body = api::to_yaml(replica_set(std::string("yaml") + std::to_string(*type), 0))})
            .status,
        201);
    EXPECT_EQ(call({.method = "POST",
                    .path = sets,
                    .content_type = type,
                    .body = replica_set(std::string("json") + std::to_string(*type), 0).dump()})
                  .status,
              201);
  }
  EXPECT_EQ(
      call({.method = "POST", .path = sets, .content_type = "text/csv", .body = "a,b"}).status,
      415);
  EXPECT_EQ(call({.method = "POST", .path = sets}).status, 400);
  EXPECT_EQ(call({.method = "POST", .path = sets, .content_type = "application/json", .body = "{"})
                .status,
            400);
  EXPECT_EQ(call({.method = "POST",
                  .path = sets,
                  .content_type = "application/json",
                  .body = std::string(2'000'000, '[')})
                .status,
            400);
}

TEST_F(RestTest, OlderVersionOfAKindIsAnsweredAsAsked) {
  send("POST", sets, replica_set("web", 0));
  const std::string old =
      "/apis/kubevirt.io/v1alpha3/namespaces/default/virtualmachineinstancereplicasets";
  EXPECT_EQ(get(old + "/web").json()["apiVersion"], "kubevirt.io/v1alpha3");
  EXPECT_EQ(get(old).json()["items"][0]["apiVersion"], "kubevirt.io/v1alpha3");
  EXPECT_EQ(get(sets + "/web").json()["apiVersion"], "kubevirt.io/v1");
}

TEST_F(RestTest, PathsAndMethodsThatAreNot) {
  for (const char* path : {"/x", "/apis/none/v1", "/apis/kubevirt.io/v9/virtualmachineinstances",
                           "/apis/kubevirt.io/v1/pods", "/api/v1/namespaces/default/namespaces",
                           "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/a/b",
                           "/apis/kubevirt.io/v1/virtualmachineinstances/a"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_EQ(call({.method = "PUT", .path = sets}).status, 405);
  EXPECT_EQ(call({.method = "POST", .path = "/version"}).status, 405);
  EXPECT_EQ(
      call({.method = "POST", .path = group + "/virtualmachineinstances", .body = "{}"}).status,
      400);
}

TEST_F(RestTest, Namespaces) {
  EXPECT_EQ(get("/api/v1/namespaces/default").json()["status"]["phase"], "Active");
  EXPECT_EQ(send("DELETE", "/api/v1/namespaces/default", nullptr).status, 403);
  const Json created = send("POST", "/api/v1/namespaces", {{"metadata", {{"name", "lab"}}}}).json();
  EXPECT_EQ(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "lab");
  send("POST", group + "/namespaces/lab/virtualmachineinstances", instance("vm"));
  world_.settle();
  EXPECT_EQ(world_.host.alive_of("lab_"), 1u);
  world_.hypervisor->guests_obey = false;
  const Answer deleted = send("DELETE", "/api/v1/namespaces/lab", nullptr);
  EXPECT_EQ(deleted.status, 200);
  EXPECT_EQ(get("/api/v1/namespaces/lab").json()["status"]["phase"], "Terminating");
  EXPECT_EQ(
      send("POST", group + "/namespaces/lab/virtualmachineinstances", instance("next")).status,
      403);
  world_.advance(std::chrono::seconds(33));
  EXPECT_EQ(get("/api/v1/namespaces/lab").status, 404);
  EXPECT_EQ(world_.host.alive(), 0u);
}

TEST_F(RestTest, Discovery) {
  const Json groups = get("/apis").json();
  EXPECT_EQ(groups["kind"], "APIGroupList");
  EXPECT_EQ(groups["groups"][0]["preferredVersion"]["groupVersion"], "kubevirt.io/v1");
  EXPECT_EQ(get("/api").json()["versions"], Json::array({"v1"}));
  EXPECT_EQ(get("/apis/kubevirt.io").json()["kind"], "APIGroup");
  EXPECT_THAT(get("/apis/kubevirt.io/v1").text,
              HasSubstr("virtualmachineinstancereplicasets/scale"));
  const Answer aggregated =
      get("/apis",
          "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
  EXPECT_EQ(aggregated.type,
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  EXPECT_EQ(aggregated.json()["items"][0]["versions"][0]["resources"][0]["scope"], "Namespaced");
  // "Document {swagger: 2.0, …": old kubectls find in it that PATCH knows dryRun.
  EXPECT_THAT(get("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf").text,
              AllOf(StartsWith("\n\x03"
                               "2.0"),
                    HasSubstr("dryRun"), HasSubstr("kind: ConfigMap\nversion: v1\n")));
}

TEST_F(RestTest, ObjectOfAnotherNamespaceOrNameIsRefused) {
  send("POST", core + "/configmaps", {{"metadata", {{"name", "a"}}}});
  const Json other{{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", {{"name", "a"}, {"namespace", "elsewhere"}}}};
  const std::string path = core + "/configmaps/a";
  EXPECT_EQ(send("PUT", path, other).status, 400);
  EXPECT_THAT(patch(path, other).text, HasSubstr("namespace of the object (elsewhere)"));
  EXPECT_EQ(
      send("PATCH", path, other, "application/apply-patch+yaml", {{"fieldManager", "x"}}).status,
      400);
  EXPECT_EQ(send("PATCH", core + "/configmaps/b", other, "application/apply-patch+yaml",
                 {{"fieldManager", "x"}})
                .status,
            400);
  EXPECT_THAT(patch(path, {{"metadata", {{"name", "b"}}}}).text,
              HasSubstr("Invalid value: \\\"b\\\": field is immutable"));
  EXPECT_EQ(get(path).json()["metadata"]["namespace"], "default");
}

TEST_F(RestTest, NewObjectHasNoRevision) {
  const Answer answer =
      send("POST", core + "/configmaps", {{"metadata", {{"name", "a"}, {"resourceVersion", "5"}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.text, HasSubstr("metadata.resourceVersion should not be set"));
  EXPECT_EQ(get(core + "/configmaps/a").status, 404);
}

TEST_F(RestTest, FormsThatThereAreNot) {
  EXPECT_EQ(get(core + "/configmaps", "image/png").status, 406);
  EXPECT_EQ(get(core + "/configmaps", "application/vnd.kubernetes.protobuf").status, 406);
  for (const char* accept :
       {"*/*", "text/html, image/webp;q=0.8, */*;q=0.5", "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf,application/json", "application/*", "text/*"}) {
    EXPECT_EQ(get(core + "/configmaps", accept).status, 200) << accept;
  }
}

// kubectl apply asks for them when it does not find a kind.
TEST_F(RestTest, ThereAreNoCustomResourceDefinitions) {
  EXPECT_EQ(get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").json()["items"],
            Json::array());
}

}  // namespace
}  // namespace virtset::test
