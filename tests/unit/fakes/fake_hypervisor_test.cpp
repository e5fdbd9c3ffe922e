// What the tests of the controllers rely on: that the fake promises what libvirt does.

#include "tests/fakes/fake_hypervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using hypervisor::Event;
using hypervisor::PauseReason;
using hypervisor::StopReason;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Ask = hypervisor::Hypervisor::Ask;
using Type = Event::Type;

class FakeHypervisorTest : public testing::Test {
 protected:
  FakeHypervisorTest() { open(); }

  void open() {
    hypervisor_ = std::make_unique<FakeHypervisor>(host_, "ours");
    hypervisor_->open({
        .connected = [this](auto domains) { lists_.push_back(std::move(domains)); },
        .disconnected = [this](const std::string& why) { broken_.push_back(why); },
        .event = [this](const Event& event) { events_.push_back(event); },
    });
  }
  static hypervisor::Domain domain(const std::string& name,
                                   const std::string& installation = "ours") {
    return {.name = name,
            .uuid = "uuid-" + name,
            .mark = {.installation = installation, .uid = "u-" + name}};
  }
  std::vector<Type> types() {
    std::vector<Type> result;
    for (const Event& event : std::exchange(events_, {})) result.push_back(event.type);
    return result;
  }
  template <typename Error, typename Call>
  std::string refusal(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "not refused";
  }

  FakeHost host_;
  std::vector<std::vector<hypervisor::DomainInfo>> lists_;
  std::vector<std::string> broken_;
  std::vector<Event> events_;
  std::unique_ptr<FakeHypervisor> hypervisor_;
};

TEST_F(FakeHypervisorTest, TellsWhatRunsWhenItConnectsAndWhenItIsAsked) {
  EXPECT_THAT(lists_, ElementsAre(IsEmpty()));
  hypervisor_->start(domain("a"));
  hypervisor_->relist();
  ASSERT_THAT(lists_, SizeIs(2));
  ASSERT_THAT(lists_[1], SizeIs(1));
  EXPECT_EQ(lists_[1][0].uuid, "uuid-a");
  EXPECT_EQ(lists_[1][0].mark.uid, "u-a");
  EXPECT_THAT(types(), ElementsAre(Type::started));
}

TEST_F(FakeHypervisorTest, SaysWhatRunsTheDomains) {
  hypervisor_->runs.driver_version = "8.0.1";
  EXPECT_EQ(hypervisor_->versions(), (hypervisor::Versions{"9.0.0", "qemu", "8.0.1"}));
}

TEST_F(FakeHypervisorTest, StartOfWhatRunsAlreadyIsSuccessAndStartsNothing) {
  hypervisor_->start(domain("a"));
  hypervisor_->start(domain("a"));
  EXPECT_EQ(host_.starts, 1);
  EXPECT_EQ(host_.alive(), 1u);
}

TEST_F(FakeHypervisorTest, NamesAndUuidsAreUnique) {
  hypervisor_->start(domain("a"));
  auto same_uuid = domain("b");
  same_uuid.uuid = "uuid-a";
  EXPECT_THAT(refusal<hypervisor::Refused>([&] { hypervisor_->start(same_uuid); }),
              HasSubstr("already exists with uuid"));
  auto same_name = domain("b");
  same_name.name = "a";
  EXPECT_THAT(refusal<hypervisor::Refused>([&] { hypervisor_->start(same_name); }),
              HasSubstr("domain 'a' already exists"));
  EXPECT_EQ(host_.starts, 1);
}

TEST_F(FakeHypervisorTest, DomainsOutliveTheClient) {
  hypervisor_->start(domain("a"));
  hypervisor_.reset();
  open();
  EXPECT_THAT(lists_.back(), SizeIs(1));
}

TEST_F(FakeHypervisorTest, OtherPeoplesDomainsAreNeitherListedNorHarmed) {
  host_.domains["uuid-x"] = {.description = domain("x", "theirs")};
  hypervisor_->relist();
  EXPECT_THAT(lists_.back(), IsEmpty());
  EXPECT_THROW(hypervisor_->destroy("uuid-x"), hypervisor::NotOurs);
  EXPECT_EQ(host_.alive(), 1u);
}

TEST_F(FakeHypervisorTest, RefusesStartsAsTold) {
  hypervisor_->refuse_starts = "no KVM";
  EXPECT_EQ(refusal<hypervisor::Refused>([&] { hypervisor_->start(domain("a")); }), "no KVM");
  EXPECT_THAT(host_.domains, IsEmpty());
  EXPECT_THAT(types(), IsEmpty());
}

TEST_F(FakeHypervisorTest, LostAnswerIsAStartThatItsCallerDoesNotHearOf) {
  hypervisor_->lose_next_answer = true;
  EXPECT_THROW(hypervisor_->start(domain("a")), hypervisor::Unavailable);
  EXPECT_EQ(host_.alive(), 1u);
  EXPECT_THAT(broken_, SizeIs(1));
  EXPECT_THAT(types(), IsEmpty());
  EXPECT_FALSE(hypervisor_->connected());
  hypervisor_->connect();
  EXPECT_THAT(lists_.back(), SizeIs(1));
}

TEST_F(FakeHypervisorTest, NothingWorksWithoutAConnection) {
  hypervisor_->start(domain("a"));
  hypervisor_->disconnect("gone");
  EXPECT_THAT(broken_, ElementsAre("gone"));
  EXPECT_THROW(hypervisor_->start(domain("b")), hypervisor::Unavailable);
  EXPECT_THROW(hypervisor_->shut_down("uuid-a", Ask::agent), hypervisor::Unavailable);
  EXPECT_THROW(hypervisor_->destroy("uuid-a"), hypervisor::Unavailable);
  EXPECT_THROW(hypervisor_->versions(), hypervisor::Unavailable);
  EXPECT_THROW(hypervisor_->ensure_network({}), hypervisor::Unavailable);
  EXPECT_THROW(hypervisor_->reserve("net", {}), hypervisor::Unavailable);
  const auto lists = lists_.size();
  hypervisor_->relist();
  EXPECT_EQ(lists_.size(), lists);
  EXPECT_EQ(host_.alive(), 1u);
}

TEST_F(FakeHypervisorTest, GuestThatObeysPowersOff) {
  hypervisor_->start(domain("a"));
  types();
  hypervisor_->shut_down("uuid-a", Ask::power_button);
  ASSERT_THAT(events_, SizeIs(3));
  EXPECT_EQ(events_[2].stop_reason, StopReason::shutdown);
  EXPECT_THAT(types(), ElementsAre(Type::shutting_down, Type::process_exited, Type::stopped));
  EXPECT_THAT(host_.asked_to_shut_down, ElementsAre("uuid-a"));
  EXPECT_EQ(host_.alive(), 0u);
}

TEST_F(FakeHypervisorTest, GuestThatDoesNotObeyRunsOnUntilItIsDestroyed) {
  hypervisor_->guests_obey = false;
  hypervisor_->start(domain("a"));
  types();
  hypervisor_->shut_down("uuid-a", Ask::power_button);
  EXPECT_EQ(host_.alive(), 1u);
  EXPECT_THAT(types(), IsEmpty());
  hypervisor_->destroy("uuid-a");
  EXPECT_EQ(host_.alive(), 0u);
  EXPECT_EQ(events_.back().stop_reason, StopReason::destroyed);
  EXPECT_NO_THROW(hypervisor_->destroy("uuid-a"));
  EXPECT_THROW(hypervisor_->shut_down("uuid-a", Ask::power_button), hypervisor::Refused);
}

TEST_F(FakeHypervisorTest, DeathIsSeenFirstAndToldOfLater) {
  hypervisor_->start(domain("a"));
  types();
  hypervisor_->kill_process("uuid-a");
  EXPECT_EQ(host_.alive(), 0u);
  EXPECT_THAT(types(), ElementsAre(Type::process_exited));
  hypervisor_->relist();
  EXPECT_THAT(lists_.back(), SizeIs(1));
  hypervisor_->notice_death("uuid-a");
  EXPECT_EQ(events_.back().stop_reason, StopReason::crashed);
  EXPECT_THAT(types(), ElementsAre(Type::stopped));
}

TEST_F(FakeHypervisorTest, WhileDisconnectedOnlyTheEndOfAProcessIsSeen) {
  hypervisor_->start(domain("a"));
  hypervisor_->start(domain("b"));
  hypervisor_->disconnect();
  types();
  hypervisor_->pause("uuid-b", PauseReason::user);
  hypervisor_->kill_process("uuid-a");
  EXPECT_THAT(types(), ElementsAre(Type::process_exited));
  hypervisor_->connect();
  ASSERT_THAT(lists_.back(), SizeIs(1));
  EXPECT_EQ(lists_.back()[0].uuid, "uuid-b");
  EXPECT_EQ(lists_.back()[0].paused, PauseReason::user);
}

TEST_F(FakeHypervisorTest, PauseAgentAndResumeAreToldAndListed) {
  hypervisor_->start(domain("a"));
  types();
  hypervisor_->pause("uuid-a", PauseReason::io_error);
  hypervisor_->connect_agent("uuid-a");
  hypervisor_->relist();
  EXPECT_EQ(lists_.back()[0].paused, PauseReason::io_error);
  EXPECT_TRUE(lists_.back()[0].agent_connected);
  hypervisor_->resume("uuid-a");
  hypervisor_->relist();
  EXPECT_EQ(lists_.back()[0].paused, std::nullopt);
  EXPECT_THAT(types(), ElementsAre(Type::paused, Type::agent_connected, Type::resumed));
}

TEST_F(FakeHypervisorTest, ReservationReplacesWhoeverHadTheAddressOrTheMac) {
  hypervisor_->ensure_network({.reservations = {{"m1", "a1"}, {"m2", "a2"}, {"m3", "a3"}}});
  hypervisor_->reserve("net", {"m1", "a2"});
  using hypervisor::Reservation;
  EXPECT_THAT(host_.reservations,
              testing::UnorderedElementsAre(Reservation{"m1", "a2"}, Reservation{"m3", "a3"}));
}

TEST_F(FakeHypervisorTest, AliveCountsByName) {
  for (const char* name : {"default_web1", "default_web2", "default_db"}) {
    hypervisor_->start(domain(name));
  }
  EXPECT_EQ(host_.alive_of("default_web"), 2u);
  EXPECT_EQ(host_.alive(), 3u);
}

}  // namespace
}  // namespace virtset::test
