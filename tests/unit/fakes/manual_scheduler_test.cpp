// The loop, the jobs, the disk, the images and the guests of the tests.

#include "tests/fakes/manual_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/fakes/fake_images.h"
#include "tests/fakes/fake_probes.h"
#include "tests/fakes/manual_jobs.h"
#include "tests/fakes/memory_committer.h"

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ManualScheduler, NothingHappensByItself) {
  ManualScheduler loop;
  int ran = 0;
  loop.post([&] { ++ran; });
  const auto timer = loop.after(milliseconds(0), [&] { ++ran; });
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(loop.run(), 2);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(loop.run(), 0);
}

TEST(ManualScheduler, RunsWhatIsPostedInOrderAndWhatThatLeadsTo) {
  ManualScheduler loop;
  std::vector<int> order;
  loop.post([&] {
    order.push_back(1);
    loop.post([&] { order.push_back(3); });
  });
  loop.post([&] { order.push_back(2); });
  loop.run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(ManualScheduler, TimersFireInTheOrderOfTheirTimeWithTheClockAtIt) {
  ManualScheduler loop;
  const auto begin = loop.steady_now();
  std::vector<int> fired;
  const auto note = [&] {
    fired.push_back(static_cast<int>((loop.steady_now() - begin) / milliseconds(1)));
  };
  const auto late = loop.after(milliseconds(30), note);
  const auto early = loop.after(milliseconds(10), note);
  const auto never = loop.after(milliseconds(31), note);
  std::unique_ptr<api::Scheduler::Timer> nested;
  const auto middle = loop.after(milliseconds(20), [&] {
    note();
    nested = loop.after(milliseconds(5), note);
  });
  loop.advance(milliseconds(30));
  EXPECT_THAT(fired, ElementsAre(10, 20, 25, 30));
  EXPECT_EQ(loop.timers(), 1u);
}

TEST(ManualScheduler, DestroyedTimerDoesNotFire) {
  ManualScheduler loop;
  bool fired = false;
  auto timer = loop.after(milliseconds(10), [&] { fired = true; });
  timer.reset();
  loop.advance(seconds(1));
  EXPECT_FALSE(fired);
  EXPECT_EQ(loop.timers(), 0u);
}

TEST(ManualScheduler, TimerMayDestroyItself) {
  ManualScheduler loop;
  std::unique_ptr<api::Scheduler::Timer> timer;
  bool fired = false;
  timer = loop.after(milliseconds(10), [&] {
    timer.reset();
    fired = true;
  });
  loop.advance(milliseconds(10));
  EXPECT_TRUE(fired);
}

TEST(ManualScheduler, TimerMayOutliveTheScheduler) {
  std::unique_ptr<api::Scheduler::Timer> timer;
  {
    ManualScheduler loop;
    timer = loop.after(milliseconds(10), [] {});
  }
  timer.reset();
}

TEST(ManualScheduler, BothClocksMoveTogetherUnlessTheWallClockIsSet) {
  ManualScheduler loop;
  const auto wall = loop.now();
  const auto steady = loop.steady_now();
  loop.advance(seconds(5));
  EXPECT_EQ(loop.now() - wall, seconds(5));
  EXPECT_EQ(loop.steady_now() - steady, seconds(5));
  bool fired = false;
  const auto timer = loop.after(seconds(10), [&] { fired = true; });
  loop.set_wall_clock(wall + std::chrono::hours(24));
  loop.run();
  EXPECT_FALSE(fired);
  EXPECT_EQ(loop.steady_now() - steady, seconds(5));
}

TEST(ManualScheduler, LoopThatFeedsItselfFailsTheTest) {
  ManualScheduler loop;
  std::function<void()> again = [&] { loop.post(again); };
  loop.post(again);
  EXPECT_THROW(loop.run(), std::runtime_error);
}

TEST(ManualScheduler, AnyThreadMayPost) {
  ManualScheduler loop;
  int ran = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) loop.post([&] { ++ran; });
    });
  }
  for (auto& thread : threads) thread.join();
  loop.run();
  EXPECT_EQ(ran, 400);
}

TEST(ManualJobs, WorkIsDoneWhenTheTestSaysSoAndToldOfOnTheLoop) {
  ManualScheduler loop;
  ManualJobs jobs(loop);
  std::vector<std::string> order;
  jobs.run(
      Lane::disk, [&] { order.push_back("work"); }, [&] { order.push_back("done"); });
  EXPECT_EQ(jobs.waiting(), 1u);
  EXPECT_EQ(jobs.run_all(), 1);
  EXPECT_THAT(order, ElementsAre("work"));
  loop.run();
  EXPECT_THAT(order, ElementsAre("work", "done"));
  EXPECT_EQ(jobs.run_all(), 0);
}

TEST(ManualJobs, LaneThatIsHeldWaitsAndOthersDoNot) {
  ManualScheduler loop;
  ManualJobs jobs(loop);
  std::vector<std::string> order;
  jobs.hold(Lane::pull);
  jobs.run(
      Lane::pull, [&] { order.push_back("pull"); }, [] {});
  jobs.run(
      Lane::disk, [&] { order.push_back("disk"); }, [] {});
  EXPECT_EQ(jobs.run_all(), 1);
  jobs.hold(Lane::pull, false);
  EXPECT_EQ(jobs.run_all(), 1);
  EXPECT_THAT(order, ElementsAre("disk", "pull"));
}

TEST(ManualJobs, WithoutResultsTheWorkIsDoneAndNobodyHearsOfIt) {
  ManualScheduler loop;
  ManualJobs jobs(loop);
  bool worked = false, told = false;
  jobs.run(
      Lane::disk, [&] { worked = true; }, [&] { told = true; });
  jobs.run_without_results();
  loop.run();
  EXPECT_TRUE(worked);
  EXPECT_FALSE(told);
  EXPECT_EQ(jobs.waiting(), 0u);
}

class MemoryCommitterTest : public testing::Test {
 protected:
  static store::Row row(const std::string& name, store::Revision revision,
                        store::Row::Operation operation = store::Row::Operation::put) {
    return {operation,
            std::make_shared<const store::Object>(store::Key{"g", "K", "ns", name}, "u", revision,
                                                  "{\"at\":" + std::to_string(revision) + "}",
                                                  std::make_shared<store::RecentDocuments>(1))};
  }
  store::Committer::Done done() {
    return [this](const std::exception_ptr& error) { results_.push_back(!error); };
  }

  Disk disk_;
  MemoryCommitter committer_{disk_};
  std::vector<bool> results_;
};

TEST_F(MemoryCommitterTest, WhatIsCommittedIsOnTheDiskAndOutlivesTheCommitter) {
  { MemoryCommitter(disk_).commit({row("a", 1), row("b", 2)}, done()); }
  EXPECT_THAT(results_, ElementsAre(true));
  const auto contents = disk_.contents();
  EXPECT_EQ(contents.revision, 2);
  ASSERT_THAT(contents.entries, SizeIs(2));
  EXPECT_EQ(contents.entries[0].key.name, "a");
  EXPECT_EQ(contents.entries[0].text, "{\"at\":1}");
}

TEST_F(MemoryCommitterTest, LaterRowsReplaceAndRemove) {
  committer_.commit({row("a", 1), row("b", 2)}, done());
  committer_.commit({row("a", 3), row("b", 4, store::Row::Operation::remove)}, done());
  ASSERT_THAT(disk_.contents().entries, SizeIs(1));
  EXPECT_EQ(disk_.contents().entries[0].revision, 3);
  EXPECT_EQ(disk_.revision, 4);
  EXPECT_EQ(committer_.commits, 2);
  EXPECT_EQ(committer_.rows, 4u);
}

TEST_F(MemoryCommitterTest, HeldBatchesAreNotDurableUntilTheyAreReleasedInOrder) {
  committer_.held = true;
  committer_.commit({row("a", 1)}, done());
  committer_.commit({row("a", 2)}, done());
  EXPECT_THAT(results_, IsEmpty());
  EXPECT_THAT(disk_.rows, IsEmpty());
  committer_.release();
  EXPECT_THAT(results_, ElementsAre(true, true));
  EXPECT_EQ(disk_.contents().entries[0].revision, 2);
}

TEST_F(MemoryCommitterTest, BatchWithARefusedRowFailsAsAWhole) {
  committer_.refuse = [](const store::Row& row) { return row.object->key().name == "b"; };
  committer_.commit({row("a", 1), row("b", 2)}, done());
  committer_.commit({row("c", 3)}, done());
  EXPECT_THAT(results_, ElementsAre(false, true));
  ASSERT_THAT(disk_.contents().entries, SizeIs(1));
  EXPECT_EQ(disk_.contents().entries[0].key.name, "c");
}

TEST_F(MemoryCommitterTest, FailedBatchLeavesTheDiskAsItWas) {
  committer_.failing = true;
  std::string message;
  committer_.commit({row("a", 1)}, [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const store::CommitFailed& failed) {
      message = failed.what();
      EXPECT_TRUE(failed.disk_full());
    }
  });
  EXPECT_THAT(message, testing::HasSubstr("full"));
  EXPECT_THAT(disk_.rows, IsEmpty());
  EXPECT_EQ(disk_.revision, 0);
}

TEST(FakeImages, GivesAndRefusesAsTold) {
  FakeImages images;
  EXPECT_EQ(images.obtain("a", images::PullPolicy::always, "").digest, "sha256:a");
  images.refuse["a"] = "manifest unknown";
  EXPECT_THROW(images.obtain("a", images::PullPolicy::always, ""), images::PullFailed);
  EXPECT_EQ(images.pulls["a"], 2);
}

TEST(FakeImages, DisksAreMadeAfreshOrNotAtAll) {
  FakeImages images;
  const images::DiskPlan plan{images::EmptyDisk{"data", 1}, images::SeedIso{"seed", "cidata", {}}};
  EXPECT_THAT(images.make_disks("vm", plan), SizeIs(2));
  EXPECT_THAT(images.vms_with_disks(), ElementsAre("vm"));
  images.disk_is_full = true;
  EXPECT_THROW(images.make_disks("vm", plan), images::DiskFailed);
  EXPECT_THAT(images.vms_with_disks(), IsEmpty());
  images.disk_is_full = false;
  images.make_disks("vm", plan);
  images.remove_disks("vm");
  images.remove_disks("vm");
  EXPECT_THAT(images.vms_with_disks(), IsEmpty());
  EXPECT_EQ(images.made["vm"], 2);
}

TEST(FakeProbes, GuestsAnswerAsToldAndNeverFromWithinStart) {
  ManualScheduler loop;
  FakeProbes probes(loop);
  std::vector<std::string> answers;
  std::vector<std::unique_ptr<ProbeTransport::Attempt>> attempts;
  const auto ask = [&](const std::string& address) {
    attempts.push_back(probes.start({}, address, [&, address](const std::string& failure) {
      answers.push_back(address + (failure.empty() ? " answers" : " fails"));
    }));
  };
  probes.silent.insert("a");
  ask("a");
  ask("b");
  EXPECT_THAT(answers, IsEmpty());
  loop.advance(milliseconds(1));
  EXPECT_THAT(answers, ElementsAre("a fails", "b answers"));
  probes.answers_by_default = false;
  probes.answering.insert("c");
  ask("b");
  ask("c");
  loop.advance(milliseconds(1));
  EXPECT_THAT(answers, ElementsAre("a fails", "b answers", "b fails", "c answers"));
  ask("a");
  attempts.clear();
  loop.advance(seconds(1));
  EXPECT_THAT(answers, SizeIs(4));
  EXPECT_EQ(probes.attempts["a"], 2);
}

}  // namespace
}  // namespace virtset::test
