// Server-side apply: what becomes of an object and of who owns what.

#include "api/rest/apply/apply.h"

#include "tests/unit/api/apply_fixture.h"

namespace virtset::test {
namespace {

using api::member;
using testing::ElementsAre;

TEST_F(ApplyTest, CreatesAnObject) {
  apply("a", "{metadata: {labels: {app: web}}, spec: {running: true, cpu: {cores: 2}}}");
  Json expected =
      widget("{metadata: {labels: {app: web}}, spec: {running: true, cpu: {cores: 2}}}");
  expected["metadata"]["managedFields"] = Json::parse(R"([{
    "manager": "a", "operation": "Apply", "apiVersion": "example.org/v1",
    "time": "2019-12-20T00:01:00Z", "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}},
                 "f:spec": {"f:running": {}, "f:cpu": {"f:cores": {}}}}}])");
  EXPECT_EQ(object(), expected);
}

TEST_F(ApplyTest, SameConfigurationAgainChangesNothing) {
  const std::string configuration =
      "{metadata: {finalizers: [x]}, data: {a: '1'}, spec: {disks: [{name: d, size: 1Gi}], "
      "args: [b, a], tags: [t], options: {x: {y: [1]}}}}";
  const Json first = apply("a", configuration);
  EXPECT_EQ(apply("a", configuration), first);
}

TEST_F(ApplyTest, WhatTheServerAddedStays) {
  apply("a", "{spec: {running: true}}");
  (*object_)["spec"]["replicas"] = 1;  // a default
  (*object_)["metadata"]["uid"] = "u1";
  const Json first = object();
  EXPECT_EQ(apply("a", "{spec: {running: true}}"), first);
}

TEST_F(ApplyTest, ChangeOfOneOwner) {
  apply("a", "{spec: {running: true, replicas: 1}}");
  const Json before = entry("a");
  apply("a", "{spec: {running: true, replicas: 2}}");
  EXPECT_EQ(spec()["replicas"], 2);
  EXPECT_EQ(owned("a"), before["fieldsV1"]);
  EXPECT_EQ(entry("a")["time"], "2019-12-20T00:02:00Z");
}

TEST_F(ApplyTest, OmittedFieldIsRemoved) {
  apply("a", "{spec: {running: true, replicas: 1}, data: {a: '1', b: '2'}}");
  apply("a", "{spec: {running: true}, data: {b: '2'}}");
  EXPECT_EQ(spec(), read("{running: true}"));
  EXPECT_EQ(object()["data"], read("{b: '2'}"));
}

TEST_F(ApplyTest, ContainerGoesWithItsLastField) {
  apply("a",
        "{metadata: {labels: {x: y}}, spec: {running: true, cpu: {cores: 1}, options: {o: 1}}}");
  apply("a", "{spec: {running: true}}");
  EXPECT_EQ(spec(), read("{running: true}"));
  EXPECT_FALSE(object()["metadata"].contains("labels"));
}

// Kubernetes: defaults that came with an object go with it.
TEST_F(ApplyTest, WhatNobodyOwnsGoesWithWhatContainsIt) {
  apply("a", "{spec: {running: true, cpu: {cores: 1}}}");
  (*object_)["spec"]["cpu"]["model"] = "host";
  apply("a", "{spec: {running: true}}");
  EXPECT_EQ(spec(), read("{running: true}"));
}

TEST_F(ApplyTest, WhatNobodyOwnsStaysWithWhatContainsIt) {
  apply("a", "{spec: {running: true, replicas: 1, cpu: {cores: 1}}, data: {k: v}}");
  (*object_)["spec"]["cpu"]["model"] = "host";
  (*object_)["spec"]["port"] = 80;
  (*object_)["data"]["l"] = "w";
  apply("a", "{spec: {running: true, cpu: {}}, data: {}}");
  EXPECT_EQ(spec(), read("{running: true, cpu: {model: host}, port: 80}"));
  EXPECT_EQ(object()["data"], read("{l: w}"));
}

TEST_F(ApplyTest, SameValueIsShared) {
  apply("a", "{spec: {running: true}}");
  apply("b", "{spec: {running: true, replicas: 1}}");
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:running': {}}}"));
  EXPECT_EQ(owned("b"), read("{'f:spec': {'f:running': {}, 'f:replicas': {}}}"));
}

TEST_F(ApplyTest, SharedFieldStaysUntilItsLastOwnerOmitsIt) {
  apply("a", "{spec: {running: true, replicas: 1}}");
  apply("b", "{spec: {running: true, replicas: 1}}");
  apply("a", "{spec: {running: true}}");
  EXPECT_EQ(spec()["replicas"], 1);
  apply("b", "{spec: {running: true}}");
  EXPECT_EQ(spec(), read("{running: true}"));
}

TEST_F(ApplyTest, EntryGoesWithItsLastField) {
  apply("a", "{spec: {running: true}}");
  apply("b", "{spec: {replicas: 1}}");
  apply("b", "{}");
  EXPECT_TRUE(entry("b").is_null());
  apply("a", "{}");
  EXPECT_FALSE(object()["metadata"].contains("managedFields"));
  EXPECT_FALSE(object().contains("spec"));
}

TEST_F(ApplyTest, OneConflict) {
  apply("X", "{data: {a: '1'}}");
  const auto error = refusal("Y", "{data: {a: '2', b: '3'}}");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), 409);
  EXPECT_EQ(error->reason(), "Conflict");
  EXPECT_STREQ(error->what(), "Apply failed with 1 conflict: conflict with \"X\": .data.a");
  ASSERT_EQ(error->causes.size(), 1u);
  EXPECT_STREQ(api::to_string(error->causes[0].reason), "FieldManagerConflict");
  EXPECT_EQ(error->causes[0].message, "conflict with \"X\"");
  EXPECT_EQ(error->causes[0].field, ".data.a");
}

TEST_F(ApplyTest, ConflictsWithSeveralManagers) {
  apply("X", "{data: {a: '1', b: '1'}, spec: {ports: [{port: 80, name: http}]}}");
  update("U", "{spec: {running: true}}");
  EXPECT_EQ(refused("Y",
                    "{data: {a: '2', b: '2'}, spec: {running: false, "
                    "ports: [{port: 80, name: www}]}}"),
            "Apply failed with 4 conflicts: conflicts with \"U\" using example.org/v1:\n"
            "- .spec.running\n"
            "conflicts with \"X\":\n"
            "- .data.a\n"
            "- .data.b\n"
            "- .spec.ports[port=80,protocol=\"TCP\"].name");
}

TEST_F(ApplyTest, ConflictWithASubresource) {
  apply("X", "{spec: {running: true, replicas: 1}}");
  update("hpa", "{spec: {replicas: 3}}", "scale");
  EXPECT_EQ(refused("X", "{spec: {running: true, replicas: 1}}"),
            "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using "
            "example.org/v1: .spec.replicas");
}

TEST_F(ApplyTest, ForceTakesFields) {
  apply("X", "{data: {a: '1', b: '1'}}");
  force("Y", "{data: {a: '2'}}");
  EXPECT_EQ(object()["data"], read("{a: '2', b: '1'}"));
  EXPECT_EQ(owned("X"), read("{'f:data': {'f:b': {}}}"));
  EXPECT_EQ(owned("Y"), read("{'f:data': {'f:a': {}}}"));
  EXPECT_EQ(entry("X")["time"], "2019-12-20T00:01:00Z");
}

TEST_F(ApplyTest, ConflictLeavesWhatIsOmittedToOthers) {
  apply("X", "{spec: {running: true}}");
  apply("Y", "{spec: {running: true, replicas: 1}}");
  // X wants another value of what Y shares.
  EXPECT_EQ(refused("X", "{spec: {running: false}}"),
            "Apply failed with 1 conflict: conflict with \"Y\": .spec.running");
}

TEST_F(ApplyTest, NullIsOwnedAndSetsNothing) {
  given("{spec: {running: true, replicas: 1, cpu: {cores: 1}}}");
  EXPECT_EQ(refused("a", "{spec: {replicas: null}}"),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using "
            "example.org/v1: .spec.replicas");
  force("a", "{spec: {replicas: null, cpu: null}}");
  EXPECT_EQ(spec(), read("{running: true, cpu: {cores: 1}}"));
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:replicas': {}, 'f:cpu': {}}}"));
  const Json before = object();
  EXPECT_EQ(force("a", "{spec: {replicas: null, cpu: null}}"), before);
}

TEST_F(ApplyTest, AtomicMapAndListAreOwnedAsAWhole) {
  apply("a", "{spec: {selector: {x: y}, args: [a, b]}}");
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:selector': {}, 'f:args': {}}}"));
  EXPECT_EQ(refused("b", "{spec: {selector: {z: y}, args: [a]}}"),
            "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.args\n- .spec.selector");
  apply("a", "{spec: {selector: {z: y}, args: [c]}}");
  EXPECT_EQ(spec(), read("{selector: {z: y}, args: [c]}"));
  apply("a", "{spec: {args: [c]}}");
  EXPECT_EQ(spec(), read("{args: [c]}"));
}

TEST_F(ApplyTest, WithoutASchemaMapsMergeAndListsAreAtomic) {
  apply("a", "{spec: {options: {x: {y: 1}, l: [{n: 1}]}}}");
  apply("b", "{spec: {options: {x: {z: 2}}}}");
  EXPECT_EQ(spec()["options"], read("{x: {y: 1, z: 2}, l: [{n: 1}]}"));
  EXPECT_EQ(owned("a"),
            read("{'f:spec': {'f:options': {'f:x': {'.': {}, 'f:y': {}}, 'f:l': {}}}}"));
  EXPECT_EQ(refused("b", "{spec: {options: {l: [{n: 1}, {n: 2}]}}}"),
            "Apply failed with 1 conflict: conflict with \"a\": .spec.options.l");
}

TEST_F(ApplyTest, ValueOfAnotherTypeReplaces) {
  apply("a", "{spec: {port: http, options: {o: {x: 1}}}}");
  apply("a", "{spec: {port: 80, options: {o: [1]}}}");
  EXPECT_EQ(spec(), read("{port: 80, options: {o: [1]}}"));
  EXPECT_NE(refused("b", "{spec: {options: {o: {x: 1}}}}"), "");
  apply("a", "{spec: {port: 80, options: {o: {x: 1}}}}");
  EXPECT_EQ(spec()["options"], read("{o: {x: 1}}"));
}

TEST_F(ApplyTest, EmptyMapIsOwned) {
  apply("a", "{spec: {cpu: {}, options: {}}}");
  EXPECT_EQ(owned("a"), read("{'f:spec': {'f:cpu': {}, 'f:options': {}}}"));
  EXPECT_EQ(spec(), read("{cpu: {}, options: {}}"));
}

TEST_F(ApplyTest, WhatOnlyTheServerSetsIsLeftAlone) {
  given(
      "{metadata: {creationTimestamp: '2019-01-01T00:00:00Z', generation: 4}, "
      "status: {phase: Running}}");
  apply("a", "{data: {a: '1'}}");
  const Json before = object();
  EXPECT_EQ(apply("a",
                  "{metadata: {creationTimestamp: null, generation: 1}, data: {a: '1'}, "
                  "status: {phase: Wrong}}"),
            before);
}

TEST_F(ApplyTest, StatusHasItsOwnEntry) {
  apply("a", "{spec: {running: true}}");
  apply("a", "{metadata: {labels: {x: y}}, spec: {running: false}, status: {phase: Running}}",
        false, "status");
  EXPECT_EQ(object()["status"], read("{phase: Running}"));
  EXPECT_EQ(spec(), read("{running: true}"));
  EXPECT_FALSE(object()["metadata"].contains("labels"));
  ASSERT_EQ(managed().size(), 2u);
  EXPECT_EQ(managed()[1]["subresource"], "status");
  EXPECT_EQ(managed()[1]["fieldsV1"], read("{'f:status': {'f:phase': {}}}"));
  apply("a", "{}");
  EXPECT_EQ(object()["status"], read("{phase: Running}"));
}

TEST_F(ApplyTest, VersionsShareOneEntry) {
  apply("a", "{spec: {running: true, replicas: 1}}");
  Json second = widget("{spec: {running: true}}");
  second["apiVersion"] = "example.org/v2";
  apply({"a", "example.org/v2", ""}, second);
  EXPECT_EQ(spec(), read("{running: true}"));
  EXPECT_EQ(object()["apiVersion"], "example.org/v1");
  ASSERT_EQ(managed().size(), 1u);
  EXPECT_EQ(managed()[0]["apiVersion"], "example.org/v2");
}

TEST_F(ApplyTest, ConfigurationMustBeOfThisKind) {
  const auto message = [&](const Json& configuration) {
    const auto error = refusal(writer("a"), configuration);
    EXPECT_TRUE(error && error->code() == 400) << configuration;
    return error ? std::string(error->what()) : "";
  };
  Json wrong = widget("{}");
  wrong["kind"] = "Gadget";
  EXPECT_EQ(message(wrong), "invalid object type: example.org/v1, Kind=Gadget");
  wrong = widget("{}");
  wrong["apiVersion"] = "v1";
  EXPECT_EQ(message(wrong), "invalid object type: /v1, Kind=Widget");
  EXPECT_EQ(message(Json::object()), "invalid object type: /, Kind=");
  EXPECT_EQ(message(Json::array()), "the body must be one object of kind Widget");
  wrong = widget("{}");
  wrong["metadata"] = "text";
  EXPECT_EQ(message(wrong), "metadata must be an object");
  EXPECT_EQ(message(widget("{metadata: {managedFields: []}}")),
            "metadata.managedFields must be nil");
  EXPECT_FALSE(refusal(writer("a"), widget("{metadata: {managedFields: null}}")));
}

TEST_F(ApplyTest, ShapesThatNoSchemaAllowsAreLeftToAdmission) {
  given("{metadata: {labels: {a: b}}, spec: {disks: [{name: d}], tags: [t]}}");
  for (const char* wrong :
       {"{spec: 5}", "{spec: [1]}", "{spec: null}", "{metadata: {labels: [1]}}",
        "{spec: {disks: {a: b}}}", "{spec: {disks: 5, tags: {}}}", "{spec: {cpu: [[]]}}",
        "{data: text}", "{spec: {running: {a: [{b: c}]}}}"}) {
    object_.reset();
    apply("a", wrong);
    given("{metadata: {labels: {a: b}}, spec: {disks: [{name: d}], tags: [t]}}");
    force("a", wrong);
    force("a", wrong);
    force("a", "{}");
  }
}

TEST_F(ApplyTest, ManagerWithoutAName) {
  apply("", "{spec: {running: true}}");
  EXPECT_EQ(managed()[0]["manager"], "unknown");
}

TEST_F(ApplyTest, NothingButATimeIsNoChange) {
  const Json before = apply("a", "{spec: {running: true}}");
  Json after = before;
  EXPECT_TRUE(api::equal_but_for_times(before, after));
  after["metadata"]["managedFields"][0]["time"] = "2030-01-01T00:00:00Z";
  EXPECT_TRUE(api::equal_but_for_times(before, after));
  after["spec"]["running"] = false;
  EXPECT_FALSE(api::equal_but_for_times(before, after));
  after = before;
  after["metadata"]["managedFields"][0]["manager"] = "b";
  EXPECT_FALSE(api::equal_but_for_times(before, after));
  after["metadata"].erase("managedFields");
  EXPECT_FALSE(api::equal_but_for_times(before, after));
  after = before;
  after["metadata"]["labels"] = {{"a", "b"}};
  EXPECT_FALSE(api::equal_but_for_times(before, after));
  EXPECT_FALSE(api::equal_but_for_times(after, before));
}

}  // namespace
}  // namespace virtset::test
