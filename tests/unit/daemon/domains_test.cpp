#include "daemon/domains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using hypervisor::DomainInfo;
using hypervisor::Event;
using hypervisor::Mark;
using hypervisor::PauseReason;
using hypervisor::StopReason;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Type = Event::Type;

class DomainsTest : public testing::Test {
 protected:
  static DomainInfo info(const std::string& uuid) {
    return {.name = "default_" + uuid, .uuid = uuid, .mark = {.name = uuid, .uid = "u-" + uuid}};
  }
  void expect(const std::string& uuid) { domains_.expect(uuid, info(uuid).mark, info(uuid).name); }
  // As when the daemon starts it and libvirt says that it runs.
  void start(const std::string& uuid) {
    expect(uuid);
    domains_.on_event({.type = Type::started, .uuid = uuid});
    changed_.clear();
  }
  void stop(const std::string& uuid, StopReason reason) {
    domains_.on_event({.type = Type::stopped, .uuid = uuid, .stop_reason = reason});
  }
  std::vector<std::string> changed() { return std::exchange(changed_, {}); }

  std::vector<std::string> changed_;
  Domains domains_{[this](const std::string& uuid) { changed_.push_back(uuid); }};
};

TEST_F(DomainsTest, KnowsNothingBeforeTheFirstList) {
  EXPECT_FALSE(domains_.synced());
  EXPECT_EQ(domains_.generation(), 0u);
  EXPECT_EQ(domains_.why_not_synced(), "not connected yet");
  EXPECT_EQ(domains_.find("a"), nullptr);
}

TEST_F(DomainsTest, ListIsTheTruth) {
  domains_.on_connected({info("a"), info("b")});
  EXPECT_TRUE(domains_.synced());
  EXPECT_EQ(domains_.generation(), 1u);
  EXPECT_THAT(changed(), UnorderedElementsAre("a", "b"));
  ASSERT_TRUE(domains_.find("a"));
  EXPECT_EQ(domains_.find("a")->info.mark.uid, "u-a");
  EXPECT_EQ(domains_.all().size(), 2u);
}

// Or a list of 10,000 would cost as much as all of them.
TEST_F(DomainsTest, NextListTellsOnlyOfWhatIsNew) {
  domains_.on_connected({info("a"), info("b"), info("c")});
  changed_.clear();
  DomainInfo paused = info("b");
  paused.paused = PauseReason::user;
  domains_.on_connected({info("a"), paused, info("d")});
  EXPECT_THAT(changed(), UnorderedElementsAre("b", "c", "d"));
}

TEST_F(DomainsTest, DisconnectionKeepsWhatWasKnownAndSaysThatItMayBeOld) {
  domains_.on_connected({info("a")});
  domains_.on_disconnected("libvirtd has gone");
  EXPECT_FALSE(domains_.synced());
  EXPECT_EQ(domains_.why_not_synced(), "libvirtd has gone");
  EXPECT_TRUE(domains_.find("a"));
  EXPECT_FALSE(domains_.end_of("a"));
}

TEST_F(DomainsTest, WhatTheNextListDoesNotHaveHasEndedUnseen) {
  domains_.on_connected({info("a"), info("b")});
  domains_.on_disconnected("");
  changed_.clear();
  domains_.on_connected({info("b")});
  EXPECT_EQ(domains_.generation(), 2u);
  EXPECT_THAT(changed(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(domains_.find("a"), nullptr);
  const auto end = domains_.end_of("a");
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->unseen);
  EXPECT_EQ(end->reason, StopReason::other);
}

TEST_F(DomainsTest, UnseenEndOfAProcessThatWasSeenToExitWasACrash) {
  domains_.on_connected({info("a")});
  domains_.on_event({.type = Type::process_exited, .uuid = "a"});
  domains_.on_connected({});
  EXPECT_EQ(domains_.end_of("a")->reason, StopReason::crashed);
}

TEST_F(DomainsTest, UnseenEndOfAGuestThatWasPoweringOffWasAShutdown) {
  domains_.on_connected({info("a")});
  domains_.on_event({.type = Type::shutting_down, .uuid = "a"});
  domains_.on_event({.type = Type::process_exited, .uuid = "a"});
  domains_.on_connected({});
  EXPECT_EQ(domains_.end_of("a")->reason, StopReason::shutdown);
}

TEST_F(DomainsTest, ExpectedDomainIsThereWhenItIsToldToHaveStarted) {
  domains_.on_connected({});
  expect("a");
  EXPECT_EQ(domains_.find("a"), nullptr);
  domains_.on_event({.type = Type::started, .uuid = "a"});
  ASSERT_TRUE(domains_.find("a"));
  EXPECT_EQ(domains_.find("a")->info.name, "default_a");
  EXPECT_EQ(domains_.find("a")->info.mark.uid, "u-a");
  EXPECT_THAT(changed(), ElementsAre("a"));
}

TEST_F(DomainsTest, StartThatNobodyExpectsIsNotBelieved) {
  domains_.on_connected({});
  domains_.on_event({.type = Type::started, .uuid = "a"});
  EXPECT_EQ(domains_.find("a"), nullptr);
  expect("b");
  domains_.expect_no_more("b");
  domains_.on_event({.type = Type::started, .uuid = "b"});
  EXPECT_EQ(domains_.find("b"), nullptr);
}

TEST_F(DomainsTest, StartIsBelievedOnceOnly) {
  start("a");
  stop("a", StopReason::crashed);
  domains_.on_event({.type = Type::started, .uuid = "a"});
  EXPECT_EQ(domains_.find("a"), nullptr);
}

TEST_F(DomainsTest, SecondWordOfAStartChangesNothing) {
  start("a");
  domains_.on_event({.type = Type::agent_connected, .uuid = "a"});
  expect("a");
  domains_.on_event({.type = Type::started, .uuid = "a"});
  EXPECT_TRUE(domains_.find("a")->info.agent_connected);
}

// Their starters wait for a list that is newer than the start.
TEST_F(DomainsTest, ListTellsOfExpectedDomainsThatItDoesNotHave) {
  expect("a");
  domains_.on_connected({});
  EXPECT_THAT(changed(), ElementsAre("a"));
  EXPECT_FALSE(domains_.end_of("a"));
}

TEST_F(DomainsTest, FoundDomainIsThere) {
  domains_.on_connected({});
  domains_.on_found(info("a"));
  ASSERT_TRUE(domains_.find("a"));
  EXPECT_THAT(changed(), ElementsAre("a"));
}

TEST_F(DomainsTest, EndIsRememberedUntilItIsForgotten) {
  for (const auto reason : {StopReason::shutdown, StopReason::destroyed, StopReason::crashed}) {
    start("a");
    stop("a", reason);
    EXPECT_THAT(changed(), ElementsAre("a"));
    EXPECT_EQ(domains_.find("a"), nullptr);
    ASSERT_TRUE(domains_.end_of("a"));
    EXPECT_EQ(domains_.end_of("a")->reason, reason);
    EXPECT_FALSE(domains_.end_of("a")->unseen);
    domains_.forget_end("a");
    EXPECT_FALSE(domains_.end_of("a"));
  }
}

TEST_F(DomainsTest, NextStartForgetsHowTheLastOneEnded) {
  start("a");
  stop("a", StopReason::crashed);
  expect("a");
  EXPECT_FALSE(domains_.end_of("a"));
}

TEST_F(DomainsTest, EventsChangeTheRecord) {
  start("a");
  const auto tell = [this](Type type) { domains_.on_event({.type = type, .uuid = "a"}); };
  const DomainRecord& record = *domains_.find("a");
  domains_.on_event({.type = Type::paused, .uuid = "a", .pause_reason = PauseReason::io_error});
  EXPECT_EQ(record.info.paused, PauseReason::io_error);
  tell(Type::resumed);
  EXPECT_EQ(record.info.paused, std::nullopt);
  tell(Type::agent_connected);
  EXPECT_TRUE(record.info.agent_connected);
  tell(Type::agent_disconnected);
  EXPECT_FALSE(record.info.agent_connected);
  tell(Type::shutting_down);
  EXPECT_TRUE(record.info.shutting_down);
  EXPECT_FALSE(record.process_exited);
  tell(Type::process_exited);
  EXPECT_TRUE(record.process_exited);
  EXPECT_EQ(changed().size(), 6u);
}

TEST_F(DomainsTest, EventsOfUnknownDomainsMakeNone) {
  domains_.on_connected({});
  for (const Type type : {Type::paused, Type::resumed, Type::shutting_down, Type::process_exited,
                          Type::agent_connected, Type::agent_disconnected}) {
    domains_.on_event({.type = type, .uuid = "a"});
  }
  EXPECT_THAT(domains_.all(), IsEmpty());
  EXPECT_THAT(changed(), IsEmpty());
}

// A list is made by a libvirt that has not noticed yet.
TEST_F(DomainsTest, ProcessThatExitedDoesNotComeBackToLifeWithTheNextList) {
  start("a");
  domains_.on_event({.type = Type::process_exited, .uuid = "a"});
  domains_.on_connected({info("a")});
  EXPECT_TRUE(domains_.find("a")->process_exited);
}

TEST_F(DomainsTest, StartedAgainItsProcessRuns) {
  start("a");
  domains_.on_event({.type = Type::process_exited, .uuid = "a"});
  stop("a", StopReason::crashed);
  start("a");
  EXPECT_FALSE(domains_.find("a")->process_exited);
}

// The record went with the text by which it was called.
TEST_F(DomainsTest, EndOfWhatTheListDoesNotHaveIsKnownByItsWholeUuid) {
  const std::string uuid = "6d0cf6f5-3b4c-4e0f-a3a6-000000000001";
  domains_.on_connected({info(uuid)});
  domains_.on_connected({});
  EXPECT_TRUE(domains_.end_of(uuid));
}

}  // namespace
}  // namespace virtset::test
