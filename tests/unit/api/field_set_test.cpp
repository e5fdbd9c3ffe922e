// Sets of fields, as managedFields writes them.

#include "api/rest/apply/field_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/errors.h"

namespace virtset::test {
namespace {

using api::FieldSet;
using api::PathElement;
using testing::ElementsAre;
using testing::IsEmpty;
using Json = nlohmann::json;

FieldSet set(const std::string& json) { return FieldSet::parse(Json::parse(json)); }

FieldSet unite(FieldSet a, const FieldSet& b) { return a.unite(b); }
FieldSet subtract(FieldSet a, const FieldSet& b) { return a.subtract(b); }
FieldSet subtract_trees(FieldSet a, const FieldSet& b) { return a.subtract_trees(b); }

std::string refused(const Json& fields) {
  try {
    FieldSet::parse(fields);
  } catch (const api::ApiError& error) {
    EXPECT_EQ(error.code(), 400);
    return error.what();
  }
  return "";
}

TEST(FieldSet, ElementsAreShownAsKubernetesShowsThem) {
  EXPECT_THAT(set(R"({
    "f:data": {".": {}, "f:a.b": {}},
    "f:list": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}},
               "v:\"x\"": {}, "v:1": {}, "i:3": {}}})")
                  .paths(),
              ElementsAre(".data", ".data.a.b", ".list[=1]", ".list[=\"x\"]", ".list[3]",
                          ".list[port=80,protocol=\"TCP\"].name"));
}

TEST(FieldSet, IsWrittenAsItWasRead) {
  const Json json = Json::parse(R"({
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:spec": {"f:disks": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}, "v:null": {}}}})");
  EXPECT_EQ(FieldSet::parse(json).to_json(), json);
  EXPECT_EQ(FieldSet().to_json(), Json::object());
}

TEST(FieldSet, KeysAreTheSameHoweverTheyAreWritten) {
  const FieldSet one = set(R"({"k:{\"a\":1,\"b\":\"\\u0041\"}": {}})");
  EXPECT_EQ(one, set(R"({"k:{ \"b\":\"A\", \"a\":1 }": {}})"));
  EXPECT_EQ(one.to_json(), Json::parse(R"({"k:{\"a\":1,\"b\":\"A\"}": {}})"));
  EXPECT_EQ(set(R"({"k:{\"a\":1}": {}, "k:{ \"a\":1}": {}})").size(), 1u);
}

TEST(FieldSet, NumbersAreInTheirOrder) {
  EXPECT_THAT(set(R"({"k:{\"p\":80}": {}, "k:{\"p\":443}": {}, "k:{\"p\":8080}": {}})").paths(),
              ElementsAre("[p=80]", "[p=443]", "[p=8080]"));
}

TEST(FieldSet, OperationsTreatEachPathForItself) {
  const FieldSet parent = set(R"({"f:a": {}})");
  const FieldSet child = set(R"({"f:a": {"f:b": {}}})");
  const FieldSet both = set(R"({"f:a": {".": {}, "f:b": {}}})");
  EXPECT_EQ(unite(parent, child), both);
  EXPECT_THAT(parent.intersect(child).paths(), IsEmpty());
  EXPECT_TRUE(parent.intersect(child).empty());
  EXPECT_EQ(both.intersect(child), child);
  EXPECT_EQ(subtract(both, child), parent);
  EXPECT_EQ(subtract(both, parent), child);
  EXPECT_EQ(subtract(child, parent), child);
  EXPECT_TRUE(subtract(both, both).empty());
  EXPECT_TRUE(subtract_trees(both, parent).empty());
  EXPECT_EQ(subtract_trees(both, child), parent);
}

TEST(FieldSet, OperationsKeepTheRest) {
  const FieldSet a = set(R"({"f:a": {}, "f:b": {"f:x": {}}, "f:d": {}})");
  const FieldSet b = set(R"({"f:b": {"f:y": {}}, "f:c": {}, "f:d": {}})");
  EXPECT_THAT(unite(a, b).paths(), ElementsAre(".a", ".c", ".d", ".b.x", ".b.y"));
  EXPECT_THAT(a.intersect(b).paths(), ElementsAre(".d"));
  EXPECT_THAT(subtract(a, b).paths(), ElementsAre(".a", ".b.x"));
  EXPECT_EQ(unite(a, b).size(), 5u);
}

// Kubernetes: "a future version maybe knows what they are".
TEST(FieldSet, UnknownElementsAreLeftOut) {
  EXPECT_THAT(set(R"({"x:new": {}, "f:a": {"z:more": {"f:b": {}}}})").paths(), ElementsAre(".a"));
}

TEST(FieldSet, NullIsEmpty) {
  EXPECT_TRUE(FieldSet::parse(nullptr).empty());
  EXPECT_THAT(set(R"({"f:a": null})").paths(), ElementsAre(".a"));
}

TEST(FieldSet, GarbageIsRefused) {
  EXPECT_EQ(refused(Json::parse(R"({"f:a": []})")),
            "metadata.managedFields: fieldsV1: expected an object");
  EXPECT_EQ(refused(Json::parse(R"({"spec": {}})")),
            "metadata.managedFields: fieldsV1: \"spec\" has no type");
  for (const char* name :
       {"", "f", "k:", "k:5", "k:[1]", "k:{", "k:{\"a\":{}}", "k:{\"a\":[]}", "v:", "v:{}", "v:[]",
        "v:nope", "v:1e999", "v:\"\xff\"", "i:", "i:x", "i:1x", "i:99999999999999999999"}) {
    EXPECT_NE(refused(Json{{name, Json::object()}}), "") << name;
  }
  for (const Json& wrong : {Json(5), Json("f:a"), Json::array(), Json(true)}) {
    EXPECT_NE(refused(wrong), "") << wrong;
  }
}

TEST(FieldSet, DepthIsBounded) {
  Json deep = Json::object();
  for (int i = 0; i < 10'000; ++i) deep = Json{{"f:a", std::move(deep)}};
  EXPECT_EQ(refused(deep), "metadata.managedFields: fieldsV1: nested too deeply");
  EXPECT_NE(refused(Json{{"v:" + std::string(100'000, '['), Json::object()}}), "");
  std::string objects = "k:";
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(refused(Json{{objects, Json::object()}}), "");
}

}  // namespace
}  // namespace virtset::test
