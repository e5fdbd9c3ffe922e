// Ownership of fields where not everybody applies.

#include "tests/unit/api/apply_fixture.h"

namespace virtset::test {
namespace {

using api::member;

const std::string last_applied = "kubectl.kubernetes.io/last-applied-configuration";

TEST_F(ApplyTest, WithoutAnApplyNothingIsTracked) {
  given("{data: {a: '1'}}");
  update("u", "{data: {a: '2'}}");
  EXPECT_FALSE(object()["metadata"].contains("managedFields"));
}

TEST_F(ApplyTest, WhatWasThereBelongsToBeforeFirstApply) {
  given(
      "{metadata: {labels: {l: x}}, data: {a: '1'}, spec: {running: true}, "
      "status: {phase: Running}}");
  apply("a", "{data: {a: '1', b: '2'}}");
  EXPECT_EQ(owned("a"), read("{'f:data': {'f:a': {}, 'f:b': {}}}"));
  EXPECT_EQ(entry("before-first-apply", "Update"), Json::parse(R"({
    "manager": "before-first-apply", "operation": "Update", "apiVersion": "example.org/v1",
    "time": "2019-12-20T00:01:00Z", "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                 "f:data": {".": {}, "f:a": {}}, "f:spec": {".": {}, "f:running": {}}}})"));
  EXPECT_EQ(refused("a", "{data: {a: '2'}}"),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using "
            "example.org/v1: .data.a");
  apply("a", "{}");
  EXPECT_EQ(object()["data"], read("{a: '1'}"));
}

TEST_F(ApplyTest, UpdateTakesOwnership) {
  apply("a", "{spec: {running: true, replicas: 1}}");
  update("kubectl-edit", "{spec: {replicas: 5}}");
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:running': {}}}"));
  EXPECT_EQ(owned("kubectl-edit", "Update"), read("{'f:spec': {'f:replicas': {}}}"));
  EXPECT_EQ(refused("a", "{spec: {running: true, replicas: 1}}"),
            "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using example.org/v1: "
            ".spec.replicas");
  // Omitting it gives it up.
  apply("a", "{spec: {running: true}}");
  EXPECT_EQ(spec()["replicas"], 5);
}

TEST_F(ApplyTest, UpdateThatChangesNothingTakesNothing) {
  const Json before = apply("a", "{spec: {replicas: 1}}");
  EXPECT_EQ(update("u", "{spec: {replicas: 1}}"), before);
}

TEST_F(ApplyTest, UpdateThatRemovesLeavesNoOwner) {
  apply("a", "{spec: {replicas: 1, running: true}}");
  update("u", "{spec: {replicas: null}}");
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:running': {}}}"));
  EXPECT_TRUE(entry("u", "Update").is_null());
}

TEST_F(ApplyTest, UpdateAddsToWhatItsManagerOwns) {
  apply("a", "{spec: {running: true}}");
  update("u", "{data: {x: '1'}}");
  update("u", "{data: {y: '1'}}");
  EXPECT_EQ(owned("u", "Update"), read("{'f:data': {'.': {}, 'f:x': {}, 'f:y': {}}}"));
  EXPECT_EQ(entry("u", "Update")["time"], "2019-12-20T00:03:00Z");
  update("u", "{data: {x: null}}");
  EXPECT_EQ(owned("u", "Update"), read("{'f:data': {'.': {}, 'f:y': {}}}"));
  EXPECT_EQ(entry("u", "Update")["time"], "2019-12-20T00:03:00Z");
}

TEST_F(ApplyTest, UpdatersAreToldApartBySubresourceAndVersion) {
  apply("a", "{spec: {running: true, replicas: 1}}");
  update("u", "{data: {x: '1'}}");
  update("u", "{spec: {replicas: 2}}", "scale");
  update("u", "{status: {phase: Running}}", "status");
  ASSERT_EQ(managed().size(), 4u);
  EXPECT_EQ(managed()[2]["subresource"], "scale");
  EXPECT_EQ(managed()[2]["fieldsV1"], read("{'f:spec': {'f:replicas': {}}}"));
  EXPECT_EQ(managed()[3]["subresource"], "status");
  EXPECT_EQ(managed()[3]["fieldsV1"], read("{'f:status': {'.': {}, 'f:phase': {}}}"));
}

TEST_F(ApplyTest, EntriesAreInOrder) {
  apply("b", "{data: {b: '1'}}");
  update("z", "{data: {z: '1'}}");
  now_ -= std::chrono::minutes(1);
  update("y", "{data: {y: '1'}}");
  apply("a", "{data: {a: '1'}}");
  std::vector<std::string> managers;
  for (const Json& item : managed()) managers.push_back(item["manager"]);
  EXPECT_THAT(managers, testing::ElementsAre("b", "a", "y", "z"));
}

TEST_F(ApplyTest, OldUpdatersAreMerged) {
  apply("a", "{spec: {running: true}}");
  for (int i = 0; i < 30; ++i) {
    update("u" + std::to_string(i), "{data: {k" + std::to_string(i) + ": v}}");
  }
  EXPECT_EQ(managed().size(), 1u + 10u);
  EXPECT_EQ(owned("ancient-changes", "Update")["f:data"].size(), 1u + 21u);
  EXPECT_EQ(entry("ancient-changes", "Update")["time"], "2019-12-20T00:22:00Z");
  EXPECT_FALSE(entry("u29", "Update").is_null());
  EXPECT_FALSE(entry("a").is_null());
}

TEST_F(ApplyTest, VersionsThatAreNotServedAreForgotten) {
  apply("a", "{spec: {running: true}}");
  update("u", "{data: {x: '1'}}");
  (*object_)["metadata"]["managedFields"][0]["apiVersion"] = "example.org/v1alpha1";
  update("u", "{data: {x: '2'}}");
  EXPECT_TRUE(entry("a").is_null());
  EXPECT_FALSE(entry("u", "Update").is_null());
}

TEST_F(ApplyTest, EmptyListEndsTheTracking) {
  for (const char* reset : {"[]", "[{}]"}) {
    object_.reset();
    apply("a", "{data: {x: '1'}}");
    update("u", std::string("{metadata: {managedFields: ") + reset + "}, data: {x: '2'}}");
    EXPECT_FALSE(object()["metadata"].contains("managedFields")) << reset;
    EXPECT_EQ(object()["data"]["x"], "2");
  }
}

TEST_F(ApplyTest, MissingOrMalformedListKeepsTheOldOne) {
  const Json before = apply("a", "{data: {x: '1'}}");
  for (const char* sent :
       {"null", "5", "text", "[5]", "[{}, {}]", "[{manager: a}]",
        "[{manager: a, operation: Apply, apiVersion: example.org/v1}]",
        "[{manager: a, operation: Own, apiVersion: example.org/v1, fieldsType: FieldsV1}]",
        "[{manager: a, operation: Apply, apiVersion: '', fieldsType: FieldsV1}]",
        "[{manager: 5, operation: Apply, apiVersion: example.org/v1, fieldsType: FieldsV1}]",
        "[{manager: a, operation: Apply, apiVersion: example.org/v1, fieldsType: FieldsV2}]",
        "[{manager: a, operation: Apply, apiVersion: example.org/v1, fieldsType: FieldsV1, "
        "time: yesterday}]",
        "[{manager: a, operation: Apply, apiVersion: example.org/v1, fieldsType: FieldsV1, "
        "fieldsV1: {spec: {}}}]"}) {
    EXPECT_EQ(update("u", std::string("{metadata: {managedFields: ") + sent + "}}"), before)
        << sent;
  }
}

TEST_F(ApplyTest, SubresourceCannotSetTheList) {
  const Json before = apply("a", "{data: {x: '1'}}");
  EXPECT_EQ(update("u", "{metadata: {managedFields: []}}", "status"), before);
}

TEST_F(ApplyTest, GivenListIsTheStateBeforeTheWrite) {
  apply("a", "{data: {x: '1', y: '1'}}");
  Json next = object();
  next["metadata"]["managedFields"][0]["manager"] = "b";
  next["data"]["x"] = "2";
  api::record_update(widget_kind(), object(), next, writer("u"), now_);
  object_ = next;
  EXPECT_TRUE(entry("a").is_null());
  EXPECT_EQ(owned("b"), read("{'f:data': {'f:y': {}}}"));
  EXPECT_EQ(owned("u", "Update"), read("{'f:data': {'f:x': {}}}"));
}

// What kubectl apply --server-side does with an object that kubectl apply made: it applies, makes
// the fields of the one who wrote the annotation its own by a patch of the list, and applies again.
TEST_F(ApplyTest, KubectlMigratesItsOwnApply) {
  given("{data: {old: '1', kept: '1'}}");
  (*object_)["metadata"]["annotations"][last_applied] =
      widget("{data: {old: '1', kept: '1'}}").dump() + "\n";
  apply("kubectl", "{data: {kept: '2'}}");
  EXPECT_EQ(object()["data"], read("{old: '1', kept: '2'}"));
  EXPECT_EQ(owned("before-first-apply", "Update"), Json::parse(R"({
    "f:metadata": {"f:annotations": {
        ".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}}},
    "f:data": {".": {}, "f:old": {}}})"));

  Json next = object();
  Json mine = entry("kubectl");
  mine["fieldsV1"].merge_patch(owned("before-first-apply", "Update"));
  next["metadata"]["managedFields"] = Json::array({mine});
  api::record_update(widget_kind(), object(), next, writer("kubectl"), now_);
  EXPECT_EQ(next["metadata"]["managedFields"], Json::array({mine}));
  object_ = next;
  apply("kubectl", "{data: {kept: '2'}}");
  EXPECT_EQ(object()["data"], read("{kept: '2'}"));
}

TEST_F(ApplyTest, AnnotationAllowsKubectlWhatNobodyChangedSince) {
  given("{data: {a: '1', b: 'edited'}}");
  (*object_)["metadata"]["annotations"][last_applied] = widget("{data: {a: '1', b: '1'}}").dump();
  EXPECT_EQ(refused("kubectl", "{data: {a: '2', b: '2'}}"),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using "
            "example.org/v1: .data.b");
  EXPECT_NE(refused("another", "{data: {a: '2'}}"), "");
  apply("kubectl", "{data: {a: '2'}}");
  EXPECT_EQ(object()["data"]["a"], "2");
}

TEST_F(ApplyTest, AnnotationFollowsKubectl) {
  given("{data: {a: '1'}}");
  (*object_)["metadata"]["annotations"][last_applied] = widget("{data: {a: '1'}}").dump() + "\n";
  apply("kubectl", "{data: {a: '<&>'}}");
  EXPECT_EQ(object()["metadata"]["annotations"][last_applied],
            "{\"apiVersion\":\"example.org/v1\",\"data\":{\"a\":\"\\u003c\\u0026\\u003e\"},"
            "\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"}}\n");
  const Json before = object();
  EXPECT_EQ(apply("kubectl", "{data: {a: '<&>'}}"), before);
}

TEST_F(ApplyTest, AnnotationThatIsGarbageAllowsNothing) {
  std::string deep;
  for (int i = 0; i < 40'000; ++i) deep += "{\"a\":";
  for (const std::string& garbage :
       {std::string("{"), std::string("[]"), std::string("5"), deep,
        std::string(R"({"apiVersion":"example.org/v1","data":[{}],"metadata":7})"),
        std::string(R"({"apiVersion":"v1","data":{"a":"1"}})")}) {
    given("{data: {a: '1'}}");
    (*object_)["metadata"]["annotations"][last_applied] = garbage;
    EXPECT_NE(refused("kubectl", "{data: {a: '2'}}"), "") << garbage.substr(0, 80);
  }
}

}  // namespace
}  // namespace virtset::test
