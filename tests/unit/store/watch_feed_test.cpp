#include "store/watch_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using store::Change;
using store::WatchFeed;

Change change(store::Revision revision, std::size_t size = 10) {
  const auto recent = std::make_shared<store::RecentDocuments>(1);
  return {Change::Type::added,
          std::make_shared<const store::Object>(store::Key{"", "K", "", "x"}, "u", revision,
                                                std::string(size, 'x'), recent),
          nullptr};
}

TEST(WatchFeed, GivesEveryChangeOnceInOrder) {
  WatchFeed feed;
  feed.append({change(1), change(2)});
  feed.append({change(5)});
  std::vector<store::Revision> seen;
  store::Revision position = 0;
  while (const Change* next = feed.next_after(position)) {
    seen.push_back(position = next->revision());
  }
  EXPECT_THAT(seen, testing::ElementsAre(1, 2, 5));
  EXPECT_EQ(feed.next_after(2)->revision(), 5);
  EXPECT_EQ(feed.next_after(3)->revision(), 5);
}

TEST(WatchFeed, IsBoundedByNumberAndSaysWhatItForgot) {
  WatchFeed feed({.changes = 3, .bytes = 1 << 20});
  for (int i = 1; i <= 5; ++i) feed.append({change(i)});
  EXPECT_TRUE(feed.holds(2));
  EXPECT_FALSE(feed.holds(1));
  EXPECT_EQ(feed.next_after(2)->revision(), 3);
}

TEST(WatchFeed, IsBoundedByBytes) {
  WatchFeed feed({.changes = 1'000, .bytes = 100});
  for (int i = 1; i <= 20; ++i) feed.append({change(i, 30)});
  EXPECT_TRUE(feed.holds(17));
  EXPECT_FALSE(feed.holds(16));
}

TEST(WatchFeed, KeepsTheNewestHoweverLarge) {
  WatchFeed feed({.changes = 1'000, .bytes = 100});
  feed.append({change(1), change(2, 5'000)});
  EXPECT_TRUE(feed.holds(1));
  EXPECT_EQ(feed.next_after(1)->revision(), 2);
}

TEST(WatchFeed, SubscriptionMayEndFromWithinAListener) {
  WatchFeed feed;
  int first = 0, second = 0;
  WatchFeed::Subscription own, other;
  own = feed.subscribe([&](const Change&) {
    ++first;
    own = {};
    other = {};
  });
  other = feed.subscribe([&](const Change&) { ++second; });
  feed.append({change(1)});
  feed.append({change(2)});
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
}

TEST(WatchFeed, SubscriptionMayBeginFromWithinAListener) {
  WatchFeed feed;
  int count = 0;
  WatchFeed::Subscription inner;
  const auto outer = feed.subscribe([&](const Change& seen) {
    if (seen.revision() == 1) inner = feed.subscribe([&](const Change&) { ++count; });
  });
  feed.append({change(1)});
  feed.append({change(2)});
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace virtset::test
