// Streams of changes, as a client sees them.

#include "api/kinds/json_access.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using api::member;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class WatchTest : public RestTest {
 protected:
  // A watch that is held open.
  class Watch {
   public:
    Watch(World& world, api::Request request) : world_(world) {
      request.method = "GET";
      request.query.emplace_back("watch", "true");
      world.rest->handle(request, [&](api::Response response) { response_ = std::move(response); });
      if (response_.stream) response_.stream->on_wake([this] { ++wakes; });
    }
    int status() const { return response_.status; }
    std::string body() const { return response_.body; }
    // What has come since, as frames.
    std::vector<Json> frames() {
      world_.settle();
      std::string text;
      do {
        state = response_.stream->read(text);
      } while (state == api::BodyStream::State::more);
      std::vector<Json> result;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) result.push_back(Json::parse(line));
      return result;
    }
    // "TYPE name" of each.
    std::vector<std::string> changes() {
      std::vector<std::string> result;
      for (const Json& frame : frames()) {
        result.push_back(frame["type"].get<std::string>() + " " +
                         api::text(member(frame, "object", "metadata", "name")));
      }
      return result;
    }
    int wakes = 0;
    api::BodyStream::State state{};

   private:
    World& world_;
    api::Response response_;
  };
  Watch watch(std::vector<std::pair<std::string, std::string>> query = {},
              const std::string& accept = "") {
    return Watch(world_, {.path = sets, .query = std::move(query), .accept = accept});
  }
  std::string revision() { return get(sets).json()["metadata"]["resourceVersion"]; }
  void make(const std::string& name) { send("POST", sets, replica_set(name, 0)); }
  // Of another kind.
  void write_more_than_the_feed_holds() {
    for (int i = 0; i < 10'100; ++i) {
      world_.store->write(
          {"", api::event_kind, "default", "e" + std::to_string(i)},
          [](const store::Object*) {
            return store::Store::Mutation::put({{"metadata", {{"uid", "u"}}}});
          },
          nullptr);
    }
  }
};

TEST_F(WatchTest, SeesEveryLaterChangeOnceInOrder) {
  make("a");
  world_.settle();
  Watch open = watch({{"resourceVersion", revision()}});
  EXPECT_THAT(open.changes(), SizeIs(0));
  make("b");
  send("DELETE", sets + "/a", nullptr);
  EXPECT_GE(open.wakes, 1);
  const auto frames = open.frames();
  std::vector<std::string> types;
  std::int64_t last = 0;
  for (const Json& frame : frames) {
    types.push_back(frame["type"].get<std::string>() +
                    frame["object"]["metadata"]["name"].get<std::string>());
    const std::int64_t version =
        std::stoll(frame["object"]["metadata"]["resourceVersion"].get<std::string>());
    EXPECT_GT(version, last);
    last = version;
  }
  EXPECT_THAT(types, ElementsAre("ADDEDb", "MODIFIEDb", "DELETEDa"));
}

TEST_F(WatchTest, BeginsWithWhatIsThereWithoutAVersion) {
  make("a");
  world_.settle();
  for (const char* version : {"", "0"}) {
    Watch open = watch({{"resourceVersion", version}});
    EXPECT_THAT(open.changes(), ElementsAre("ADDED a"));
  }
}

TEST_F(WatchTest, LeavingTheSelectorIsADeletion) {
  Watch open = watch({{"labelSelector", "on=yes"}, {"resourceVersion", revision()}});
  make("a");
  patch(sets + "/a", {{"metadata", {{"labels", {{"on", "yes"}}}}}});
  patch(sets + "/a", {{"metadata", {{"labels", {{"on", "no"}}}}}});
  const auto frames = open.frames();
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[0]["type"], "ADDED");
  EXPECT_EQ(frames[1]["type"], "DELETED");
  EXPECT_EQ(frames[1]["object"]["metadata"]["labels"]["on"], "yes");
}

TEST_F(WatchTest, TooOldIsExpired) {
  world_.store->feed().begin_at(world_.store->revision());
  ASSERT_GT(world_.store->revision(), 1);
  Watch open(world_,
             {.path = sets, .query = {{"resourceVersion", "1"}}, .accept = "application/json"});
  EXPECT_EQ(open.status(), 410);
  EXPECT_EQ(Json::parse(open.body())["reason"], "Expired");
  const Watch future = watch({{"resourceVersion", "999999"}});
  EXPECT_EQ(future.status(), 410);
  EXPECT_THAT(future.body(),
              HasSubstr("resource version 999999 has not been yet; the last one is"));
  EXPECT_EQ(watch({{"resourceVersion", "x"}}).status(), 400);
}

TEST_F(WatchTest, SlowOneIsToldAndCut) {
  Watch open = watch({{"resourceVersion", revision()}});
  make("a");
  world_.settle();
  write_more_than_the_feed_holds();
  const auto frames = open.frames();
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0]["type"], "ERROR");
  EXPECT_EQ(frames[0]["object"]["code"], 410);
  EXPECT_EQ(open.state, api::BodyStream::State::end);
}

TEST_F(WatchTest, QuietOneDoesNotFallBehindABusyStore) {
  Watch open = watch({{"resourceVersion", revision()}});
  open.frames();
  write_more_than_the_feed_holds();
  world_.settle();
  make("a");
  EXPECT_THAT(open.changes(), testing::Contains("ADDED a"));
  EXPECT_NE(open.state, api::BodyStream::State::end);
}

TEST_F(WatchTest, EndsAtItsTimeout) {
  Watch open = watch({{"resourceVersion", revision()}, {"timeoutSeconds", "5"}});
  open.frames();
  EXPECT_EQ(open.state, api::BodyStream::State::wait);
  world_.advance(std::chrono::seconds(6));
  open.frames();
  EXPECT_EQ(open.state, api::BodyStream::State::end);
}

TEST_F(WatchTest, BookmarksForThoseWhoAllowThem) {
  Watch open = watch({{"resourceVersion", revision()}, {"allowWatchBookmarks", "true"}});
  Watch plain = watch({{"resourceVersion", revision()}});
  world_.advance(std::chrono::seconds(61));
  const auto frames = open.frames();
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0]["type"], "BOOKMARK");
  EXPECT_EQ(frames[0]["object"]["metadata"]["resourceVersion"], revision());
  EXPECT_THAT(plain.frames(), SizeIs(0));
}

TEST_F(WatchTest, InitialEventsEndWithABookmark) {
  make("a");
  world_.settle();
  Watch open = watch({{"sendInitialEvents", "true"},
                      {"resourceVersionMatch", "NotOlderThan"},
                      {"allowWatchBookmarks", "true"}});
  const auto frames = open.frames();
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
  EXPECT_EQ(watch({{"sendInitialEvents", "true"}}).status(), 422);
}

TEST_F(WatchTest, TableFrames) {
  Watch open =
      watch({{"resourceVersion", revision()}}, "application/json;as=Table;v=v1;g=meta.k8s.io");
  make("a");
  const auto frames = open.frames();
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[0]["object"]["kind"], "Table");
  EXPECT_THAT(frames[0]["object"]["columnDefinitions"], SizeIs(5));
  EXPECT_EQ(frames[1]["object"]["columnDefinitions"], Json());
  EXPECT_EQ(frames[0]["object"]["rows"][0]["cells"][0], "a");
}

}  // namespace
}  // namespace virtset::test
