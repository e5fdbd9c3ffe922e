#include "daemon/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/manual_scheduler.h"

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using store::Key;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

class WorkQueueTest : public testing::Test {
 protected:
  WorkQueueTest() { open({}); }

  void open(WorkQueue::BackOff back_off) {
    queue_ = std::make_unique<WorkQueue>(
        loop_,
        [this](const Key& looked_at) {
          looks_.push_back(looked_at.name);
          if (during_look_) during_look_(looked_at);
        },
        back_off);
  }
  static Key key(const std::string& name) { return {"g", "K", "ns", name}; }

  ManualScheduler loop_;
  std::vector<std::string> looks_;
  std::function<void(const Key&)> during_look_;
  std::unique_ptr<WorkQueue> queue_;
};

TEST_F(WorkQueueTest, KeyThatIsAddedManyTimesIsLookedAtOnce) {
  for (int i = 0; i < 10; ++i) queue_->add(key("a"));
  EXPECT_EQ(queue_->size(), 1u);
  loop_.run();
  EXPECT_THAT(looks_, ElementsAre("a"));
  EXPECT_EQ(queue_->size(), 0u);
}

TEST_F(WorkQueueTest, KeysAreLookedAtInTheOrderOfTheirFirstAddition) {
  for (const char* name : {"c", "a", "b", "a", "c"}) queue_->add(key(name));
  loop_.run();
  EXPECT_THAT(looks_, ElementsAre("c", "a", "b"));
}

TEST_F(WorkQueueTest, KeysThatDifferInOnePartAreDifferentKeys) {
  queue_->add({"g", "K", "ns", "a"});
  queue_->add({"g", "K", "other", "a"});
  queue_->add({"g", "Q", "ns", "a"});
  queue_->add({"h", "K", "ns", "a"});
  loop_.run();
  EXPECT_THAT(looks_, SizeIs(4));
}

TEST_F(WorkQueueTest, NothingIsLookedAtFromWithinAdd) {
  queue_->add(key("a"));
  EXPECT_THAT(looks_, IsEmpty());
}

// What happens during a look may have been missed by it.
TEST_F(WorkQueueTest, KeyThatIsAddedDuringItsLookIsLookedAtAgain) {
  during_look_ = [this](const Key& looked_at) {
    if (looks_.size() == 1) queue_->add(looked_at);
  };
  queue_->add(key("a"));
  loop_.run();
  EXPECT_THAT(looks_, ElementsAre("a", "a"));
}

TEST_F(WorkQueueTest, OthersHaveTheirTurnBetweenManyKeys) {
  for (int i = 0; i < 1'000; ++i) queue_->add(key(std::to_string(i)));
  std::size_t looks_before_the_other = 0;
  loop_.post([&] { looks_before_the_other = looks_.size(); });
  loop_.run();
  EXPECT_THAT(looks_before_the_other, AllOf(Ge(1u), Le(100u)));
  EXPECT_THAT(looks_, SizeIs(1'000));
}

TEST_F(WorkQueueTest, DelayedKeyComesWhenItsTimeHasCome) {
  queue_->add_after(key("a"), milliseconds(100));
  loop_.advance(milliseconds(99));
  EXPECT_THAT(looks_, IsEmpty());
  loop_.advance(milliseconds(1));
  EXPECT_THAT(looks_, ElementsAre("a"));
  loop_.advance(milliseconds(1'000));
  EXPECT_THAT(looks_, ElementsAre("a"));
}

TEST_F(WorkQueueTest, EarliestOfSeveralDelaysCountsWhicheverCameFirst) {
  queue_->add_after(key("a"), milliseconds(300));
  queue_->add_after(key("a"), milliseconds(100));
  queue_->add_after(key("b"), milliseconds(100));
  queue_->add_after(key("b"), milliseconds(300));
  loop_.advance(milliseconds(100));
  EXPECT_THAT(looks_, ElementsAre("a", "b"));
  loop_.advance(milliseconds(1'000));
  EXPECT_THAT(looks_, SizeIs(2));
}

TEST_F(WorkQueueTest, DelayedKeysComeInTheOrderOfTheirTimes) {
  queue_->add_after(key("third"), milliseconds(30));
  queue_->add_after(key("first"), milliseconds(10));
  queue_->add_after(key("second"), milliseconds(20));
  loop_.advance(milliseconds(30));
  EXPECT_THAT(looks_, ElementsAre("first", "second", "third"));
}

TEST_F(WorkQueueTest, LookBeforeTheDelayDoesNotTakeItBack) {
  queue_->add_after(key("a"), milliseconds(100));
  queue_->add(key("a"));
  loop_.run();
  EXPECT_THAT(looks_, ElementsAre("a"));
  loop_.advance(milliseconds(100));
  EXPECT_THAT(looks_, ElementsAre("a", "a"));
}

TEST_F(WorkQueueTest, DelayOfNothingOrLessMeansSoon) {
  queue_->add_after(key("a"), milliseconds(0));
  queue_->add_after(key("b"), milliseconds(-5));
  loop_.run();
  EXPECT_THAT(looks_, ElementsAre("a", "b"));
}

TEST_F(WorkQueueTest, DelayedKeyThatDelaysItselfAgainIsAskedForEver) {
  during_look_ = [this](const Key& looked_at) { queue_->add_after(looked_at, milliseconds(10)); };
  queue_->add_after(key("a"), milliseconds(10));
  loop_.advance(milliseconds(50));
  EXPECT_THAT(looks_, SizeIs(5));
}

TEST_F(WorkQueueTest, ManyDelayedKeysNeedOneTimer) {
  for (int i = 1; i <= 100; ++i) queue_->add_after(key(std::to_string(i)), milliseconds(i));
  EXPECT_EQ(loop_.timers(), 1u);
  loop_.advance(milliseconds(100));
  EXPECT_THAT(looks_, SizeIs(100));
  EXPECT_EQ(loop_.timers(), 0u);
}

TEST_F(WorkQueueTest, RetriesComeEverMoreSlowlyUpToALimit) {
  open({.first = milliseconds(100), .longest = milliseconds(1'000)});
  for (const int base : {100, 200, 400, 800, 1'000, 1'000}) {
    EXPECT_THAT(queue_->retry(key("a")).count(), AllOf(Ge(base), Le(base * 5 / 4)));
  }
  for (int i = 0; i < 2'000; ++i) queue_->retry(key("a"));
  EXPECT_THAT(queue_->retry(key("a")).count(), AllOf(Ge(1'000), Le(1'250)));
}

TEST_F(WorkQueueTest, RetriedKeyComesAfterTheDelayThatWasTold) {
  const auto delay = queue_->retry(key("a"));
  loop_.advance(delay - milliseconds(1));
  EXPECT_THAT(looks_, IsEmpty());
  loop_.advance(milliseconds(1));
  EXPECT_THAT(looks_, ElementsAre("a"));
}

TEST_F(WorkQueueTest, ForgottenKeyStartsSmallAgainAndOthersDoNot) {
  open({.first = milliseconds(100), .longest = milliseconds(10'000)});
  const auto first = queue_->retry(key("a"));
  for (int i = 0; i < 3; ++i) {
    queue_->retry(key("a"));
    queue_->retry(key("b"));
  }
  queue_->forget(key("a"));
  EXPECT_EQ(queue_->retry(key("a")), first);
  EXPECT_GE(queue_->retry(key("b")), milliseconds(800));
}

TEST_F(WorkQueueTest, KeysThatFailedTogetherAreNotAllTriedAgainTogether) {
  open({.first = milliseconds(1'000), .longest = milliseconds(1'000)});
  std::set<milliseconds> delays;
  for (int i = 0; i < 50; ++i) delays.insert(queue_->retry(key("vm" + std::to_string(i))));
  EXPECT_GE(delays.size(), 10u);
}

TEST_F(WorkQueueTest, NothingIsLookedAtOnceTheQueueIsGone) {
  queue_->add(key("a"));
  queue_->add_after(key("b"), milliseconds(10));
  queue_->retry(key("c"));
  queue_.reset();
  EXPECT_EQ(loop_.timers(), 0u);
  loop_.advance(milliseconds(60'000));
  EXPECT_THAT(looks_, IsEmpty());
}

}  // namespace
}  // namespace virtset::test
