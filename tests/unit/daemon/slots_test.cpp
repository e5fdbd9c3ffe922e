#include "daemon/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace virtset::test {
namespace {

using store::Key;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::uint64_t mib = 1 << 20;

class SlotsTest : public testing::Test {
 protected:
  SlotsTest() { open(0); }

  void open(std::uint64_t memory) {
    slots_ =
        std::make_unique<Slots>(memory, [this](const Key& woken) { woken_.push_back(woken.name); });
  }
  static Key key(const std::string& name) { return {"g", "K", "ns", name}; }
  static Slots::Request request(const std::string& name, const std::string& set,
                                std::optional<std::int64_t> limit, std::uint64_t memory = mib) {
    return {key(name), set, limit, memory};
  }
  // Whether it has a slot now.
  bool take(const std::string& name, const std::string& set, std::optional<std::int64_t> limit,
            std::uint64_t memory = mib) {
    return !slots_->take(request(name, set, limit, memory));
  }
  bool holds(const std::string& name) const { return slots_->holds(key(name)); }
  void release(const std::string& name) { slots_->release(key(name)); }
  void forget(const std::string& name) { slots_->forget(key(name)); }
  std::vector<std::string> woken() { return std::exchange(woken_, {}); }

  std::vector<std::string> woken_;
  std::unique_ptr<Slots> slots_;
};

TEST_F(SlotsTest, SetNeverHasMoreHoldersThanItsLimit) {
  EXPECT_TRUE(take("a", "set", 2));
  EXPECT_TRUE(take("b", "set", 2));
  const auto refusal = slots_->take(request("c", "set", 2));
  ASSERT_TRUE(refusal);
  EXPECT_TRUE(refusal->set_is_full);
  EXPECT_THAT(refusal->message, HasSubstr("2 of 2"));
  EXPECT_FALSE(holds("c"));
  EXPECT_EQ(slots_->holders_of("set"), 2u);
}

TEST_F(SlotsTest, LimitOfNothingLetsNobodyIn) { EXPECT_FALSE(take("a", "set", 0)); }

TEST_F(SlotsTest, SetsAndThoseWithoutOneDoNotCountForEachOther) {
  EXPECT_TRUE(take("a", "one", 1));
  EXPECT_TRUE(take("b", "two", 1));
  for (const char* name : {"c", "d", "e"}) EXPECT_TRUE(take(name, "", std::nullopt));
}

TEST_F(SlotsTest, OneThatHasASlotKeepsItHoweverOftenItAsks) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(take("a", "set", 1));
  EXPECT_EQ(slots_->holders_of("set"), 1u);
  EXPECT_EQ(slots_->memory_in_use(), mib);
}

TEST_F(SlotsTest, ReleaseWakesTheOneThatHasWaitedLongestForTheSet) {
  take("a", "set", 1);
  take("c", "set", 1);
  take("b", "set", 1);
  take("c", "set", 1);  // asks again, which costs it nothing
  take("other", "another", 0);
  release("a");
  EXPECT_THAT(woken(), ElementsAre("c"));
  EXPECT_TRUE(take("c", "set", 1));
  EXPECT_THAT(woken(), IsEmpty());
  release("c");
  EXPECT_THAT(woken(), ElementsAre("b"));
}

TEST_F(SlotsTest, ReleaseOfWhatHasNoSlotIsNothing) {
  take("a", "set", 1);
  take("b", "set", 1);
  release("b");
  release("stranger");
  EXPECT_THAT(woken(), IsEmpty());
  release("a");
  release("a");
  EXPECT_THAT(woken(), ElementsAre("b"));
  release("b");
  EXPECT_EQ(slots_->holders_of("set"), 0u);
  EXPECT_EQ(slots_->memory_in_use(), 0u);
}

TEST_F(SlotsTest, NobodyIsFasterThanTheOneThatWasWoken) {
  take("a", "set", 1);
  take("b", "set", 1);
  release("a");
  EXPECT_THAT(woken(), ElementsAre("b"));
  EXPECT_FALSE(take("fast", "set", 1));
  EXPECT_TRUE(take("b", "set", 1));
  forget("b");
  EXPECT_TRUE(holds("b"));
}

TEST_F(SlotsTest, WokenForMemoryAndStoppedByItsSetLeavesTheMemoryToTheNext) {
  open(mib);
  take("big", "", std::nullopt);
  take("a", "set", 1);
  take("b", "", std::nullopt);
  release("big");
  EXPECT_THAT(woken(), ElementsAre("a"));
  EXPECT_FALSE(take("a", "set", 0));  // the set was scaled to 0 meanwhile
  EXPECT_THAT(woken(), ElementsAre("b"));
}

TEST_F(SlotsTest, PlaceInASetIsNotKeptForOneThatLacksTheMemory) {
  open(mib);
  take("h", "set", 1);
  EXPECT_FALSE(take("a", "set", 1, 2 * mib));
  EXPECT_FALSE(take("b", "set", 1));
  release("h");
  EXPECT_THAT(woken(), ElementsAre("b"));
}

TEST_F(SlotsTest, WokenOneThatHasLeftItsSetLeavesThePlaceToTheNext) {
  take("h", "set", 1);
  take("a", "set", 1);
  take("b", "set", 1);
  release("h");
  EXPECT_THAT(woken(), ElementsAre("a"));
  EXPECT_TRUE(take("a", "", std::nullopt));
  EXPECT_EQ(slots_->holders_of("set"), 1u);
  EXPECT_THAT(woken(), ElementsAre("b"));
}

TEST_F(SlotsTest, WokenOneThatNeverComesLeavesItsChanceToTheNext) {
  take("a", "set", 1);
  take("b", "set", 1);
  take("c", "set", 1);
  release("a");
  EXPECT_THAT(woken(), ElementsAre("b"));
  forget("b");
  EXPECT_THAT(woken(), ElementsAre("c"));
  EXPECT_TRUE(take("c", "set", 1));
}

TEST_F(SlotsTest, WokenForMemoryAndNeverComingLeavesItsChanceToTheNext) {
  open(mib);
  take("a", "", std::nullopt);
  take("b", "", std::nullopt);
  take("c", "", std::nullopt);
  release("a");
  EXPECT_THAT(woken(), ElementsAre("b"));
  forget("b");
  EXPECT_THAT(woken(), ElementsAre("c"));
}

TEST_F(SlotsTest, ForgottenWhileItWaitsIsNotWoken) {
  take("a", "set", 1);
  take("b", "set", 1);
  take("c", "set", 1);
  forget("b");
  EXPECT_THAT(woken(), IsEmpty());
  release("a");
  EXPECT_THAT(woken(), ElementsAre("c"));
}

TEST_F(SlotsTest, ForgettingKeepsASlotThatIsHeld) {
  take("a", "set", 1);
  forget("a");
  EXPECT_TRUE(holds("a"));
  EXPECT_FALSE(take("b", "set", 1));
}

TEST_F(SlotsTest, HostNeverGivesMoreMemoryThanItHas) {
  open(4 * mib);
  EXPECT_TRUE(take("a", "", std::nullopt, 3 * mib));
  const auto refusal = slots_->take(request("b", "", std::nullopt, 2 * mib));
  ASSERT_TRUE(refusal);
  EXPECT_FALSE(refusal->set_is_full);
  EXPECT_THAT(refusal->message, HasSubstr("Insufficient memory. It asks for 2 MiB, 1 MiB of 4"));
  EXPECT_TRUE(take("c", "", std::nullopt, 1 * mib));
  EXPECT_EQ(slots_->memory_in_use(), 4 * mib);
  release("a");
  EXPECT_THAT(woken(), ElementsAre("b"));
  EXPECT_TRUE(take("b", "", std::nullopt, 2 * mib));
}

TEST_F(SlotsTest, HostWithoutALimitGivesAsMuchAsAnybodyAsksFor) {
  EXPECT_TRUE(take("a", "", std::nullopt, std::uint64_t{1} << 60));
  EXPECT_TRUE(take("b", "", std::nullopt, std::uint64_t{1} << 60));
}

TEST_F(SlotsTest, LargeOneThatEndsMakesRoomForSeveralSmallOnes) {
  open(3 * mib);
  take("large", "", std::nullopt, 3 * mib);
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_FALSE(take(name, "", std::nullopt));
  release("large");
  EXPECT_THAT(woken(), ElementsAre("a", "b", "c"));
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(take(name, "", std::nullopt));
  EXPECT_FALSE(take("d", "", std::nullopt));
}

TEST_F(SlotsTest, SmallerOnesAreLetInBehindOneThatDoesNotFit) {
  open(4 * mib);
  take("x", "", std::nullopt, 2 * mib);
  take("y", "", std::nullopt, 2 * mib);
  take("large", "", std::nullopt, 4 * mib);
  take("small", "", std::nullopt);
  take("larger", "", std::nullopt, 3 * mib);
  release("x");
  EXPECT_THAT(woken(), ElementsAre("small"));
  EXPECT_TRUE(take("newcomer", "", std::nullopt));
  release("y");
  EXPECT_THAT(woken(), IsEmpty());
  release("newcomer");
  EXPECT_THAT(woken(), ElementsAre("larger"));
}

// One ends and the next begins, so that never more than one part is free.
TEST_F(SlotsTest, LargeOneIsNotOvertakenForEver) {
  open(4 * mib);
  std::deque<std::string> running, waiting;
  int next = 0;
  const auto ask = [&] {
    const std::string name = "small" + std::to_string(next++);
    (take(name, "", std::nullopt) ? running : waiting).push_back(name);
  };
  for (int i = 0; i < 4; ++i) ask();
  EXPECT_FALSE(take("large", "", std::nullopt, 3 * mib));
  while (!holds("large") && next < 1'000) {
    ask();
    release(running.front());
    running.pop_front();
    for (const std::string& name : woken()) {
      if (name == "large") continue;
      EXPECT_EQ(name, waiting.front());
      waiting.pop_front();
      running.push_back(name);
    }
  }
  EXPECT_TRUE(holds("large"));
  EXPECT_GT(next, 50);
  release("large");
  EXPECT_THAT(woken(), SizeIs(3));
}

// Others were here before it and stay: to keep the small ones waiting would not help it.
TEST_F(SlotsTest, SmallOnesDoNotWaitForOneThatWouldNotFitWithoutThemEither) {
  open(4 * mib);
  take("old", "", std::nullopt, 2 * mib);
  EXPECT_FALSE(take("large", "", std::nullopt, 3 * mib));
  EXPECT_FALSE(take("never", "", std::nullopt, 5 * mib));
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_TRUE(take("small", "", std::nullopt)) << i;
    release("small");
  }
}

// What was kept for it is for others again.
TEST_F(SlotsTest, LargeOneThatGivesUpLeavesWhatWasKeptForIt) {
  open(4 * mib);
  for (const char* name : {"old", "x", "y", "z"}) take(name, "", std::nullopt);
  EXPECT_FALSE(take("large", "", std::nullopt, 3 * mib));
  for (const char* name : {"x", "y", "z"}) {
    release(name);
    EXPECT_TRUE(take(std::string("new ") + name, "", std::nullopt));
  }
  int times = 0;
  do {
    ASSERT_LT(++times, 1'000);
    release("new x");
  } while (take("new x", "", std::nullopt));
  EXPECT_THAT(woken(), IsEmpty());
  forget("large");
  EXPECT_THAT(woken(), ElementsAre("new x"));
}

TEST_F(SlotsTest, WhatWasFoundAtStartCountsEvenBeyondTheLimits) {
  open(2 * mib);
  for (const char* name : {"a", "b", "c"}) slots_->restore(request(name, "set", std::nullopt));
  slots_->restore(request("a", "set", std::nullopt));
  EXPECT_EQ(slots_->holders_of("set"), 3u);
  EXPECT_EQ(slots_->memory_in_use(), 3 * mib);
  EXPECT_FALSE(take("d", "set", 3));
  EXPECT_THAT(slots_->take(request("e", "", std::nullopt))->message, HasSubstr("0 MiB of 2 MiB"));
}

TEST_F(SlotsTest, SetThatShrankTakesBackSlotsWithoutADomain) {
  take("a", "set", 2);
  take("b", "set", 2);
  EXPECT_FALSE(take("a", "set", 1));
  EXPECT_FALSE(holds("a"));
  EXPECT_TRUE(take("b", "set", 1));
  EXPECT_EQ(slots_->memory_in_use(), mib);
}

TEST_F(SlotsTest, AnotherLimitWakesAllThatWaitForTheSetAndNobodyElse) {
  for (const char* name : {"a", "b", "c"}) take(name, "set", 0);
  take("d", "another", 0);
  slots_->limit_changed("set");
  EXPECT_THAT(woken(), UnorderedElementsAre("a", "b", "c"));
  slots_->limit_changed("unheard of");
  EXPECT_THAT(woken(), IsEmpty());
}

TEST_F(SlotsTest, AnotherLimitDoesNotWakeThoseThatWaitForMemory) {
  open(mib);
  take("a", "set", 2);
  EXPECT_FALSE(take("b", "set", 2));
  slots_->limit_changed("set");
  EXPECT_THAT(woken(), IsEmpty());
}

TEST_F(SlotsTest, ReleasedFromItsSetItTakesItsSlotAlong) {
  take("a", "set", 1);
  take("b", "set", 1);
  slots_->owner_changed(key("a"), "");
  EXPECT_EQ(slots_->holders_of(""), 1u);
  EXPECT_EQ(slots_->holders_of("set"), 1u);
  EXPECT_THAT(woken(), ElementsAre("b"));
  EXPECT_TRUE(take("b", "set", 1));
  release("a");
  EXPECT_EQ(slots_->memory_in_use(), mib);
  EXPECT_EQ(slots_->holders_of("set"), 1u);
}

TEST_F(SlotsTest, AdoptedOneCountsForItsNewSet) {
  take("a", "", std::nullopt);
  slots_->owner_changed(key("a"), "set");
  EXPECT_FALSE(take("b", "set", 1));
  slots_->owner_changed(key("stranger"), "set");
  EXPECT_EQ(slots_->holders_of("set"), 1u);
}

// Instances of one size and of sets that keep their size come, go, and vanish in any order.
TEST_F(SlotsTest, LimitsHoldAndNobodyWaitsForEverInAnyOrder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    open(0);
    woken_.clear();
    constexpr int limit = 3;
    std::set<std::string> waiting;
    const auto ask = [&](const std::string& name) {
      if (take(name, "set", limit)) {
        waiting.erase(name);
      } else {
        waiting.insert(name);
      }
    };
    for (int step = 0; step < 200; ++step) {
      const std::string name = std::to_string(random() % 12);
      switch (random() % 4) {
        case 0:
        case 1:
          ask(name);
          break;
        case 2:
          release(name);
          break;
        default:
          if (holds(name)) break;
          forget(name);
          waiting.erase(name);
      }
      ASSERT_LE(slots_->holders_of("set"), 3u) << "seed " << seed;
      if (random() % 2) continue;
      for (const std::string& next : woken()) {
        if (waiting.contains(next)) ask(next);
      }
    }
    // All that run end; those that are woken come.
    for (int i = 0; i < 100; ++i) {
      for (const std::string& next : woken()) {
        if (waiting.contains(next)) ask(next);
      }
      for (int name = 0; name < 12; ++name) release(std::to_string(name));
    }
    EXPECT_THAT(waiting, IsEmpty()) << "seed " << seed;
  }
}

// Of all sizes, in sets and without, they come, go, vanish and change their set in any order.
TEST_F(SlotsTest, MemoryHoldsAndNobodyWaitsForEverInAnyOrder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    open(4 * mib);
    woken_.clear();
    std::map<std::string, std::string> set_of;
    std::set<std::string> waiting;
    const auto ask = [&](const std::string& name) {
      const std::string& set = set_of[name];
      const auto limit = set.empty() ? std::nullopt : std::optional<std::int64_t>(2);
      const bool has_slot = take(name, set, limit, (1 + std::stoul(name) % 4) * mib);
      if (has_slot) {
        waiting.erase(name);
      } else {
        waiting.insert(name);
      }
    };
    for (int step = 0; step < 400; ++step) {
      const std::string name = std::to_string(random() % 12);
      switch (random() % 5) {
        case 0:
        case 1:
          ask(name);
          break;
        case 2:
          release(name);
          break;
        case 3:
          set_of[name] = random() % 2 ? "set" : "";
          slots_->owner_changed(key(name), set_of[name]);
          if (waiting.contains(name)) ask(name);
          break;
        default:
          if (holds(name) && !waiting.contains(name)) break;
          forget(name);
          waiting.erase(name);
      }
      ASSERT_LE(slots_->memory_in_use(), 4 * mib) << "seed " << seed;
      if (random() % 2) continue;
      for (const std::string& next : woken()) {
        if (waiting.contains(next)) ask(next);
      }
    }
    for (int i = 0; i < 100; ++i) {
      for (const std::string& next : woken()) {
        if (waiting.contains(next)) ask(next);
      }
      for (int name = 0; name < 12; ++name) release(std::to_string(name));
    }
    EXPECT_THAT(waiting, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(slots_->memory_in_use(), 0u);
  }
}

}  // namespace
}  // namespace virtset::test
