// Jobs on real threads. Nothing waits for time to pass; deadlines only end a test that hangs.

#include "daemon/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "tests/fakes/manual_scheduler.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// Something that many threads change and one waits for.
class Counter {
 public:
  void add(int change) {
    const std::lock_guard lock(mutex_);
    value_ += change;
    highest_ = std::max(highest_, value_);
    changed_.notify_all();
  }
  bool wait_for(int value) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(60), [&] { return value_ == value; });
  }
  int highest() const {
    const std::lock_guard lock(mutex_);
    return highest_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int value_ = 0;
  int highest_ = 0;
};

class JobsTest : public testing::Test {
 protected:
  void open(std::map<Lane, unsigned> limits) {
    jobs_ = std::make_unique<ThreadJobs>(loop_, std::move(limits));
  }
  // A job that counts as running until the gate is opened.
  void occupy(Lane lane) {
    jobs_->run(
        lane,
        [this] {
          running_.add(1);
          gate_.wait();
          running_.add(-1);
        },
        [this] { ++done_; });
  }
  // Runs the loop until so many are done.
  void wait_until_done(int count) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(60);
    while (done_ < count && std::chrono::steady_clock::now() < deadline) {
      loop_.run();
      std::this_thread::yield();
    }
    ASSERT_EQ(done_, count);
  }

  ManualScheduler loop_;
  std::unique_ptr<ThreadJobs> jobs_;
  Counter running_;
  std::latch gate_{1};
  int done_ = 0;  // loop thread only
};

TEST_F(JobsTest, WorksElsewhereAndIsDoneOnTheLoop) {
  open({});
  std::thread::id worked, told;
  jobs_->run(
      Lane::disk, [&] { worked = std::this_thread::get_id(); },
      [&] {
        told = std::this_thread::get_id();
        ++done_;
      });
  wait_until_done(1);
  EXPECT_NE(worked, std::this_thread::get_id());
  EXPECT_EQ(told, std::this_thread::get_id());
}

TEST_F(JobsTest, AsManyAtATimeAsTheLaneHas) {
  open({{Lane::start, 3}});
  for (int i = 0; i < 10; ++i) occupy(Lane::start);
  EXPECT_TRUE(running_.wait_for(3));
  gate_.count_down();
  wait_until_done(10);
  EXPECT_EQ(running_.highest(), 3);
}

TEST_F(JobsTest, LaneThatNobodySpokeOfHasOne) {
  open({});
  for (int i = 0; i < 5; ++i) occupy(Lane::pull);
  EXPECT_TRUE(running_.wait_for(1));
  gate_.count_down();
  wait_until_done(5);
  EXPECT_EQ(running_.highest(), 1);
}

TEST_F(JobsTest, FullLaneDoesNotHoldUpAnother) {
  open({{Lane::pull, 1}, {Lane::start, 1}});
  occupy(Lane::pull);
  occupy(Lane::pull);
  ASSERT_TRUE(running_.wait_for(1));
  jobs_->run(
      Lane::start, [] {}, [this] { ++done_; });
  wait_until_done(1);
  gate_.count_down();
  wait_until_done(3);
}

TEST_F(JobsTest, LaneOfOneWorksInOrder) {
  open({{Lane::control, 1}});
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    jobs_->run(
        Lane::control, [&order, i] { order.push_back(i); }, [this] { ++done_; });
  }
  wait_until_done(100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

// A thread that has become idle serves the next; it is not one more.
TEST_F(JobsTest, LimitHoldsWhenJobsComeOneByOne) {
  open({{Lane::disk, 2}});
  for (int i = 1; i <= 200; ++i) {
    jobs_->run(
        Lane::disk,
        [this] {
          running_.add(1);
          running_.add(-1);
        },
        [this] { ++done_; });
    if (i % 3 == 0) wait_until_done(i);
  }
  wait_until_done(200);
  EXPECT_LE(running_.highest(), 2);
}

TEST_F(JobsTest, GivesTheValueOrWhatWasThrown) {
  open({{Lane::disk, 1}});
  std::vector<std::string> results;
  const auto keep = [&](auto& result) {
    try {
      results.push_back(result.get());
    } catch (const std::runtime_error& error) {
      results.push_back(std::string("threw ") + error.what());
    }
    ++done_;
  };
  jobs_->submit(
      Lane::disk, [] { return std::string("value"); }, keep);
  jobs_->submit(
      Lane::disk, []() -> std::string { throw std::runtime_error("no space"); }, keep);
  wait_until_done(2);
  EXPECT_THAT(results, ElementsAre("value", "threw no space"));
}

TEST_F(JobsTest, WorkWithoutAValueMayThrowToo) {
  open({});
  std::string error;
  jobs_->submit(
      Lane::disk, [] { throw std::runtime_error("refused"); },
      [&](Result<std::monostate>& result) {
        try {
          result.get();
        } catch (const std::exception& caught) {
          error = caught.what();
        }
        ++done_;
      });
  wait_until_done(1);
  EXPECT_EQ(error, "refused");
}

TEST_F(JobsTest, WhatTheWorkHeldIsFreedBeforeItIsDone) {
  open({});
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watched = held;
  bool freed = false;
  jobs_->run(
      Lane::disk, [held] {},
      [&] {
        freed = watched.expired();
        ++done_;
      });
  held.reset();
  wait_until_done(1);
  EXPECT_TRUE(freed);
}

TEST_F(JobsTest, EndWaitsForTheJobThatRunsAndDropsThoseThatWait) {
  open({{Lane::disk, 1}});
  occupy(Lane::disk);
  ASSERT_TRUE(running_.wait_for(1));
  bool started = false;
  bool dropped_done = false;
  // Dropped only when the end has begun, so its captured latch says that it has.
  auto dropped = std::shared_ptr<std::latch>(&gate_, [](std::latch* gate) { gate->count_down(); });
  jobs_->run(
      Lane::disk, [&started, dropped] { started = true; }, [&] { dropped_done = true; });
  dropped.reset();
  jobs_.reset();
  EXPECT_TRUE(running_.wait_for(0));
  loop_.run();
  EXPECT_FALSE(started);
  EXPECT_FALSE(dropped_done);
}

TEST_F(JobsTest, EndsAtOnceWithIdleThreads) {
  open({{Lane::disk, 4}});
  for (int i = 0; i < 20; ++i)
    jobs_->run(
        Lane::disk, [] {}, [this] { ++done_; });
  wait_until_done(20);
  const auto before = std::chrono::steady_clock::now();
  jobs_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(20));
}

TEST_F(JobsTest, JobThatRunsAtTheEndIsNotToldOf) {
  open({{Lane::disk, 1}});
  occupy(Lane::disk);
  ASSERT_TRUE(running_.wait_for(1));
  auto dropped = std::shared_ptr<std::latch>(&gate_, [](std::latch* gate) { gate->count_down(); });
  jobs_->run(
      Lane::disk, [dropped] {}, [] {});
  dropped.reset();
  jobs_.reset();
  loop_.run();
  EXPECT_EQ(done_, 0);
}

}  // namespace
}  // namespace virtset::test
