#include "daemon/controllers/event_expiry.h"

#include "tests/unit/daemon/controller_test.h"

namespace virtset::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using store::Json;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class EventExpiryTest : public ControllerTest {
 protected:
  void run(EventExpiry::Options options = {}) {
    run_controller(std::make_unique<EventExpiry>(*store_, loop_, options));
  }
  static store::Key key(const std::string& name) {
    return {api::core_group, api::event_kind, "default", name};
  }
  // Something that happened now.
  void happen(const std::string& name) {
    put(key(name), {{"lastTimestamp", api::format_time(loop_.now())}});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& event : store_->list(api::core_group, api::event_kind)) {
      result.push_back(event->key().name);
    }
    return result;
  }
};

TEST_F(EventExpiryTest, EventsAreKeptForTheirLifetimeAndNotMuchLonger) {
  run({.lifetime = minutes(60)});
  happen("a");
  loop_.advance(minutes(59));
  EXPECT_THAT(names(), ElementsAre("a"));
  loop_.advance(minutes(2));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, EachGoesInItsTime) {
  run({.lifetime = minutes(60)});
  for (const char* name : {"a", "b", "c"}) {
    happen(name);
    loop_.advance(minutes(19));
  }
  EXPECT_THAT(names(), SizeIs(3));
  loop_.advance(minutes(4));
  EXPECT_THAT(names(), ElementsAre("b", "c"));
  loop_.advance(minutes(20));
  EXPECT_THAT(names(), ElementsAre("c"));
  loop_.advance(minutes(20));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, WhatHappensAgainStays) {
  run({.lifetime = minutes(60)});
  happen("a");
  loop_.advance(minutes(50));
  happen("a");
  loop_.advance(minutes(50));
  EXPECT_THAT(names(), ElementsAre("a"));
  loop_.advance(minutes(11));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, WhatExpiredWhileNoDaemonRanGoesAtStart) {
  happen("old");
  loop_.advance(minutes(59));
  happen("new");
  loop_.advance(minutes(2));
  run({.lifetime = minutes(60)});
  EXPECT_THAT(names(), ElementsAre("new"));
  loop_.advance(minutes(60));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, OldestGoFirstIfThereAreTooMany) {
  run({.most = 3});
  for (const char* name : {"e", "d", "c", "b", "a"}) {
    happen(name);
    loop_.advance(seconds(1));
  }
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
}

TEST_F(EventExpiryTest, ThousandsThatExpireTogetherAreTakenInTurns) {
  for (int i = 0; i < 1'000; ++i) {
    write(key(std::to_string(i)), {{"lastTimestamp", api::format_time(loop_.now())}});
  }
  loop_.run();
  loop_.advance(minutes(61));
  run({.lifetime = minutes(60)});
  EXPECT_THAT(names().size(), testing::AllOf(testing::Ge(500u), testing::Lt(1'000u)));
  loop_.advance(seconds(1));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, EventWithoutATimeCountsFromItsCreationOrFromWhenItWasSeen) {
  put(key("created"), {{"metadata", {{"creationTimestamp", api::format_time(loop_.now())}}}});
  loop_.advance(minutes(30));
  put(key("timeless"));
  put(key("nonsense"), {{"lastTimestamp", "yesterday"}});
  run({.lifetime = minutes(60)});
  loop_.advance(minutes(31));
  EXPECT_THAT(names(), ElementsAre("nonsense", "timeless"));
  loop_.advance(minutes(30));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, OtherObjectsStay) {
  run({.lifetime = minutes(60), .most = 1});
  put(instance_key("vm"), {{"lastTimestamp", "2001-01-01T00:00:00Z"}});
  loop_.advance(minutes(200));
  EXPECT_TRUE(exists(instance_key("vm")));
}

TEST_F(EventExpiryTest, RemovalThatFailedIsTriedAgain) {
  run({.lifetime = minutes(60)});
  happen("a");
  committer_->failing = true;
  loop_.advance(minutes(61));
  EXPECT_THAT(names(), ElementsAre("a"));
  committer_->failing = false;
  loop_.advance(minutes(1));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, NothingToForgetNeedsNoTimer) {
  run({.lifetime = minutes(60)});
  EXPECT_EQ(loop_.timers(), 0u);
  happen("a");
  loop_.advance(minutes(61));
  loop_.advance(minutes(1));
  EXPECT_EQ(loop_.timers(), 0u);
}

// Any client may write events.
TEST_F(EventExpiryTest, EventOfATimeToComeGoesToo) {
  run({.lifetime = minutes(60)});
  put(key("a"), {{"lastTimestamp", "2100-01-01T00:00:00Z"}});
  loop_.advance(minutes(62));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EventExpiryTest, RemovalsThatAreUnderWayAreNotOrderedAgain) {
  open_store({.waiting_writes = 500});
  for (int i = 0; i < 100; ++i) {
    put(key(std::to_string(i)), {{"lastTimestamp", "2001-01-01T00:00:00Z"}});
  }
  committer_->held = true;
  run({.lifetime = minutes(60)});
  loop_.advance(minutes(5));
  EXPECT_NO_THROW(write(instance_key("vm"), Json::object()));
}

TEST_F(EventExpiryTest, WhatIsCountedUpWhileItExpiresStays) {
  run({.lifetime = minutes(60)});
  happen("a");
  loop_.advance(minutes(59));
  committer_->held = true;
  write(key("a"), {{"lastTimestamp", api::format_time(loop_.now())}});
  loop_.advance(minutes(2));
  committer_->held = false;
  committer_->release();
  loop_.advance(minutes(1));
  EXPECT_THAT(names(), ElementsAre("a"));
  loop_.advance(minutes(60));
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace virtset::test
