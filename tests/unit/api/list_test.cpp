// Lists in pages and of the past, deletion of collections, and watches for people.

#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string maps = core + "/configmaps";
using Query = std::vector<std::pair<std::string, std::string>>;

class ListTest : public RestTest {
 protected:
  void create(const std::string& name, const Json& labels = Json::object()) {
    send("POST", maps, {{"metadata", {{"name", name}, {"labels", labels}}}});
  }
  static std::vector<std::string> names(const Json& list) {
    std::vector<std::string> result;
    for (const Json& item : list["items"]) result.push_back(item["metadata"]["name"]);
    return result;
  }
  Json list(Query query) { return get(maps, "", std::move(query)).json(); }
};

TEST_F(ListTest, PagesAreAllOfTheFirstPagesState) {
  for (const char* name : {"a", "b", "c", "d"}) create(name);
  const Json first = list({{"limit", "2"}});
  EXPECT_THAT(names(first), ElementsAre("a", "b"));
  EXPECT_EQ(first["metadata"]["remainingItemCount"], 2);
  send("DELETE", maps + "/c", nullptr);
  create("bb");
  patch(maps + "/d", {{"data", {{"new", "1"}}}});
  const Json second = list({{"limit", "2"}, {"continue", first["metadata"]["continue"]}});
  EXPECT_THAT(names(second), ElementsAre("c", "d"));
  EXPECT_FALSE(second["items"][1].contains("data"));
  EXPECT_EQ(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
  EXPECT_FALSE(second["metadata"].contains("continue"));
}

TEST_F(ListTest, PageOfASelectorIsFull) {
  for (const char* name : {"a", "b", "c", "d"}) {
    create(name, {{"odd", name[0] % 2 ? "yes" : "no"}});
  }
  const Json first = list({{"limit", "1"}, {"labelSelector", "odd=yes"}});
  EXPECT_THAT(names(first), ElementsAre("a"));
  EXPECT_FALSE(first["metadata"].contains("remainingItemCount"));
  const Json second = list(
      {{"limit", "1"}, {"labelSelector", "odd=yes"}, {"continue", first["metadata"]["continue"]}});
  EXPECT_THAT(names(second), ElementsAre("c"));
  EXPECT_FALSE(second["metadata"].contains("continue"));
}

TEST_F(ListTest, ForgottenPageOffersToGoOn) {
  for (const char* name : {"a", "b", "c"}) create(name);
  const Json first = list({{"limit", "1"}});
  // What a restart forgets: only the present is in the database.
  world_.crash();
  world_.boot();
  const Answer old = get(maps, "", {{"limit", "1"}, {"continue", first["metadata"]["continue"]}});
  // Nothing has changed since, so there is nothing to forget.
  EXPECT_EQ(old.status, 200);
  patch(maps + "/a", {{"data", {{"x", "1"}}}});
  world_.crash();
  world_.boot();
  const Answer expired =
      get(maps, "", {{"limit", "1"}, {"continue", first["metadata"]["continue"]}});
  ASSERT_EQ(expired.status, 410);
  EXPECT_EQ(expired.json()["reason"], "Expired");
  EXPECT_THAT(names(list({{"continue", expired.json()["metadata"]["continue"]}})),
              ElementsAre("b", "c"));
}

TEST_F(ListTest, StateOfTheRevision) {
  create("a");
  const std::string then = list({})["metadata"]["resourceVersion"];
  create("b");
  EXPECT_THAT(names(list({{"resourceVersion", then}, {"resourceVersionMatch", "Exact"}})),
              ElementsAre("a"));
  EXPECT_THAT(names(list({{"resourceVersion", then}, {"resourceVersionMatch", "NotOlderThan"}})),
              ElementsAre("a", "b"));
  EXPECT_THAT(names(list({{"resourceVersion", "0"}})), ElementsAre("a", "b"));
}

TEST_F(ListTest, OptionsThatMakeNoSenseAreRefused) {
  const auto status = [&](Query query) { return get(maps, "", std::move(query)).status; };
  EXPECT_EQ(status({{"limit", "many"}}), 400);
  EXPECT_EQ(status({{"continue", "%%%"}}), 400);
  EXPECT_EQ(status({{"continue", "e30"}}), 400);
  EXPECT_EQ(status({{"resourceVersion", "x"}}), 400);
  EXPECT_EQ(status({{"resourceVersionMatch", "Exact"}}), 422);
  EXPECT_EQ(status({{"resourceVersion", "0"}, {"resourceVersionMatch", "Exact"}}), 422);
  EXPECT_EQ(status({{"resourceVersion", "1"}, {"resourceVersionMatch", "Sometimes"}}), 422);
  EXPECT_EQ(status({{"sendInitialEvents", "true"}}), 422);
  const Answer future = get(maps, "", {{"resourceVersion", "999999"}});
  EXPECT_EQ(future.status, 504);
  EXPECT_EQ(future.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

TEST_F(ListTest, CollectionIsDeletedBySelector) {
  for (int i = 0; i < 250; ++i) create("m" + std::to_string(i), {{"part", i % 2 ? "a" : "b"}});
  const Answer answer =
      call({.method = "DELETE", .path = maps, .query = {{"labelSelector", "part=a"}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json()["kind"], "ConfigMapList");
  EXPECT_EQ(answer.json()["items"].size(), 125);
  EXPECT_EQ(list({})["items"].size(), 125);
  call({.method = "DELETE", .path = maps, .query = {{"dryRun", "All"}}});
  EXPECT_EQ(list({})["items"].size(), 125);
  call({.method = "DELETE", .path = maps});
  EXPECT_THAT(list({})["items"], IsEmpty());
  EXPECT_EQ(call({.method = "DELETE", .path = maps}).status, 200);
}

TEST_F(ListTest, WatchForPeopleHasALineForEachChange) {
  create("a");
  std::optional<api::Response> response;
  world_.rest->handle(
      {.method = "GET", .path = maps, .query = {{"watch", "1"}}, .accept = "text/plain"},
      [&](api::Response given) { response = std::move(given); });
  ASSERT_TRUE(response->stream);
  EXPECT_TRUE(response->live);
  patch(maps + "/a", {{"data", {{"x", "1"}}}});
  send("DELETE", maps + "/a", nullptr);
  std::string text;
  while (response->stream->read(text) == api::BodyStream::State::more) {
  }
  EXPECT_THAT(text, HasSubstr("EVENT      NAME   DATA   AGE\nADDED      a      0      0s\n"));
  EXPECT_THAT(text, HasSubstr("MODIFIED   a      1      0s\nDELETED    a      1      0s\n"));
}

TEST_F(ListTest, ErrorIsASentenceUnlessJsonWasAskedFor) {
  const std::string sentence = "configmaps \"none\" not found\n";
  EXPECT_EQ(get(maps + "/none", "*/*").text, sentence);
  EXPECT_EQ(get(maps + "/none", "text/plain").text, sentence);
  EXPECT_EQ(get(maps + "/none", "application/json, */*").json()["code"], 404);
  EXPECT_EQ(get(maps + "/none", "application/vnd.kubernetes.protobuf, */*").json()["reason"],
            "NotFound");
}

}  // namespace
}  // namespace virtset::test
