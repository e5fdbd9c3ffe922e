#include "images/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace virtset::images {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t output_kept = 1 << 20;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Fd read_end, write_end;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) throw ProcessFailed(std::strerror(errno));
    read_end = Fd(ends[0]);
    write_end = Fd(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
};

void limit(int resource, std::uint64_t value) {
  if (value == 0) return;
  const rlimit both{value, value};
  setrlimit(static_cast<__rlimit_resource>(resource), &both);
}

// In the child, between fork and exec: only what is async-signal-safe.
[[noreturn]] void become(const ProcessSpec& spec, char* const* arguments, char* const* environment,
                         int output, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the daemon died before the line above
  limit(RLIMIT_CPU, spec.cpu_seconds);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  syscall(SYS_close_range, 3u, ~0u, 0u);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  // Last: it may be less than this process has, and a sanitizer allocates in the calls above.
  limit(RLIMIT_AS, spec.address_space_bytes);
  execvpe(arguments[0], arguments, environment);
  _exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// Appends what can be read now. False at the end of the stream.
bool drain(int fd, std::string& text) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
      if (text.size() > 2 * output_kept) text.erase(0, text.size() - output_kept);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN;
  }
}

}  // namespace

ProcessRunner::ProcessRunner() : cancelled_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

ProcessRunner::~ProcessRunner() { close(cancelled_); }

void ProcessRunner::cancel() {
  const std::uint64_t one = 1;
  // Cannot fail on an eventfd that is written once.
  [[maybe_unused]] const auto written = write(cancelled_, &one, sizeof one);
}

ProcessResult ProcessRunner::run(const ProcessSpec& spec) const {
  std::vector<std::string> arguments = spec.arguments;
  arguments.insert(arguments.begin(), spec.program);
  std::vector<std::string> environment = spec.environment;
  for (const char* name : {"PATH", "HOME"}) {
    if (const char* value = getenv(name)) environment.push_back(name + std::string("=") + value);
  }
  const auto argv = pointers(arguments);
  const auto envp = pointers(environment);
  Pipe output, errors;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw ProcessFailed(spec.program + ": " + std::strerror(errno));
  if (pid == 0) {
    become(spec, argv.data(), envp.data(), output.write_end.get(), errors.write_end.get(), parent);
  }
  setpgid(pid, pid);
  output.write_end.reset();
  errors.write_end.reset();
  const Fd exited(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));

  ProcessResult result;
  std::string failure;
  const auto deadline = Clock::now() + spec.timeout;
  std::array<pollfd, 4> polled{{{output.read_end.get(), POLLIN, 0},
                                {errors.read_end.get(), POLLIN, 0},
                                {exited.get(), POLLIN, 0},
                                {cancelled_, POLLIN, 0}}};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      failure = " took longer than " + std::to_string(spec.timeout.count() / 1000) + " s";
      break;
    }
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) {
      failure = std::string(": ") + std::strerror(errno);
      break;
    }
    if (polled[0].revents && !drain(output.read_end.get(), result.output)) polled[0].fd = -1;
    if (polled[1].revents && !drain(errors.read_end.get(), result.errors)) polled[1].fd = -1;
    if (polled[2].revents) break;
    if (polled[3].revents) {
      failure = " was cancelled";
      break;
    }
  }
  // The group, so that nothing it started stays behind.
  kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  drain(output.read_end.get(), result.output);
  drain(errors.read_end.get(), result.errors);
  if (!failure.empty()) throw ProcessFailed(spec.program + failure);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (result.exit_code == 127 && result.errors.empty()) {
    throw ProcessFailed(spec.program + " could not be started; is it installed?");
  }
  return result;
}

}  // namespace virtset::images
