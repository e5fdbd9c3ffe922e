// What nobody sends who means well. Named for what went wrong.

#include "api/http/gzip.h"
#include "api/kinds/times.h"
#include "api/kinds/utf8.h"
#include "api/kinds/yaml.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;

class Hostile : public RestTest {};

TEST_F(Hostile, AliasesOfALongText) {
  std::string yaml = "- &a \"" + std::string(1 << 20, 'x') + "\"\n- [";
  for (int i = 0; i < 1000; ++i) yaml += "*a,";
  EXPECT_THROW(api::parse_yaml(yaml + "*a]"), api::BadYaml);
}

TEST_F(Hostile, AnchorsAroundAnchors) {
  std::string yaml;
  for (int i = 0; i < 60; ++i) yaml += "&a" + std::to_string(i) + " [";
  for (int i = 0; i < 100'000; ++i) yaml += "1,";
  EXPECT_THROW(api::parse_yaml(yaml + std::string(60, ']')), api::BadYaml);
}

TEST_F(Hostile, AliasesThatNestWithoutEnd) {
  std::string yaml = "a0: &a0 1\n";
  for (int i = 1; i < 80; ++i) {
    yaml += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [[[[*a" +
            std::to_string(i - 1) + "]]]]\n";
  }
  EXPECT_THROW(api::parse_yaml(yaml), api::BadYaml);
}

TEST_F(Hostile, PatchThatCopiesTheDocumentIntoItself) {
  send("POST", core + "/configmaps", {{"metadata", {{"name", "c"}}}});
  Json patch = Json::array();
  for (int i = 0; i < 40; ++i)
    patch.push_back({{"op", "copy"}, {"from", ""}, {"path", "/a" + std::to_string(i)}});
  const Answer answer = send("PATCH", core + "/configmaps/c", patch, "application/json-patch+json");
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.text, HasSubstr("copies too much"));
}

TEST_F(Hostile, PatchThatNestsWithoutEnd) {
  send("POST", core + "/configmaps", {{"metadata", {{"name", "c"}}}});
  Json patch = Json::array();
  std::string path = "/data";
  for (int i = 0; i < 200; ++i) {
    patch.push_back({{"op", "add"}, {"path", path}, {"value", Json::object()}});
    path += "/x";
  }
  EXPECT_THAT(send("PATCH", core + "/configmaps/c", patch, "application/json-patch+json").text,
              HasSubstr("nests too deeply"));
}

TEST_F(Hostile, PatchBelowAScalarOrIntoItself) {
  send("POST", core + "/configmaps", {{"metadata", {{"name", "c"}}}, {"data", {{"a", "b"}}}});
  const auto patched = [&](const Json& operation) {
    return send("PATCH", core + "/configmaps/c", Json::array({operation}),
                "application/json-patch+json")
        .text;
  };
  EXPECT_THAT(patched({{"op", "add"}, {"path", "/kind/x"}, {"value", 1}}),
              HasSubstr("in something that has no members"));
  EXPECT_THAT(patched({{"op", "move"}, {"from", "/data"}, {"path", "/data/x"}}),
              HasSubstr("moves something into itself"));
}

TEST_F(Hostile, PatchThatMovesALotToAndFro) {
  const std::string path = "/apis/apps/v1/namespaces/default/controllerrevisions";
  send("POST", path,
       {{"metadata", {{"name", "r"}}},
        {"revision", 1},
        {"data", {{"a", std::string(1 << 20, 'x')}}}});
  Json patch = Json::array();
  for (int i = 0; i < 5000; ++i) {
    patch.push_back({{"op", "move"}, {"from", "/data"}, {"path", "/x"}});
    patch.push_back({{"op", "move"}, {"from", "/x"}, {"path", "/data"}});
  }
  EXPECT_THAT(send("PATCH", path + "/r", patch, "application/json-patch+json").text,
              HasSubstr("copies too much"));
}

TEST_F(Hostile, ObjectThatGrowsByPatches) {
  const std::string path = core + "/events";
  ASSERT_EQ(send("POST", path,
                 {{"metadata", {{"name", "e"}}},
                  {"involvedObject", Json::object()},
                  {"series", {{"a", std::string(2 << 20, 'x')}}}})
                .status,
            201);
  const Json twice = Json::array({{{"op", "copy"}, {"from", "/series"}, {"path", "/related"}}});
  const Answer answer = send("PATCH", path + "/e", twice, "application/json-patch+json");
  EXPECT_EQ(answer.status, 413) << answer.text;
  EXPECT_EQ(answer.json()["reason"], "RequestEntityTooLarge");
}

TEST_F(Hostile, PathThatIsNotText) {
  EXPECT_EQ(get("/api/v1/namespaces/\xff", "application/yaml").status, 400);
  EXPECT_EQ(get(core + "/configmaps", "", {{"labelSelector", "\xc3"}}).status, 400);
}

TEST_F(Hostile, MessageThatRepeatsWhatIsNotText) {
  for (const char* form : {"application/json", "application/yaml", "text/plain"}) {
    const Answer answer = call({.method = "POST",
                                .path = core + "/configmaps",
                                .accept = form,
                                .content_type = "application/json",
                                .body = "{\"data\":T\xd6}"});
    EXPECT_EQ(answer.status, 400) << form;
    EXPECT_THAT(answer.text, HasSubstr("invalid literal")) << form;
    EXPECT_TRUE(api::is_utf8(answer.text)) << form;
  }
}

TEST_F(Hostile, MessageIsNotCutInTheMiddleOfACharacter) {
  std::string umlauts;
  for (int i = 0; i < 100; ++i) umlauts += "ü";
  const Answer answer = call({.method = "POST",
                              .path = core + "/configmaps",
                              .accept = "application/yaml",
                              .content_type = "application/json",
                              .body = Json{{"data", umlauts}}.dump()});
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.text, HasSubstr("ü"));
  EXPECT_EQ(api::to_utf8("a\xff\xc3(\xed\xa0\x80\xf5z"), "a??(????z");
  EXPECT_TRUE(api::is_utf8("aü€😀"));
  EXPECT_FALSE(api::is_utf8("\xe2\x82"));
}

TEST_F(Hostile, TimesFarAway) {
  const auto shown = [](const char* text) {
    const auto time = api::parse_time(text);
    return time ? api::format_time(*time).substr(0, 4) : "none";
  };
  EXPECT_EQ(shown("9999-12-31T23:59:59Z"), "2262");
  EXPECT_EQ(shown("0001-01-01T00:00:00Z"), "1677");
  EXPECT_EQ(shown("2026-01-01T00:00:00+23:59"), "2025");
  for (const char* text : {"2026- 1- 1T-1:-1:-1Z", "2026-01-01T00:00:00+24:00", "2026-01-01", "",
                           "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "2026-13-01T00:00:00Z",
                           "2026-01-01T00:00:00Zx"}) {
    EXPECT_EQ(shown(text), "none") << text;
  }
}

TEST_F(Hostile, WatchThatShallNeverEnd) {
  std::optional<api::Response> response;
  world_.rest->handle({.method = "GET",
                       .path = core + "/configmaps",
                       .query = {{"watch", "1"}, {"timeoutSeconds", "9223372036854775807"}}},
                      [&](api::Response given) { response = std::move(given); });
  world_.advance(std::chrono::hours(1));
  std::string text;
  EXPECT_EQ(response->stream->read(text), api::BodyStream::State::wait);
}

TEST_F(Hostile, CompressionOfAStreamIsThatOfItsText) {
  for (int i = 0; i < 300; ++i) {
    send("POST", core + "/configmaps",
         {{"metadata", {{"name", "c" + std::to_string(i)}}},
          {"data", {{"x", std::string(900, 'x')}}}});
  }
  std::optional<api::Response> response;
  world_.rest->handle({.method = "GET", .path = core + "/configmaps", .accept = "application/json"},
                      [&](api::Response given) { response = api::compress(std::move(given)); });
  ASSERT_TRUE(response->stream);
  std::string text;
  while (response->stream->read(text) == api::BodyStream::State::more) {
  }
  EXPECT_EQ(text.substr(0, 2), "\x1f\x8b");
  EXPECT_LT(text.size(), 100'000);
  EXPECT_TRUE(api::takes_gzip("deflate, gzip;q=1.0"));
  EXPECT_FALSE(api::takes_gzip("gzip;q=0, identity"));
  EXPECT_FALSE(api::takes_gzip("identity"));
}

}  // namespace
}  // namespace virtset::test
