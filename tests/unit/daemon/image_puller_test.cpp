#include "daemon/image_puller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_images.h"
#include "tests/fakes/manual_jobs.h"
#include "tests/fakes/manual_scheduler.h"

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Key;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Fails as the test says.
class PickyImages final : public FakeImages {
 public:
  images::ContainerDisk obtain(const std::string& reference, images::PullPolicy policy,
                               const std::string& path) override {
    if (error) std::rethrow_exception(error);
    return FakeImages::obtain(reference, policy, path);
  }

  template <typename Error>
  void fail(const Error& with) {
    error = std::make_exception_ptr(with);
  }
  std::exception_ptr error;
};

class ImagePullerTest : public testing::Test {
 protected:
  static Key key(const std::string& name) { return {"g", "K", "ns", name}; }
  ImagePuller::Answer need(const std::string& name) { return puller_.need(key(name), wanted_); }
  void settle() {
    do {
      loop_.run();
    } while (jobs_.run_all() > 0);
  }
  void advance(milliseconds duration) {
    loop_.advance(duration);
    settle();
  }
  std::vector<std::string> woken() { return std::exchange(woken_, {}); }
  // Fails so many times for `name`, which asks again each time that it is woken.
  ImagePuller::Failure fail(const std::string& name, int times) {
    for (int i = 0;; ++i) {
      const auto answer = need(name);
      settle();
      if (i == times - 1) break;
      advance(std::chrono::ceil<milliseconds>(need(name).failure->retry_at - loop_.now()) -
              milliseconds(1));
      loop_.advance(milliseconds(1));
    }
    woken_.clear();
    return need(name).failure.value();
  }

  ManualScheduler loop_;
  ManualJobs jobs_{loop_};
  PickyImages images_;
  std::vector<std::string> woken_;
  ImagePuller puller_{images_,
                      jobs_,
                      loop_,
                      [this](const Key& instance) { woken_.push_back(instance.name); },
                      {.first_back_off = seconds(10), .longest_back_off = seconds(60)}};
  ImagePuller::Wanted wanted_{"registry/image:1", images::PullPolicy::if_not_present, ""};
};

TEST_F(ImagePullerTest, WakesTheInstanceWhenTheImageIsThere) {
  const auto first = need("a");
  EXPECT_FALSE(first.disk);
  EXPECT_FALSE(first.failure);
  EXPECT_FALSE(first.takes_long);
  settle();
  EXPECT_THAT(woken(), ElementsAre("a"));
  const auto answer = need("a");
  ASSERT_TRUE(answer.disk);
  EXPECT_EQ(answer.disk->digest, "sha256:registry/image:1");
}

TEST_F(ImagePullerTest, OnePullForAllWhoWait) {
  for (const char* name : {"a", "b", "c", "a"}) need(name);
  EXPECT_EQ(jobs_.waiting(), 1u);
  settle();
  EXPECT_THAT(woken(), UnorderedElementsAre("a", "b", "c"));
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(need(name).disk) << name;
  EXPECT_EQ(images_.pulls["registry/image:1"], 1);
  EXPECT_EQ(jobs_.waiting(), 0u);
}

TEST_F(ImagePullerTest, OtherImagesPoliciesAndPathsAreOtherPulls) {
  puller_.need(key("a"), wanted_);
  puller_.need(key("a"), {"registry/image:2", wanted_.policy, ""});
  puller_.need(key("a"), {wanted_.image, images::PullPolicy::always, ""});
  puller_.need(key("a"), {wanted_.image, wanted_.policy, "/disk.img"});
  EXPECT_EQ(jobs_.waiting(), 4u);
}

// It may have changed in the registry, or been collected here.
TEST_F(ImagePullerTest, WhoComesLaterLooksAgain) {
  need("a");
  settle();
  need("a");
  EXPECT_FALSE(need("b").disk);
  settle();
  EXPECT_TRUE(need("b").disk);
  EXPECT_EQ(images_.pulls["registry/image:1"], 2);
}

TEST_F(ImagePullerTest, LongPullIsToldOnceItIsLong) {
  need("a");
  loop_.advance(milliseconds(100));
  EXPECT_FALSE(need("a").takes_long);
  loop_.advance(milliseconds(200));
  EXPECT_THAT(woken(), ElementsAre("a"));
  EXPECT_TRUE(need("a").takes_long);
  EXPECT_TRUE(need("b").takes_long);
  settle();
  EXPECT_TRUE(need("a").disk);
}

TEST_F(ImagePullerTest, FailuresAreToldAsKubeletTellsThem) {
  images_.fail(images::PullFailed("manifest unknown"));
  const auto first = fail("a", 1);
  EXPECT_EQ(first.reason, "ErrImagePull");
  EXPECT_EQ(first.failures, 1);
  EXPECT_THAT(first.message, HasSubstr("failed to pull image \"registry/image:1\": manifest"));
  EXPECT_EQ(first.retry_at, loop_.now() + seconds(10));
}

TEST_F(ImagePullerTest, LaterFailuresAreABackOff) {
  images_.fail(images::PullFailed("manifest unknown"));
  const auto second = fail("a", 2);
  EXPECT_EQ(second.reason, "ImagePullBackOff");
  EXPECT_EQ(second.failures, 2);
}

TEST_F(ImagePullerTest, OtherTroublesHaveReasonsOfTheirOwn) {
  images_.fail(images::NotPresent("not here"));
  EXPECT_EQ(fail("a", 2).reason, "ErrImageNeverPull");
  images_.fail(images::BadImage("no disk in it"));
  wanted_.image = "registry/bad:1";
  EXPECT_EQ(fail("a", 2).reason, "InvalidImage");
  EXPECT_THAT(fail("a", 1).message,
              HasSubstr("\"registry/bad:1\" is not a container disk: no disk"));
  images_.fail(images::DiskFailed("No space left on device", true));
  wanted_.image = "registry/large:1";
  EXPECT_EQ(fail("a", 1).reason, "ErrImagePull");
}

TEST_F(ImagePullerTest, NobodyPullsBeforeTheBackOffIsOver) {
  images_.fail(images::PullFailed("no"));
  fail("a", 1);
  advance(milliseconds(9'999));
  EXPECT_TRUE(need("b").failure);
  EXPECT_EQ(jobs_.waiting(), 0u);
  EXPECT_EQ(need("b").failure->failures, 1);
  loop_.advance(milliseconds(1));
  EXPECT_EQ(jobs_.waiting(), 1u);
}

TEST_F(ImagePullerTest, BackOffDoublesUpToItsLimit) {
  images_.fail(images::PullFailed("no"));
  for (const auto& [failures, delay] : {std::pair(1, 10), {2, 20}, {3, 40}, {4, 60}, {5, 60}}) {
    wanted_.image = "registry/image:" + std::to_string(failures);
    const auto retry_at = fail("a", failures).retry_at;
    EXPECT_EQ(retry_at - loop_.now(), seconds(delay)) << failures;
  }
}

TEST_F(ImagePullerTest, MendsItselfAndStartsAfresh) {
  images_.fail(images::PullFailed("no"));
  fail("a", 3);
  images_.error = nullptr;
  advance(seconds(40));
  EXPECT_THAT(woken(), testing::Contains("a"));
  EXPECT_TRUE(need("a").disk);
  images_.fail(images::PullFailed("no"));
  EXPECT_EQ(fail("a", 1).failures, 1);
}

TEST_F(ImagePullerTest, WhatWasMendedIsTriedWithoutWaiting) {
  images_.fail(images::PullFailed("no"));
  fail("a", 3);
  images_.error = nullptr;
  puller_.retry_now();
  settle();
  EXPECT_THAT(woken(), testing::Contains("a"));
  EXPECT_TRUE(need("a").disk);
}

TEST_F(ImagePullerTest, RetryThatFailsAgainGoesOnWithTheBackOff) {
  images_.fail(images::PullFailed("no"));
  fail("a", 2);
  puller_.retry_now();
  puller_.retry_now();
  EXPECT_EQ(jobs_.waiting(), 1u);
  settle();
  EXPECT_EQ(need("a").failure->failures, 3);
  EXPECT_EQ(need("a").failure->retry_at, loop_.now() + seconds(40));
}

TEST_F(ImagePullerTest, ForgottenOneIsNotWokenNorPulledForAgain) {
  images_.fail(images::PullFailed("no"));
  fail("a", 1);
  puller_.forget(key("a"));
  loop_.advance(seconds(60));
  EXPECT_EQ(jobs_.waiting(), 0u);
  EXPECT_THAT(woken(), IsEmpty());
}

TEST_F(ImagePullerTest, ForgottenDuringThePullIsNotWoken) {
  need("a");
  need("b");
  puller_.forget(key("a"));
  settle();
  EXPECT_THAT(woken(), ElementsAre("b"));
  EXPECT_TRUE(need("b").disk);
}

// Deleting and creating it again must not be a way around the back-off.
TEST_F(ImagePullerTest, BackOffOutlivesWhoWaited) {
  images_.fail(images::PullFailed("no"));
  fail("a", 1);
  puller_.forget(key("a"));
  const auto answer = need("b");
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->failures, 1);
  EXPECT_EQ(jobs_.waiting(), 0u);
  loop_.advance(seconds(10));
  EXPECT_EQ(jobs_.waiting(), 1u);
}

TEST_F(ImagePullerTest, BackOffOfAnEarlierRunGoesOn) {
  puller_.restore(wanted_, 3, loop_.now() + seconds(30), "manifest unknown");
  const auto answer = need("a");
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->reason, "ImagePullBackOff");
  EXPECT_EQ(answer.failure->message, "manifest unknown");
  EXPECT_EQ(jobs_.waiting(), 0u);
  images_.fail(images::PullFailed("no"));
  advance(seconds(30));
  EXPECT_EQ(need("a").failure->failures, 4);
}

TEST_F(ImagePullerTest, OfSeveralEarlierBackOffsTheLongestCounts) {
  puller_.restore(wanted_, 3, loop_.now() + seconds(30), "three");
  puller_.restore(wanted_, 2, loop_.now() + seconds(20), "two");
  EXPECT_EQ(need("a").failure->failures, 3);
}

TEST_F(ImagePullerTest, EarlierBackOffThatIsOverIsNotWaitedFor) {
  puller_.restore(wanted_, 3, loop_.now() - seconds(1), "manifest unknown");
  EXPECT_FALSE(need("a").failure);
  settle();
  EXPECT_TRUE(need("a").disk);
}

}  // namespace
}  // namespace virtset::test
