#include "api/rest/strategic_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/errors.h"
#include "api/kinds/yaml.h"

namespace virtset::test {
namespace {

using Json = nlohmann::json;

class StrategicMerge : public testing::Test {
 protected:
  // Written as YAML, which is shorter.
  Json merged(const std::string& document, const std::string& patch) {
    return api::strategic_merge(api::parse_yaml(document), api::parse_yaml(patch), *schema_);
  }
  api::SchemaPtr schema_ = api::Schema::load(api::parse_yaml(R"(
type: object
properties:
  ports:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [port]
    items:
      type: object
      properties:
        port: {type: integer}
        names: {type: array, items: {type: string}}
  finalizers: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  plain: {type: array, items: {type: object}}
  map: {type: object, additionalProperties: {type: string}}
)"),
                                             Json::object());
};

TEST_F(StrategicMerge, ObjectsMergeAndNullRemoves) {
  EXPECT_EQ(merged("map: {a: x, b: y}", "map: {b: null, c: z}"),
            api::parse_yaml("map: {a: x, c: z}"));
}

TEST_F(StrategicMerge, ItemsMergeByTheirKey) {
  EXPECT_EQ(merged("ports: [{port: 80, name: a}, {port: 81}]",
                   "ports: [{port: 81, name: b}, {port: 82}]"),
            api::parse_yaml("ports: [{port: 80, name: a}, {port: 81, name: b}, {port: 82}]"));
}

TEST_F(StrategicMerge, ItemIsDeletedByDirective) {
  EXPECT_EQ(merged("ports: [{port: 80}, {port: 81}]", "ports: [{port: 80, $patch: delete}]"),
            api::parse_yaml("ports: [{port: 81}]"));
  EXPECT_EQ(merged("ports: [{port: 80}]", "ports: [{port: 99, $patch: delete}]"),
            api::parse_yaml("ports: [{port: 80}]"));
}

TEST_F(StrategicMerge, KubectlsOrderIsKept) {
  // As kubectl apply writes it.
  EXPECT_EQ(merged("ports: [{port: 80}, {port: 81, name: x}, {port: 90}]", R"(
$setElementOrder/ports: [{port: 82}, {port: 81}]
ports: [{port: 82, name: c}, {port: 81, targetPort: 8}, {port: 80, $patch: delete}]
)"),
            api::parse_yaml(
                "ports: [{port: 82, name: c}, {port: 81, name: x, targetPort: 8}, {port: 90}]"));
}

TEST_F(StrategicMerge, ListIsReplacedByDirective) {
  EXPECT_EQ(merged("ports: [{port: 80}]", "ports: [{$patch: replace}, {port: 1}]"),
            api::parse_yaml("ports: [{port: 1}]"));
}

TEST_F(StrategicMerge, ObjectIsReplacedOrDeletedByDirective) {
  EXPECT_EQ(merged("map: {a: x}", "map: {$patch: replace, b: y}"), api::parse_yaml("map: {b: y}"));
  EXPECT_EQ(merged("map: {a: x}\nother: 1", "map: {$patch: delete}"), api::parse_yaml("other: 1"));
}

TEST_F(StrategicMerge, SetsAreUnited) {
  EXPECT_EQ(merged("finalizers: [a, b]", "finalizers: [b, c]"),
            api::parse_yaml("finalizers: [a, b, c]"));
  EXPECT_EQ(merged("finalizers: [a, b]", "$deleteFromPrimitiveList/finalizers: [a]"),
            api::parse_yaml("finalizers: [b]"));
}

TEST_F(StrategicMerge, OtherListsAreReplaced) {
  EXPECT_EQ(merged("plain: [{a: 1}, {b: 2}]", "plain: [{c: 3}]"),
            api::parse_yaml("plain: [{c: 3}]"));
  EXPECT_EQ(merged("unknown: [1, 2]", "unknown: [3]"), api::parse_yaml("unknown: [3]"));
}

TEST_F(StrategicMerge, OnlyRetainedKeysStay) {
  EXPECT_EQ(merged("map: {a: x, b: y}", "map: {$retainKeys: [b, c], c: z}"),
            api::parse_yaml("map: {b: y, c: z}"));
}

TEST_F(StrategicMerge, DirectivesNeverStay) {
  EXPECT_EQ(merged("{}", R"(
map: {$retainKeys: [a], a: x}
ports: [{port: 1, $patch: merge}, {port: 2, $patch: delete}]
$setElementOrder/ports: [{port: 1}]
$deleteFromPrimitiveList/finalizers: [x]
)"),
            api::parse_yaml("map: {a: x}\nports: [{port: 1}]"));
}

TEST_F(StrategicMerge, NonsenseIsRefused) {
  EXPECT_THROW(merged("{}", "[]"), api::ApiError);
  EXPECT_THROW(merged("ports: []", "ports: [{name: x}]"), api::ApiError);
  EXPECT_THROW(merged("{}", "map: {$patch: explode}"), api::ApiError);
  EXPECT_THROW(merged("{}", "$setElementOrder/ports: 1"), api::ApiError);
  EXPECT_THROW(merged("{}", "$deleteFromPrimitiveList/x: 1"), api::ApiError);
}

TEST_F(StrategicMerge, ItemAfterOneThatIsThereTwice) {
  EXPECT_EQ(
      merged("ports: [{port: 1}, {port: 1}, {port: 2}]", "ports: [{port: 2, $patch: delete}]"),
      api::parse_yaml("ports: [{port: 1}, {port: 1}]"));
}

TEST_F(StrategicMerge, ScalarInPlaceOfAListOrObject) {
  EXPECT_EQ(merged("ports: 1\nmap: 2", "ports: [{port: 1}]\nmap: {a: x}"),
            api::parse_yaml("ports: [{port: 1}]\nmap: {a: x}"));
}

}  // namespace
}  // namespace virtset::test
