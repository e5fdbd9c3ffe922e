#include "daemon/claim_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Use = ClaimUsers::Use;

store::Key key(const std::string& name) { return {"", "x", "default", name}; }

TEST(ClaimUsers, WriterIsAlone) {
  ClaimUsers users;
  EXPECT_FALSE(users.take(key("vm"), {{key("data"), Use::write}}));
  for (const Use use : {Use::read, Use::write, Use::share}) {
    const auto refusal = users.take(key("other"), {{key("data"), use}});
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->holder, key("vm"));
    EXPECT_EQ(refusal->claim, key("data"));
  }
  EXPECT_FALSE(users.take(key("vm"), {{key("data"), Use::write}})) << "it has it already";
}

TEST(ClaimUsers, AlikeGoTogether) {
  for (const Use use : {Use::read, Use::share}) {
    ClaimUsers users;
    EXPECT_FALSE(users.take(key("one"), {{key("data"), use}}));
    EXPECT_FALSE(users.take(key("two"), {{key("data"), use}}));
    EXPECT_TRUE(
        users.take(key("three"), {{key("data"), use == Use::read ? Use::share : Use::read}}));
  }
}

TEST(ClaimUsers, TakesAllOrNothing) {
  ClaimUsers users;
  users.take(key("one"), {{key("a"), Use::write}});
  EXPECT_TRUE(users.take(key("two"), {{key("b"), Use::write}, {key("a"), Use::write}}));
  EXPECT_FALSE(users.user_of(key("b"))) << "two instances could wait for each other for ever";
}

TEST(ClaimUsers, TellsWhenOneIsFreed) {
  ClaimUsers users;
  std::vector<std::string> freed;
  users.on_freed([&](const store::Key& claim) { freed.push_back(claim.name); });
  users.take(key("vm"), {{key("a"), Use::write}, {key("a"), Use::write}, {key("b"), Use::read}});
  users.release(key("nobody"));
  EXPECT_THAT(freed, ElementsAre());
  users.take(key("vm"), {{key("b"), Use::read}});
  EXPECT_FALSE(users.user_of(key("a")));
  users.release(key("vm"));
  EXPECT_EQ(users.size(), 0u);
  EXPECT_FALSE(users.user_of(key("b")));
}

TEST(ClaimUsers, RestoresWhatWasThereWithoutAsking) {
  ClaimUsers users;
  users.restore(key("one"), {{key("data"), Use::write}});
  users.restore(key("two"), {{key("data"), Use::write}});
  users.release(key("one"));
  EXPECT_EQ(users.user_of(key("data")), key("two"));
}

}  // namespace
}  // namespace virtset
