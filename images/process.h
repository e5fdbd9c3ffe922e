// Runs the programs that this project leans on (skopeo, qemu-img), described as data.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace virtset::images {

// What to run and how far it may go.
struct ProcessSpec {
  std::string program;  // looked up in PATH
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "NAME=value", besides PATH and HOME
  std::chrono::milliseconds timeout{60'000};
  // Limits of the process, 0: none. For programs that read what strangers wrote.
  std::uint64_t address_space_bytes = 0;
  std::uint64_t cpu_seconds = 0;
};

struct ProcessResult {
  int exit_code = 0;   // 128 + signal where one ended it
  std::string output;  // the last 1 MiB of it
  std::string errors;
};

// The process could not be started, was too slow, or was cancelled.
class ProcessFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs processes until it is cancelled. Thread-safe: run() blocks its caller only.
class ProcessRunner {
 public:
  ProcessRunner();
  ~ProcessRunner();
  ProcessRunner(const ProcessRunner&) = delete;
  ProcessRunner& operator=(const ProcessRunner&) = delete;

  // Throws ProcessFailed. A process that outlives its time-out is killed with all its children; it
  // dies too if this daemon does.
  ProcessResult run(const ProcessSpec& spec) const;

  // Ends all running processes and refuses new ones: what a daemon does that is about to stop.
  void cancel();

 private:
  int cancelled_;  // an eventfd, readable once cancel() was called
};

}  // namespace virtset::images
