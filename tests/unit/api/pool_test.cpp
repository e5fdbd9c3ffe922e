// What admission says about pools.

#include "api/kinds/duration.h"
#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string pools = "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools";

class PoolKindTest : public RestTest {
 protected:
  Answer create(const Json& patch) {
    Json body = pool("web", 0);
    body.merge_patch(patch);
    return send("POST", pools, body);
  }
  std::vector<std::string> fields(const Answer& answer) {
    std::vector<std::string> result;
    const Json body = answer.json();
    for (const Json& cause : body["details"]["causes"]) result.push_back(cause["field"]);
    return result;
  }
};

TEST_F(PoolKindTest, BothVersionsAreServedAndTheNewerOneIsStored) {
  Json body = pool("web", 0);
  body["apiVersion"] = "pool.kubevirt.io/v1alpha1";
  const std::string old = "/apis/pool.kubevirt.io/v1alpha1/namespaces/default/virtualmachinepools";
  ASSERT_EQ(send("POST", old, body).status, 201);
  EXPECT_EQ(get(old + "/web").json()["apiVersion"], "pool.kubevirt.io/v1alpha1");
  EXPECT_EQ(get(pools + "/web").json()["apiVersion"], "pool.kubevirt.io/v1beta1");
  EXPECT_EQ(get(old + "/web/scale").json()["spec"]["replicas"], 0);
}

TEST_F(PoolKindTest, TableHasKubeVirtsColumns) {
  ASSERT_EQ(create(Json::object()).status, 201);
  EXPECT_THAT(get(pools, "text/plain").text, HasSubstr("NAME   DESIRED   CURRENT   READY   AGE"));
}

TEST_F(PoolKindTest, OldNamesOfTheUserGuideAreCompleted) {
  ASSERT_EQ(create({{"spec",
                     {{"AppendPostfixToSecretReferences", true},
                      {"appendPostfixToConfigMapReferences", true}}}})
                .status,
            201);
  const Json spec = get(pools + "/web").json()["spec"];
  EXPECT_EQ(spec["nameGeneration"],
            (Json{{"appendIndexToSecretRefs", true}, {"appendIndexToConfigMapRefs", true}}));
  EXPECT_FALSE(spec.contains("AppendPostfixToSecretReferences"));
}

// Facts 2.9, last line.
TEST_F(PoolKindTest, CausesComeInKubeVirtsOrder) {
  Json patch;
  patch["spec"]["selector"]["matchLabels"]["app"] = "other";
  Json& machine = patch["spec"]["virtualMachineTemplate"]["spec"];
  machine["runStrategy"] = nullptr;
  machine["template"]["spec"]["domain"]["devices"]["disks"] = {{{"name", "d"}}};
  const Answer answer = create(patch);
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(fields(answer),
              ElementsAre("spec.virtualMachineTemplate.spec.template.spec.domain.devices.disks[0]."
                          "name",
                          "spec.virtualMachineTemplate.spec.running", "spec.selector"));
  EXPECT_THAT(answer.text, HasSubstr("RunStrategy must be specified"));
  EXPECT_THAT(answer.text, HasSubstr("selector does not match labels."));
}

TEST_F(PoolKindTest, WhatIsWrongIsNamedByItsField) {
  // A merge patch of a good pool, and the field that is wrong then.
  const std::pair<const char*, const char*> cases[] = {
      {R"({"spec":{"replicas":-1}})", "spec.replicas"},
      {R"({"spec":{"maxUnavailable":0}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":-1}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":"3"}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":"0%"}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":"101%"}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":"many"}})", "spec.maxUnavailable"},
      {R"({"spec":{"maxUnavailable":true}})", "spec.maxUnavailable"},
      {R"({"spec":{"scaleInStrategy":{"unmanaged":{},"proactive":{}}}})", "spec.scaleInStrategy"},
      {R"({"spec":{"updateStrategy":{"opportunistic":{},"proactive":{}}}})", "spec.updateStrategy"},
      {R"({"spec":{"scaleInStrategy":{"opportunistic":{"statePreservation":"Frozen"}}}})",
       "spec.scaleInStrategy.opportunistic.statePreservation"},
      {R"({"spec":{"scaleInStrategy":{"proactive":{"selectionPolicy":{"sortPolicy":"Fair"}}}}})",
       "spec.scaleInStrategy.proactive.selectionPolicy.sortPolicy"},
      {R"({"spec":{"updateStrategy":{"proactive":{"selectionPolicy":{"selectors":
          {"nodeSelectorRequirementMatcher":[{"key":"k","operator":"In"}]}}}}}})",
       "spec.updateStrategy.proactive.selectionPolicy.selectors.nodeSelectorRequirementMatcher[0]."
       "values"},
      {R"({"spec":{"autohealing":{"startUpFailureThreshold":0}}})",
       "spec.autohealing.startUpFailureThreshold"},
      {R"({"spec":{"autohealing":{"minFailingToStartDuration":"soon"}}})",
       "spec.autohealing.minFailingToStartDuration"},
      {R"({"metadata":{"annotations":{"virtset.io/progress-deadline-seconds":"0"}}})",
       "metadata.annotations[virtset.io/progress-deadline-seconds]"},
      {R"({"metadata":{"annotations":{"virtset.io/max-surge":"-1"}}})",
       "metadata.annotations[virtset.io/max-surge]"},
      {R"({"metadata":{"annotations":{"virtset.io/min-ready-seconds":"x"}}})",
       "metadata.annotations[virtset.io/min-ready-seconds]"},
      {R"({"metadata":{"annotations":{"virtset.io/max-surge":"1"}},
          "spec":{"virtualMachineTemplate":{"spec":{
            "dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":{"source":{"blank":{}},
              "storage":{"resources":{"requests":{"storage":"1Gi"}}}}}],
            "template":{"spec":{"volumes":[{"name":"d","dataVolume":{"name":"d"}}]}}}}}})",
       "metadata.annotations[virtset.io/max-surge]"},
      {R"({"metadata":{"annotations":{"virtset.io/heal-never-ready-after":"now"}}})",
       "metadata.annotations[virtset.io/heal-never-ready-after]"},
      {R"({"metadata":{"annotations":{"virtset.io/rollback-to":"web-1"}}})",
       "metadata.annotations[virtset.io/rollback-to]"},
      {R"({"metadata":{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}})",
       "metadata.name"},
  };
  for (const auto& [patch, field] : cases) {
    const Answer answer = create(Json::parse(patch));
    EXPECT_EQ(answer.status, 422) << patch << answer.text;
    EXPECT_THAT(fields(answer), ElementsAre(field)) << answer.text;
  }
  EXPECT_EQ(get(pools).json()["items"], Json::array());
}

TEST_F(PoolKindTest, UnknownFieldIsRefused) {
  const Answer answer = create({{"spec", {{"maxUnavailabel", 1}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.text, HasSubstr("unknown field \\\"spec.maxUnavailabel\\\""));
}

TEST_F(PoolKindTest, SelectorCannotBeChanged) {
  ASSERT_EQ(create(Json::object()).status, 201);
  Json change;
  change["spec"]["selector"]["matchLabels"]["app"] = "v2";
  change["spec"]["virtualMachineTemplate"]["metadata"]["labels"]["app"] = "v2";
  const Answer answer = patch(pools + "/web", change);
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.text, HasSubstr("selector is immutable after creation."));
}

TEST_F(PoolKindTest, EmptySelectorAndNoLabelsAreAPool) {
  EXPECT_EQ(create({{"spec",
                     {{"selector", {{"matchLabels", nullptr}}},
                      {"virtualMachineTemplate", {{"metadata", {{"labels", nullptr}}}}}}}})
                .status,
            201);
}

TEST(PoolRules, PartsOfReplicas) {
  using api::Rounding;
  EXPECT_EQ(api::scaled(3, 10, Rounding::down), 3);
  EXPECT_EQ(api::scaled("25%", 10, Rounding::down), 2);
  EXPECT_EQ(api::scaled("25%", 10, Rounding::up), 3);
  EXPECT_EQ(api::scaled("100%", 7, Rounding::up), 7);
  EXPECT_EQ(api::scaled("4", 10, Rounding::up), 4);
  EXPECT_EQ(api::scaled("x", 10, Rounding::up), std::nullopt);
  EXPECT_EQ(api::scaled(nullptr, 10, Rounding::up), std::nullopt);
}

TEST(Durations, AreGos) {
  using std::chrono::milliseconds;
  EXPECT_EQ(api::parse_duration("5m"), milliseconds(300'000));
  EXPECT_EQ(api::parse_duration("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(api::parse_duration("1.5s"), milliseconds(1'500));
  EXPECT_EQ(api::parse_duration("0.1s"), milliseconds(100));
  EXPECT_EQ(api::parse_duration("-2ms"), milliseconds(-2));
  EXPECT_EQ(api::parse_duration("3000us"), milliseconds(3));
  EXPECT_EQ(api::parse_duration("3000\u00b5s"), milliseconds(3));
  EXPECT_EQ(api::parse_duration("0"), milliseconds(0));
  for (const char* wrong : {"", "5", "m", "5d", "5 m", ".s", "1.2.3s", "-", "5mm", "999999999h"}) {
    EXPECT_EQ(api::parse_duration(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace virtset::test
