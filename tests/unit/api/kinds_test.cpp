// Kinds that keep something, or answer something, without a controller: ConfigMap, Secret,
// ControllerRevision and the access reviews.

#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;

class KindsTest : public RestTest {
 protected:
  Answer create(const std::string& plural, const Json& body) {
    return send("POST", core + "/" + plural, body);
  }
  static Json config_map(const std::string& name, const Json& data) {
    return {{"metadata", {{"name", name}}}, {"data", data}};
  }
};

TEST_F(KindsTest, ConfigMapIsKeptAsItIs) {
  const Answer made = create("configmaps", config_map("c", {{"a", "1"}, {"b.txt", ""}}));
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.json()["data"], Json({{"a", "1"}, {"b.txt", ""}}));
  EXPECT_FALSE(made.json()["metadata"].contains("generation"));
  EXPECT_THAT(get(core + "/configmaps", "text/plain").text, HasSubstr("c      2      0s"));
}

TEST_F(KindsTest, KeyThatComesTwiceIsSeen) {
  const auto post = [&](const std::string& validation) {
    return call({.method = "POST",
                 .path = core + "/configmaps",
                 .query = {{"fieldValidation", validation}},
                 .content_type = "application/json",
                 .body = R"({"metadata":{"generateName":"c","ownerReferences":[]},
                             "data":{"a":"1","b":"2","a":"3"}})"});
  };
  EXPECT_THAT(post("Strict").text, HasSubstr("duplicate field \\\"data.a\\\""));
  EXPECT_THAT(post("Warn").warnings, testing::ElementsAre(R"(299 - "duplicate field \"data.a\"")"));
  EXPECT_EQ(post("Ignore").json()["data"]["a"], "3");
}

TEST_F(KindsTest, ConfigMapKeysAreChecked) {
  EXPECT_EQ(create("configmaps", config_map("c", {{"a/b", "1"}})).status, 422);
  EXPECT_EQ(create("configmaps", config_map("c", {{"..x", "1"}})).status, 422);
  Json twice = config_map("c", {{"a", "1"}});
  twice["binaryData"] = {{"a", "AA=="}};
  EXPECT_THAT(create("configmaps", twice).text, HasSubstr("duplicate of key present in data"));
  twice["binaryData"] = {{"b", "not base64"}};
  EXPECT_THAT(create("configmaps", twice).text, HasSubstr("must be encoded in base64"));
  EXPECT_THAT(create("configmaps", config_map("c", {{"a", std::string(1 << 21, 'x')}})).text,
              HasSubstr("may not be more than 1048576 bytes"));
}

TEST_F(KindsTest, ImmutableDataStays) {
  Json map = config_map("c", {{"a", "1"}});
  map["immutable"] = true;
  create("configmaps", map);
  const std::string path = core + "/configmaps/c";
  EXPECT_EQ(patch(path, {{"data", {{"a", "2"}}}}).status, 422);
  EXPECT_EQ(patch(path, {{"immutable", false}}).status, 422);
  EXPECT_EQ(patch(path, {{"metadata", {{"labels", {{"a", "b"}}}}}}).status, 200);
}

TEST_F(KindsTest, SecretTextBecomesData) {
  const Answer made = create("secrets", {{"metadata", {{"name", "s"}}},
                                         {"data", {{"old", "b2xk"}}},
                                         {"stringData", {{"password", "geheim"}}}});
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.json()["data"], Json({{"old", "b2xk"}, {"password", "Z2VoZWlt"}}));
  EXPECT_FALSE(made.json().contains("stringData"));
  EXPECT_EQ(made.json()["type"], "Opaque");
  patch(core + "/secrets/s", {{"stringData", {{"password", "neu"}}}});
  EXPECT_EQ(get(core + "/secrets/s").json()["data"]["password"], "bmV1");
  // Tables show how many there are, never what they are.
  EXPECT_EQ(get(core + "/secrets", "text/plain").text.find("geheim"), std::string::npos);
}

TEST_F(KindsTest, SecretTypeIsKept) {
  create("secrets", {{"metadata", {{"name", "s"}}}});
  EXPECT_EQ(patch(core + "/secrets/s", {{"type", "other"}}).status, 422);
  const Answer tls =
      create("secrets", {{"metadata", {{"name", "t"}}}, {"type", "kubernetes.io/tls"}});
  EXPECT_THAT(tls.text, HasSubstr("data[tls.crt]"));
}

TEST_F(KindsTest, ControllerRevisionDataStays) {
  const std::string path = "/apis/apps/v1/namespaces/default/controllerrevisions";
  ASSERT_EQ(send("POST", path,
                 {{"metadata", {{"name", "r"}}}, {"revision", 1}, {"data", {{"spec", {{"x", 1}}}}}})
                .status,
            201);
  EXPECT_EQ(patch(path + "/r", {{"data", {{"spec", {{"x", 2}}}}}}).status, 422);
  EXPECT_EQ(patch(path + "/r", {{"revision", 2}}).status, 200);
}

TEST_F(KindsTest, WhoeverGetsInMayDoEverything) {
  const std::string root = "/apis/authorization.k8s.io/v1/";
  const Answer review =
      send("POST", root + "selfsubjectaccessreviews",
           {{"metadata", {{"creationTimestamp", nullptr}}},
            {"spec", {{"resourceAttributes", {{"verb", "create"}, {"resource", "pods"}}}}}});
  ASSERT_EQ(review.status, 201) << review.text;
  EXPECT_EQ(review.json()["status"]["allowed"], true);
  EXPECT_EQ(send("POST", root + "selfsubjectaccessreviews", {{"spec", Json::object()}}).status,
            422);
  EXPECT_EQ(send("POST", root + "selfsubjectrulesreviews", {{"spec", {{"namespace", "x"}}}})
                .json()["status"]["incomplete"],
            false);
  const Answer who =
      send("POST", "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews", Json::object());
  EXPECT_EQ(who.json()["apiVersion"], "authentication.k8s.io/v1beta1");
  EXPECT_EQ(who.json()["status"]["userInfo"]["username"], "admin");
}

TEST_F(KindsTest, EventTimesAreExact) {
  Json event{{"metadata", {{"name", "e"}}}, {"involvedObject", Json::object()}};
  event["eventTime"] = "2026-01-02T03:04:05Z";
  EXPECT_EQ(create("events", event).status, 422);
  event["eventTime"] = "2026-01-02T03:04:05.000001Z";
  EXPECT_EQ(create("events", event).status, 201);
}

}  // namespace
}  // namespace virtset::test
