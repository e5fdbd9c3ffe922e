#include "daemon/event_recorder.h"

#include "tests/unit/daemon/controller_test.h"

namespace virtset::test {
namespace {

using api::member;
using std::chrono::seconds;
using store::Json;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using testing::StartsWith;

class EventRecorderTest : public ControllerTest {
 protected:
  EventRecorderTest() {
    for (const char* name : {"vm", "other"}) put(instance_key(name));
    open({});
  }
  void open(EventRecorder::Limits limits) {
    recorder_ = std::make_unique<EventRecorder>(*store_, loop_, "host", limits);
  }
  void record(const std::string& reason, const std::string& message,
              EventType type = EventType::normal, const std::string& about = "vm") {
    recorder_->record(*store_->get(instance_key(about)), type, "virt-handler", reason, message);
    loop_.run();
  }
  std::vector<Json> events() const {
    std::vector<Json> documents;
    for (const auto& event : store_->list(api::core_group, api::event_kind)) {
      documents.push_back(*event->document());
    }
    return documents;
  }
  // How often something happened, whether it is told of in one event or in several.
  int told() const {
    int sum = 0;
    for (const Json& event : events()) sum += event["count"].get<int>();
    return sum;
  }

  std::unique_ptr<EventRecorder> recorder_;
};

TEST_F(EventRecorderTest, EventSaysWhatHappenedToWhomAndWhoSaysSo) {
  record("Started", "It runs.");
  ASSERT_THAT(events(), SizeIs(1));
  const Json event = events()[0];
  EXPECT_EQ(event["kind"], "Event");
  EXPECT_EQ(event["type"], "Normal");
  EXPECT_EQ(event["reason"], "Started");
  EXPECT_EQ(event["message"], "It runs.");
  EXPECT_EQ(event["count"], 1);
  EXPECT_EQ(event["metadata"]["namespace"], "default");
  EXPECT_THAT(event["metadata"]["name"].get<std::string>(), StartsWith("vm."));
  const auto vm = store_->get(instance_key("vm"));
  EXPECT_EQ(event["involvedObject"], Json({{"apiVersion", "kubevirt.io/v1"},
                                           {"kind", api::instance_kind},
                                           {"namespace", "default"},
                                           {"name", "vm"},
                                           {"uid", "u-vm"},
                                           {"resourceVersion", std::to_string(vm->revision())}}));
  EXPECT_EQ(event["source"], Json({{"component", "virt-handler"}, {"host", "host"}}));
}

TEST_F(EventRecorderTest, EventAboutWhatHasNoNamespaceIsInTheDefaultOne) {
  const store::Key key{api::core_group, api::namespace_kind, "", "test"};
  put(key);
  recorder_->record(*store_->get(key), EventType::warning, "c", "Stuck", "It stays.");
  loop_.run();
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_EQ(events()[0]["metadata"]["namespace"], "default");
  EXPECT_FALSE(events()[0]["involvedObject"].contains("namespace"));
  EXPECT_EQ(events()[0]["type"], "Warning");
}

TEST_F(EventRecorderTest, SameAgainIsCounted) {
  record("Failed", "no", EventType::warning);
  const Json before = events().at(0);
  loop_.advance(seconds(5));
  record("Failed", "no", EventType::warning);
  ASSERT_THAT(events(), SizeIs(1));
  const Json after = events()[0];
  EXPECT_EQ(after["count"], 2);
  EXPECT_EQ(after["metadata"]["name"], before["metadata"]["name"]);
  EXPECT_EQ(after["metadata"]["uid"], before["metadata"]["uid"]);
  EXPECT_EQ(after["firstTimestamp"], before["firstTimestamp"]);
  EXPECT_NE(after["lastTimestamp"], before["lastTimestamp"]);
}

TEST_F(EventRecorderTest, OtherReasonsTypesMessagesAndObjectsAreOtherEvents) {
  record("Failed", "no");
  record("Stopped", "no");
  record("Failed", "never");
  record("Failed", "no", EventType::warning);
  record("Failed", "no", EventType::normal, "other");
  EXPECT_THAT(events(), SizeIs(5));
}

// A set that is deleted and created again begins anew.
TEST_F(EventRecorderTest, NextObjectOfTheSameNameHasEventsOfItsOwn) {
  record("Failed", "no");
  put(instance_key("vm"), {{"metadata", {{"uid", "next"}}}});
  record("Failed", "no");
  EXPECT_THAT(events(), SizeIs(2));
}

TEST_F(EventRecorderTest, EventThatHasExpiredIsNotCountedOn) {
  record("Failed", "no");
  record("Failed", "no");
  store_->write(
      store_->list(api::core_group, api::event_kind)[0]->key(),
      [](const store::Object*) { return store::Store::Mutation::remove(); }, nullptr);
  loop_.advance(seconds(3'600));
  record("Failed", "no");
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_EQ(events()[0]["count"], 1);
  EXPECT_EQ(events()[0]["firstTimestamp"], events()[0]["lastTimestamp"]);
}

TEST_F(EventRecorderTest, TooManyThatDifferInTheirMessageBecomeOne) {
  open({.similar = 3});
  for (int i = 0; i < 8; ++i) record("Failed", "port " + std::to_string(i));
  const auto all = events();
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(told(), 8);
  int combined = 0;
  for (const Json& event : all) {
    if (event["message"] != "(combined from similar events): port 7") continue;
    ++combined;
    EXPECT_EQ(event["count"], 5);
  }
  EXPECT_EQ(combined, 1);
  // What was told of on its own still is.
  record("Failed", "port 0");
  EXPECT_THAT(events(), SizeIs(4));
}

TEST_F(EventRecorderTest, OneObjectCannotFloodTheStore) {
  open({.burst_per_object = 5, .refill_per_object = seconds(300)});
  for (int i = 0; i < 100; ++i) record("Failed", "no", EventType::warning);
  EXPECT_EQ(told(), 5);
  record("Failed", "no", EventType::warning, "other");
  EXPECT_EQ(told(), 6);
  loop_.advance(seconds(299));
  record("Failed", "no", EventType::warning);
  EXPECT_EQ(told(), 6);
  loop_.advance(seconds(2));
  record("Failed", "no", EventType::warning);
  record("Failed", "no", EventType::warning);
  EXPECT_EQ(told(), 7);
}

TEST_F(EventRecorderTest, LongSilenceBuysNoMoreThanOneBurst) {
  open({.burst_per_object = 5, .refill_per_object = seconds(300)});
  record("Failed", "no");
  loop_.advance(std::chrono::hours(100));
  for (int i = 0; i < 100; ++i) record("Failed", "no");
  EXPECT_EQ(told(), 6);
}

TEST_F(EventRecorderTest, AllTogetherAreLimitedButForWarnings) {
  open({.burst = 10, .refill_per_second = 2});
  for (int i = 0; i < 30; ++i) {
    const std::string name = "vm" + std::to_string(i);
    put(instance_key(name));
    record("Started", "It runs.", EventType::normal, name);
  }
  EXPECT_EQ(told(), 10);
  record("Failed", "no", EventType::warning, "vm29");
  EXPECT_EQ(told(), 11);
  loop_.advance(seconds(1));
  for (int i = 0; i < 30; ++i) {
    record("Stopped", "It ended.", EventType::normal, "vm" + std::to_string(i));
  }
  EXPECT_EQ(told(), 13);
}

TEST_F(EventRecorderTest, RemembersTheMostRecentObjectsOnly) {
  open({.burst_per_object = 1, .remembered = 2});
  for (const char* name : {"a", "b", "c"}) put(instance_key(name));
  record("Failed", "no", EventType::warning, "a");
  record("Failed", "no", EventType::warning, "b");
  record("Failed", "no", EventType::warning, "a");  // limited, and heard of last
  EXPECT_EQ(told(), 2);
  loop_.advance(seconds(1));
  record("Failed", "no", EventType::warning, "c");
  record("Failed", "no", EventType::warning, "a");
  EXPECT_EQ(told(), 3);
  record("Failed", "no", EventType::warning, "b");  // forgotten, so not limited
  EXPECT_EQ(told(), 4);
}

TEST_F(EventRecorderTest, LongMessagesAreCut) {
  record("Failed", std::string(100'000, 'x'));
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_THAT(events()[0]["message"].get<std::string>().size(), AllOf(Ge(100u), Le(1'024u)));
}

TEST_F(EventRecorderTest, EventsAreTheFirstToBeDroppedWhenTheStoreIsOverloaded) {
  open_store({.waiting_writes = 1});
  open({});
  committer_->held = true;
  write(instance_key("busy"), Json::object());
  recorder_->record(*store_->get(instance_key("vm")), EventType::warning, "c", "Failed", "no");
  committer_->held = false;
  loop_.run();
  committer_->release();
  loop_.run();
  EXPECT_TRUE(exists(instance_key("busy")));
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(EventRecorderTest, SameAgainIsCountedBeforeTheFirstIsDurable) {
  for (int i = 0; i < 3; ++i) {
    recorder_->record(*store_->get(instance_key("vm")), EventType::warning, "c", "Failed", "no");
    loop_.set_wall_clock(loop_.now() + std::chrono::microseconds(10));
  }
  loop_.run();
  ASSERT_THAT(events(), SizeIs(1));
  EXPECT_EQ(events()[0]["count"], 3);
}

// Ten in a year are not many.
TEST_F(EventRecorderTest, MessagesWhoseEventsHaveExpiredDoNotCountAsSimilar) {
  open({.similar = 3});
  for (int i = 0; i < 8; ++i) {
    record("Failed", "port " + std::to_string(i));
    for (const auto& event : store_->list(api::core_group, api::event_kind)) {
      store_->write(
          event->key(), [](const store::Object*) { return store::Store::Mutation::remove(); },
          nullptr);
    }
    loop_.advance(seconds(3'600));
  }
  record("Failed", "port 8");
  EXPECT_EQ(events().at(0)["message"], "port 8");
}

}  // namespace
}  // namespace virtset::test
