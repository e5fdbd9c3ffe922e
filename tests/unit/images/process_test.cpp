#include "images/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "tests/unit/images/tar_builder.h"

namespace virtset::test {
namespace {

using images::ProcessFailed;
using images::ProcessResult;
using images::ProcessRunner;
using images::ProcessSpec;
using std::chrono::milliseconds;

ProcessSpec shell(const std::string& script) {
  return {.program = "sh", .arguments = {"-c", script}};
}

TEST(Process, GivesOutputErrorsAndCode) {
  const ProcessRunner runner;
  const ProcessResult result = runner.run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Process, ArgumentsAreNotInterpreted) {
  const ProcessRunner runner;
  EXPECT_EQ(runner.run({.program = "echo", .arguments = {"$(id)", "; x", "a b"}}).output,
            "$(id) ; x a b\n");
}

TEST(Process, SeesOnlyTheEnvironmentItIsGiven) {
  setenv("VIRTSET_SECRET", "x", 1);
  const ProcessRunner runner;
  ProcessSpec spec{.program = "env"};
  spec.environment = {"GIVEN=1"};
  const std::string output = runner.run(spec).output;
  EXPECT_THAT(output, testing::HasSubstr("GIVEN=1"));
  EXPECT_THAT(output, testing::Not(testing::HasSubstr("VIRTSET_SECRET")));
}

TEST(Process, MuchOutputIsKeptInPart) {
  const ProcessRunner runner;
  const ProcessResult result = runner.run(shell("yes | head -c 20000000; echo end"));
  EXPECT_LE(result.output.size(), 2u << 20);
  EXPECT_TRUE(result.output.ends_with("end\n"));
}

TEST(Process, MissingProgramIsAnError) {
  const ProcessRunner runner;
  try {
    runner.run({.program = "no-such-program"});
    FAIL();
  } catch (const ProcessFailed& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("is it installed"));
  }
}

TEST(Process, TooSlowIsKilledWithItsChildren) {
  const TestDirectory directory;
  const ProcessRunner runner;
  ProcessSpec spec = shell("sleep 1000 & echo $! > " + (directory / "pid").string() + "; wait");
  spec.timeout = milliseconds(300);
  EXPECT_THROW(runner.run(spec), ProcessFailed);
  int pid = 0;
  std::ifstream(directory / "pid") >> pid;
  ASSERT_GT(pid, 0);
  // It is init's now, who reaps it when he likes: dead is what counts.
  std::string state;
  for (int i = 0; i < 200; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name;
    state.clear();
    stat >> number >> name >> state;
    if (state.empty() || state == "Z") break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(state.empty() || state == "Z") << state;
}

TEST(Process, MemoryLimitHolds) {
  const ProcessRunner runner;
  ProcessSpec spec = shell("head -c 300000000 /dev/zero | tail -c 299999999 | wc -c");
  spec.address_space_bytes = 100 << 20;
  EXPECT_THAT(runner.run(spec).output, testing::Not(testing::HasSubstr("299999999")));
}

TEST(Process, CancelEndsWhatRunsAndRefusesWhatComes) {
  ProcessRunner runner;
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(100));
    runner.cancel();
  });
  EXPECT_THROW(runner.run(shell("sleep 1000")), ProcessFailed);
  canceller.join();
  EXPECT_THROW(runner.run(shell("sleep 1000")), ProcessFailed);
}

}  // namespace
}  // namespace virtset::test
