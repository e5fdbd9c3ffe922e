#include "daemon/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using store::Key;
using testing::ElementsAre;
using testing::IsEmpty;

class TurnsTest : public testing::Test {
 protected:
  static Key key(const std::string& name) { return {"g", "K", "ns", name}; }
  bool take(const std::string& name) { return turns_.take(key(name)); }
  void give_back(const std::string& name) { turns_.give_back(key(name)); }
  void forget(const std::string& name) { turns_.forget(key(name)); }

  std::vector<std::string> woken_;
  Turns turns_{2, [this](const Key& woken) { woken_.push_back(woken.name); }};
};

TEST_F(TurnsTest, NoMoreThanTheLimitHaveATurn) {
  EXPECT_TRUE(take("a"));
  EXPECT_TRUE(take("b"));
  EXPECT_FALSE(take("c"));
  EXPECT_EQ(turns_.taken(), 2u);
  EXPECT_EQ(turns_.waiting(), 1u);
  EXPECT_THAT(woken_, IsEmpty());
}

TEST_F(TurnsTest, OneThatHasATurnKeepsItHoweverOftenItAsks) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(take("a"));
  EXPECT_EQ(turns_.taken(), 1u);
  EXPECT_TRUE(take("b"));
}

TEST_F(TurnsTest, FirstComeFirstServed) {
  take("a");
  take("b");
  for (const char* name : {"z", "c", "m"}) EXPECT_FALSE(take(name));
  give_back("a");
  EXPECT_THAT(woken_, ElementsAre("z"));
  give_back("z");
  give_back("b");
  EXPECT_THAT(woken_, ElementsAre("z", "c", "m"));
}

TEST_F(TurnsTest, AskingAgainNeitherLosesNorDoublesThePlace) {
  take("a");
  take("b");
  take("c");
  take("d");
  EXPECT_FALSE(take("c"));
  EXPECT_EQ(turns_.waiting(), 2u);
  give_back("a");
  give_back("b");
  EXPECT_THAT(woken_, ElementsAre("c", "d"));
  give_back("c");
  EXPECT_THAT(woken_, ElementsAre("c", "d"));
}

TEST_F(TurnsTest, OneThatIsWokenHasItsTurnBeforeItAsks) {
  take("a");
  take("b");
  take("c");
  give_back("a");
  EXPECT_EQ(turns_.taken(), 2u);
  EXPECT_FALSE(take("newcomer"));
  EXPECT_TRUE(take("c"));
}

TEST_F(TurnsTest, GivingBackWhatOneDoesNotHaveIsNothing) {
  take("a");
  take("b");
  take("c");
  give_back("stranger");
  give_back("c");
  EXPECT_THAT(woken_, IsEmpty());
  EXPECT_EQ(turns_.waiting(), 1u);
  give_back("a");
  give_back("a");
  EXPECT_THAT(woken_, ElementsAre("c"));
  EXPECT_EQ(turns_.taken(), 2u);
}

TEST_F(TurnsTest, ForgottenWhileItWaitsIsPassedOver) {
  take("a");
  take("b");
  take("c");
  take("d");
  forget("c");
  EXPECT_THAT(woken_, IsEmpty());
  give_back("a");
  EXPECT_THAT(woken_, ElementsAre("d"));
  EXPECT_EQ(turns_.waiting(), 0u);
}

TEST_F(TurnsTest, ForgottenWhileItHasATurnMakesRoomForTheNext) {
  take("a");
  take("b");
  take("c");
  forget("a");
  EXPECT_THAT(woken_, ElementsAre("c"));
  EXPECT_FALSE(take("a"));
}

// Woken is not yet come: who is gone by then must not keep the turn.
TEST_F(TurnsTest, ForgottenAfterItWasWokenMakesRoomForTheNext) {
  take("a");
  take("b");
  take("c");
  take("d");
  give_back("a");
  forget("c");
  EXPECT_THAT(woken_, ElementsAre("c", "d"));
}

TEST_F(TurnsTest, NothingIsLeftWhenAllAreGone) {
  for (int i = 0; i < 100; ++i) take(std::to_string(i));
  for (int i = 0; i < 100; i += 2) forget(std::to_string(i));
  for (int i = 1; i < 100; i += 2) {
    EXPECT_TRUE(take(std::to_string(i))) << i;
    give_back(std::to_string(i));
  }
  EXPECT_EQ(turns_.taken(), 0u);
  EXPECT_EQ(turns_.waiting(), 0u);
}

TEST_F(TurnsTest, WokenOneMayGiveBackAtOnce) {
  std::vector<std::string> woken;
  Turns* turns = nullptr;
  Turns nested(1, [&](const Key& next) {
    woken.push_back(next.name);
    turns->give_back(next);
  });
  turns = &nested;
  for (const char* name : {"a", "b", "c", "d"}) nested.take(key(name));
  nested.give_back(key("a"));
  EXPECT_THAT(woken, ElementsAre("b", "c", "d"));
  EXPECT_EQ(nested.taken(), 0u);
}

TEST_F(TurnsTest, OneThatComesBackAfterItWasForgottenQueuesAtTheEnd) {
  take("x");
  take("y");
  take("a");
  take("b");
  forget("a");
  take("a");
  give_back("x");
  give_back("y");
  EXPECT_THAT(woken_, ElementsAre("b", "a"));
}

}  // namespace
}  // namespace virtset::test
