// Server-side apply through the API: what requests may ask for, and how it goes together with the
// other verbs. The algorithm has tests of its own.

#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;

const std::string maps = core + "/configmaps";

class ApplyRestTest : public RestTest {
 protected:
  Answer apply(const std::string& path, const Json& body, const std::string& manager = "me",
               std::vector<std::pair<std::string, std::string>> query = {}) {
    if (!manager.empty()) query.emplace_back("fieldManager", manager);
    return send("PATCH", path, body, "application/apply-patch+yaml", std::move(query));
  }
  static Json map(const std::string& name, const Json& data) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}}},
            {"data", data}};
  }
  static Json set(int replicas) {
    Json body = replica_set("web", replicas);
    body["spec"]["paused"] = true;
    return body;
  }
};

TEST_F(ApplyRestTest, CreatesThenChangesThenDoesNothing) {
  const Answer first = apply(maps + "/c", map("c", {{"a", "1"}}));
  EXPECT_EQ(first.status, 201) << first.text;
  EXPECT_EQ(apply(maps + "/c", map("c", {{"a", "2"}})).status, 200);
  const auto revision = world_.store->revision();
  EXPECT_EQ(apply(maps + "/c", map("c", {{"a", "2"}})).status, 200);
  EXPECT_EQ(world_.store->revision(), revision);
  EXPECT_EQ(apply(maps + "/c", map("c", Json::object())).json().value("data", Json::object()),
            Json::object());
}

TEST_F(ApplyRestTest, RequestsThatMakeNoSense) {
  EXPECT_EQ(apply(maps + "/c", map("c", {}), "").status, 422);
  EXPECT_THAT(apply(maps + "/c", map("d", {})).text,
              HasSubstr("does not match the name on the URL"));
  EXPECT_THAT(apply(maps + "/c", map("", {})).text, HasSubstr("name must be provided"));
  Json gone = map("c", {});
  gone["metadata"]["uid"] = "x";
  EXPECT_EQ(apply(maps + "/c", gone).status, 409);
  EXPECT_EQ(apply(maps + "/c/status", map("c", {})).status, 404);
  EXPECT_EQ(apply("/api/v1/namespaces/none/configmaps/c", map("c", {})).status, 404);
  Json typo = map("c", {});
  typo["dta"] = 1;
  EXPECT_EQ(apply(maps + "/c", typo, "me", {{"fieldValidation", "Strict"}}).status, 400);
  EXPECT_EQ(get(maps + "/c").status, 404) << "something was written";
  apply(maps + "/c", map("c", {}));
  Json nameless = map("c", {{"a", "1"}});
  nameless.erase("metadata");
  EXPECT_EQ(apply(maps + "/c", nameless).json()["data"]["a"], "1") << "the path has the name";
  EXPECT_EQ(send("PATCH", maps + "/c", Json::object(), "application/merge-patch+json",
                 {{"force", "true"}})
                .status,
            422);
}

TEST_F(ApplyRestTest, ScalingTakesTheReplicasAway) {
  ASSERT_EQ(apply(sets + "/web", set(0)).status, 201);
  patch(sets + "/web/scale", {{"spec", {{"replicas", 2}}}});
  const Answer again = apply(sets + "/web", set(0));
  EXPECT_EQ(again.status, 409);
  EXPECT_THAT(again.json()["message"].get<std::string>(),
              HasSubstr("conflict with \"unknown\" with subresource \"scale\" using "
                        "kubevirt.io/v1: .spec.replicas"));
  EXPECT_EQ(again.json()["details"]["causes"][0]["reason"], "FieldManagerConflict");
  EXPECT_EQ(apply(sets + "/web", set(0), "me", {{"force", "true"}}).status, 200);
  EXPECT_EQ(apply(sets + "/web", set(0)).status, 200);
}

TEST_F(ApplyRestTest, OrdinaryWritesAreNotTrackedUntilSomebodyApplies) {
  send("POST", maps, map("c", {{"a", "1"}}));
  patch(maps + "/c", {{"data", {{"a", "2"}}}});
  EXPECT_FALSE(get(maps + "/c").json()["metadata"].contains("managedFields"));
  const Answer conflict = apply(maps + "/c", map("c", {{"a", "3"}}));
  EXPECT_THAT(conflict.text, HasSubstr("before-first-apply"));
}

TEST_F(ApplyRestTest, TriedApplyChangesNothing) {
  apply(maps + "/c", map("c", {{"a", "1"}}));
  const Answer tried = apply(maps + "/c", map("c", {{"a", "2"}}), "me", {{"dryRun", "All"}});
  EXPECT_EQ(tried.json()["data"]["a"], "2");
  EXPECT_EQ(get(maps + "/c").json()["data"]["a"], "1");
  EXPECT_EQ(apply(maps + "/d", map("d", {}), "me", {{"dryRun", "All"}}).status, 201);
  EXPECT_EQ(get(maps + "/d").status, 404);
}

TEST_F(ApplyRestTest, ControllersKeepWhoSetWhat) {
  apply(sets + "/web", set(0));
  world_.settle();
  const Json after = get(sets + "/web").json();
  EXPECT_FALSE(after["status"].empty()) << "the controller has not looked at it";
  EXPECT_EQ(after["metadata"]["managedFields"].size(), 1);
  EXPECT_EQ(after["metadata"]["managedFields"][0]["manager"], "me");
}

}  // namespace
}  // namespace virtset::test
