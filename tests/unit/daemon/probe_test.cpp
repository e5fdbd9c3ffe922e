#include "daemon/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/manual_scheduler.h"

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

// A guest that answers when the test says so.
class SlowGuest final : public ProbeTransport {
 public:
  std::unique_ptr<Attempt> start(const api::ProbeSpec& probe, const std::string& address,
                                 Done done) override {
    ++attempts;
    last_port = probe.port;
    last_address = address;
    pending = std::move(done);
    return std::make_unique<SlowAttempt>(*this);
  }
  void answer(const std::string& failure) { std::exchange(pending, nullptr)(failure); }

  int attempts = 0;
  int open = 0;
  int last_port = 0;
  std::string last_address;
  Done pending;

 private:
  struct SlowAttempt final : Attempt {
    explicit SlowAttempt(SlowGuest& of) : guest(of) { ++guest.open; }
    ~SlowAttempt() override { --guest.open; }
    SlowGuest& guest;
  };
};

class ProbeTest : public testing::Test {
 protected:
  void open(bool initial, Probe::Timing timing = {}) {
    probe_ = std::make_unique<Probe>(loop_, guest_, spec_, "10.88.0.2", timing, initial,
                                     [this](bool success, const std::string& why) {
                                       told_.push_back(success ? "ready" : "failed: " + why);
                                     });
    loop_.run();
  }
  // Each character is an attempt: '+' or '-'. The period passes after each.
  void attempts(const std::string& outcomes) {
    for (const char outcome : outcomes) {
      ASSERT_TRUE(guest_.pending);
      guest_.answer(outcome == '+' ? "" : "Connection refused");
      loop_.advance(spec_.period);
    }
  }
  std::vector<std::string> told() { return std::exchange(told_, {}); }

  ManualScheduler loop_;
  SlowGuest guest_;
  api::ProbeSpec spec_{.port = 80, .period = seconds(10)};
  std::vector<std::string> told_;
  std::unique_ptr<Probe> probe_;
};

TEST_F(ProbeTest, AsksTheGuestThatItIsOf) {
  open(false);
  EXPECT_EQ(guest_.last_address, "10.88.0.2");
  EXPECT_EQ(guest_.last_port, 80);
}

TEST_F(ProbeTest, FirstAttemptWaitsForTheDelay) {
  open(false, {.delay = seconds(5)});
  loop_.advance(milliseconds(4'999));
  EXPECT_EQ(guest_.attempts, 0);
  loop_.advance(milliseconds(1));
  EXPECT_EQ(guest_.attempts, 1);
}

TEST_F(ProbeTest, InitialResultCountsUntilThereIsAnother) {
  open(true);
  EXPECT_TRUE(probe_->result());
  open(false);
  EXPECT_FALSE(probe_->result());
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(ProbeTest, SucceedsAfterAsManySuccessesInARowAsItTakes) {
  spec_.success_threshold = 3;
  open(false);
  attempts("++-++");
  EXPECT_THAT(told(), IsEmpty());
  attempts("+");
  EXPECT_THAT(told(), ElementsAre("ready"));
  EXPECT_TRUE(probe_->result());
}

TEST_F(ProbeTest, FailsAfterAsManyFailuresInARowAsItTakes) {
  spec_.failure_threshold = 3;
  open(true);
  attempts("--+--");
  EXPECT_THAT(told(), IsEmpty());
  attempts("-");
  EXPECT_THAT(told(), ElementsAre("failed: Connection refused"));
  EXPECT_FALSE(probe_->result());
}

TEST_F(ProbeTest, VeryFirstFailureCountsAsOne) {
  spec_.failure_threshold = 1;
  open(true);
  attempts("-");
  EXPECT_THAT(told(), ElementsAre("failed: Connection refused"));
}

TEST_F(ProbeTest, TellsOnlyOfChanges) {
  spec_.failure_threshold = 2;
  open(false);
  attempts("---+++---");
  EXPECT_THAT(told(), ElementsAre("ready", "failed: Connection refused"));
}

TEST_F(ProbeTest, AttemptsComeAPeriodAfterTheLastHasEndedAndNeverTwoAtATime) {
  open(false);
  loop_.advance(seconds(60));
  EXPECT_EQ(guest_.attempts, 1);
  EXPECT_EQ(guest_.open, 1);
  guest_.answer("timeout");
  EXPECT_EQ(guest_.open, 0);
  loop_.advance(milliseconds(9'999));
  EXPECT_EQ(guest_.attempts, 1);
  loop_.advance(milliseconds(1));
  EXPECT_EQ(guest_.attempts, 2);
}

TEST_F(ProbeTest, EagerUntilTheFirstSuccess) {
  open(false, {.eager_period = seconds(1)});
  guest_.answer("refused");
  loop_.advance(seconds(1));
  EXPECT_EQ(guest_.attempts, 2);
  guest_.answer("");
  loop_.advance(milliseconds(9'999));
  EXPECT_EQ(guest_.attempts, 2);
  loop_.advance(milliseconds(1));
  guest_.answer("refused");
  loop_.advance(seconds(1));
  EXPECT_EQ(guest_.attempts, 3);
}

TEST_F(ProbeTest, EagernessNeverMakesItSlower) {
  spec_.period = seconds(1);
  open(false, {.eager_period = seconds(5)});
  guest_.answer("refused");
  loop_.advance(seconds(1));
  EXPECT_EQ(guest_.attempts, 2);
}

TEST_F(ProbeTest, OneThatWasReadyBeforeIsNotProbedEagerly) {
  open(true, {.eager_period = seconds(1)});
  guest_.answer("refused");
  loop_.advance(seconds(1));
  EXPECT_EQ(guest_.attempts, 1);
}

TEST_F(ProbeTest, DestroyedProbeAsksNoMore) {
  open(false, {.delay = seconds(1)});
  loop_.advance(seconds(1));
  EXPECT_EQ(guest_.open, 1);
  probe_.reset();
  EXPECT_EQ(guest_.open, 0);
  loop_.advance(seconds(60));
  EXPECT_EQ(guest_.attempts, 1);
  EXPECT_EQ(loop_.timers(), 0u);
}

// The instance is stopped because of it, and its probes go with it.
TEST_F(ProbeTest, MayBeDestroyedByWhomItTells) {
  spec_.failure_threshold = 1;
  std::string seen;
  std::unique_ptr<Probe> probe;
  probe = std::make_unique<Probe>(loop_, guest_, spec_, "10.88.0.2", Probe::Timing{}, true,
                                  [&](bool, const std::string& why) {
                                    seen = why;
                                    probe.reset();
                                  });
  loop_.run();
  guest_.answer("Connection refused");
  EXPECT_EQ(probe, nullptr);
  EXPECT_EQ(seen, "Connection refused");
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(ProbeTest, WhoDestroysItWhenToldKeepsWhatItCaptured) {
  spec_.failure_threshold = 1;
  std::string seen;
  std::unique_ptr<Probe> probe;
  probe = std::make_unique<Probe>(loop_, guest_, spec_, "10.88.0.2", Probe::Timing{}, true,
                                  [&, captured = std::string(100, 'x')](bool, const std::string&) {
                                    probe.reset();
                                    seen = captured;
                                  });
  loop_.run();
  guest_.answer("Connection refused");
  EXPECT_EQ(seen, std::string(100, 'x'));
}

}  // namespace
}  // namespace virtset::test
