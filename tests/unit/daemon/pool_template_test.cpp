// What the virtual machines of a pool are made from, and which of them are next.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/virtualmachinepool/rules.h"
#include "daemon/controllers/pool/revisions.h"
#include "daemon/controllers/pool/selection.h"
#include "daemon/controllers/pool/template.h"

namespace virtset {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json pool_spec(const json& volume, const json& generation = json::object()) {
  json spec{{"nameGeneration", generation}};
  spec["virtualMachineTemplate"]["spec"] = {
      {"runStrategy", "Always"},
      {"dataVolumeTemplates", {{{"metadata", {{"name", "data"}}}}}},
      {"template", {{"spec", {{"volumes", json::array({volume})}}}}}};
  return spec;
}

// One resolver for every kind of reference.
TEST(PoolTemplate, IndexIsAppendedToWhatDiffers) {
  const json config_maps{{"appendIndexToConfigMapRefs", true}};
  const json secrets{{"appendIndexToSecretRefs", true}};
  const json nothing = json::object();
  const struct {
    json volume;
    json generation;
    json expected;
  } cases[] = {
      {{{"configMap", {{"name", "c"}}}}, config_maps, {{"configMap", {{"name", "c-7"}}}}},
      {{{"configMap", {{"name", "c"}}}}, secrets, {{"configMap", {{"name", "c"}}}}},
      {{{"secret", {{"secretName", "s"}}}}, secrets, {{"secret", {{"secretName", "s-7"}}}}},
      {{{"secret", {{"secretName", "s"}}}}, config_maps, {{"secret", {{"secretName", "s"}}}}},
      {{{"secret", {{"secretName", "s"}}}}, nothing, {{"secret", {{"secretName", "s"}}}}},
      {{{"cloudInitNoCloud", {{"secretRef", {{"name", "u"}}}}}},
       secrets,
       {{"cloudInitNoCloud", {{"secretRef", {{"name", "u-7"}}}}}}},
      {{{"cloudInitNoCloud", {{"networkDataSecretRef", {{"name", "n"}}}}}},
       secrets,
       {{"cloudInitNoCloud", {{"networkDataSecretRef", {{"name", "n-7"}}}}}}},
      {{{"cloudInitConfigDrive", {{"secretRef", {{"name", "u"}}}}}},
       secrets,
       {{"cloudInitConfigDrive", {{"secretRef", {{"name", "u-7"}}}}}}},
      {{{"cloudInitConfigDrive",
         {{"secretRef", {{"name", "u"}}}, {"networkDataSecretRef", {{"name", "n"}}}}}},
       secrets,
       {{"cloudInitConfigDrive",
         {{"secretRef", {{"name", "u-7"}}}, {"networkDataSecretRef", {{"name", "n-7"}}}}}}},
      {{{"sysprep", {{"secret", {{"name", "s"}}}}}},
       secrets,
       {{"sysprep", {{"secret", {{"name", "s"}}}}}}},
      {{{"dataVolume", {{"name", "data"}}}}, nothing, {{"dataVolume", {{"name", "data-7"}}}}},
      {{{"dataVolume", {{"name", "shared"}}}}, nothing, {{"dataVolume", {{"name", "shared"}}}}},
      {{{"persistentVolumeClaim", {{"claimName", "data"}}}},
       nothing,
       {{"persistentVolumeClaim", {{"claimName", "data-7"}}}}},
      {{{"persistentVolumeClaim", {{"claimName", "shared"}}}},
       nothing,
       {{"persistentVolumeClaim", {{"claimName", "shared"}}}}},
      {{{"ephemeral", {{"persistentVolumeClaim", {{"claimName", "data"}}}}}},
       nothing,
       {{"ephemeral", {{"persistentVolumeClaim", {{"claimName", "data-7"}}}}}}},
  };
  for (const auto& [volume, generation, expected] : cases) {
    json named = volume;
    named["name"] = "v";  // which never changes
    const json spec = indexed_template(pool_spec(named, generation), 7)["spec"];
    json wanted = expected;
    wanted["name"] = "v";
    EXPECT_EQ(spec["template"]["spec"]["volumes"][0], wanted);
    EXPECT_EQ(spec["dataVolumeTemplates"][0]["metadata"]["name"], "data-7");
  }
}

json machine_template(const json& labels, const std::string& strategy) {
  return {{"metadata", {{"labels", labels}}},
          {"spec",
           {{"runStrategy", strategy},
            {"template", {{"spec", {{"domain", {{"devices", json::object()}}}}}}}}}};
}

TEST(PoolTemplate, WhatUsersDidToAMachineSurvivesAnUpdate) {
  const json before = machine_template({{"app", "web"}, {"tier", "1"}}, "Always");
  json machine = before;
  machine["metadata"]["labels"]["mine"] = "x";
  machine["metadata"]["annotations"]["note"] = "y";
  machine["metadata"]["uid"] = "u";
  machine["spec"]["runStrategy"] = "Halted";  // stopped
  machine["spec"]["template"]["spec"]["domain"]["firmware"] = {{"uuid", "f"}, {"serial", "s"}};
  machine["spec"]["template"]["spec"]["domain"]["machine"]["type"] = "q35";
  json next = machine_template({{"app", "web"}, {"color", "blue"}}, "Always");
  next["spec"]["template"]["spec"]["hostname"] = "new";

  const json updated = with_template(machine, before, next);
  EXPECT_EQ(updated["metadata"]["labels"],
            (json{{"app", "web"}, {"color", "blue"}, {"mine", "x"}}));
  EXPECT_EQ(updated["metadata"]["annotations"], (json{{"note", "y"}}));
  EXPECT_EQ(updated["metadata"]["uid"], "u");
  EXPECT_EQ(updated["spec"]["runStrategy"], "Halted");
  EXPECT_EQ(updated["spec"]["template"]["spec"]["hostname"], "new");
  const json& domain = updated["spec"]["template"]["spec"]["domain"];
  EXPECT_EQ(domain["firmware"], (json{{"uuid", "f"}, {"serial", "s"}}));
  EXPECT_EQ(domain["machine"]["type"], "q35");
}

TEST(PoolTemplate, RunStrategyOfTheTemplateCountsWhereItChanges) {
  const json before = machine_template(json::object(), "Always");
  json machine = before;
  machine["spec"]["runStrategy"] = "Halted";
  const json updated =
      with_template(machine, before, machine_template(json::object(), "RerunOnFailure"));
  EXPECT_EQ(updated["spec"]["runStrategy"], "RerunOnFailure");
}

TEST(PoolTemplate, MachineThatAUserStoppedStaysOffWhereNobodyKnowsWhatItWasMadeFrom) {
  const json before = machine_template(json::object(), "Always");
  json machine = before;
  machine["spec"]["runStrategy"] = "Halted";
  EXPECT_EQ(with_template(machine, nullptr, before)["spec"]["runStrategy"], "Halted");
}

TEST(PoolTemplate, IndexIsTheNumberAfterTheLastDash) {
  EXPECT_EQ(index_of("web-12"), 12);
  EXPECT_EQ(index_of("a-1-b-3"), 3);
  EXPECT_EQ(index_of("web"), 0);
  EXPECT_EQ(index_of("web-x"), 0);
  EXPECT_EQ(index_of("web-99999999999"), 0);
}

// ---- who is next ----

PoolMember member(int index, bool ready = true, std::int64_t cost = 0) {
  PoolMember result{.key = {"", "", "", "web-" + std::to_string(index)},
                    .uid = "u" + std::to_string(index)};
  result.index = index;
  result.ready = result.available = ready;
  result.cost = cost;
  result.created = "2026-01-01T00:00:" + std::to_string(59 - index) + "Z";
  return result;
}

std::vector<int> order_of(const std::vector<PoolMember>& members,
                          const std::function<void(PoolMemberList&)>& sort) {
  PoolMemberList list;
  for (const PoolMember& member : members) list.push_back(&member);
  sort(list);
  std::vector<int> indexes;
  for (const PoolMember* member : list) indexes.push_back(member->index);
  return indexes;
}

std::vector<int> scale_in_order(const std::vector<PoolMember>& members, const std::string& policy) {
  return order_of(members, [&](PoolMemberList& list) { sort_for_scale_in(list, policy); });
}

TEST(PoolSelection, SortsByPolicy) {
  const std::vector<PoolMember> members{member(2), member(10), member(1)};
  EXPECT_THAT(scale_in_order(members, "AscendingOrder"), ElementsAre(1, 2, 10));
  EXPECT_THAT(scale_in_order(members, "DescendingOrder"), ElementsAre(10, 2, 1));
  // The higher the index the older they are here.
  EXPECT_THAT(scale_in_order(members, "Oldest"), ElementsAre(10, 2, 1));
  EXPECT_THAT(scale_in_order(members, "Newest"), ElementsAre(1, 2, 10));
  EXPECT_THAT(scale_in_order(members, "Random"), testing::UnorderedElementsAre(1, 2, 10));
}

TEST(PoolSelection, NamedVictimBeatsEveryPolicy) {
  const std::vector<PoolMember> members{member(0), member(1, true, 5), member(2, true, -1),
                                        member(3, false)};
  for (const char* policy :
       {"AscendingOrder", "DescendingOrder", "Newest", "Oldest", "Random", ""}) {
    const auto order = scale_in_order(members, policy);
    EXPECT_EQ(order.front(), 2) << policy;
    EXPECT_EQ(order.back(), 1) << policy;
  }
  // At random those go first that are not ready; with a policy they do not.
  EXPECT_EQ(scale_in_order(members, "")[1], 3);
  EXPECT_EQ(scale_in_order(members, "AscendingOrder")[1], 0);
}

TEST(PoolSelection, UpdatesThoseFirstThatCostNothing) {
  const std::vector<PoolMember> members{member(0), member(1), member(2), member(3, false)};
  EXPECT_THAT(order_of(members,
                       [&](PoolMemberList& list) {
                         sort_for_update(list, "DescendingOrder", {members[1].key});
                       }),
              ElementsAre(3, 1, 2, 0));
}

TEST(PoolSelection, SelectorsLookAtTheTemplateOfTheMachine) {
  const json machine{{"metadata", {{"labels", {{"own", "1"}}}}},
                     {"spec",
                      {{"template",
                        {{"metadata", {{"labels", {{"tier", "gold"}}}}},
                         {"spec", {{"nodeSelector", {{"zone", "a"}, {"rank", "5"}}}}}}}}}};
  const auto matches = [&](const json& selectors) {
    const json policy{{"selectors", selectors}};
    return PoolSelectors(policy).match(machine);
  };
  const auto by_labels = [&](const json& labels) {
    return matches({{"labelSelector", {{"matchLabels", labels}}}});
  };
  EXPECT_TRUE(by_labels({{"tier", "gold"}}));
  EXPECT_FALSE(by_labels({{"own", "1"}}));
  const auto requirement = [](const std::string& key, const std::string& op, const json& values) {
    return json{{"key", key}, {"operator", op}, {"values", values}};
  };
  const auto by_node = [&](const std::string& key, const std::string& op, const json& values) {
    return matches(
        {{"nodeSelectorRequirementMatcher", json::array({requirement(key, op, values)})}});
  };
  EXPECT_TRUE(by_node("zone", "In", {"a", "b"}));
  EXPECT_FALSE(by_node("zone", "In", {"b"}));
  EXPECT_FALSE(by_node("zone", "NotIn", {"a"}));
  EXPECT_TRUE(by_node("none", "NotIn", {"a"}));
  EXPECT_TRUE(by_node("zone", "Exists", json::array()));
  EXPECT_TRUE(by_node("none", "DoesNotExist", json::array()));
  EXPECT_TRUE(by_node("rank", "Gt", {"4"}));
  EXPECT_FALSE(by_node("rank", "Lt", {"5"}));
  EXPECT_FALSE(by_node("zone", "Gt", {"4"}));
  EXPECT_TRUE(matches(nullptr));
  // Both of them.
  EXPECT_FALSE(matches({{"labelSelector", {{"matchLabels", {{"tier", "gold"}}}}},
                        {"nodeSelectorRequirementMatcher",
                         json::array({requirement("none", "Exists", json::array())})}}));
  // What admission refuses today.
  EXPECT_FALSE(by_node("not a key", "DoesNotExist", json::array()));
  EXPECT_FALSE(by_node("zone", "Like", {"a"}));
}

}  // namespace
}  // namespace virtset
