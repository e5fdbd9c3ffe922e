#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "daemon/daemon.h"
#include "daemon/options.h"

// Read by jemalloc: an arena for each thread would cost more memory than it saves time here.
extern "C" {
const char* malloc_conf = "narenas:2";
}

namespace {

// To stderr: for the journal with the priority in front, for people with the time.
void set_up_log(const std::string& level) {
  class Priority final : public spdlog::custom_flag_formatter {
   public:
    void format(const spdlog::details::log_msg& message, const std::tm&,
                spdlog::memory_buf_t& out) override {
      const char* priority = message.level >= spdlog::level::err    ? "<3>"
                             : message.level >= spdlog::level::warn ? "<4>"
                             : message.level >= spdlog::level::info ? "<6>"
                                                                    : "<7>";
      out.append(priority, priority + 3);
    }
    std::unique_ptr<custom_flag_formatter> clone() const override {
      return std::make_unique<Priority>();
    }
  };
  auto logger = spdlog::stderr_logger_mt("virtsetd");
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (std::getenv("JOURNAL_STREAM")) {
    formatter->add_flag<Priority>('*').set_pattern("%*%v");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%f %L %v");
  }
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

// See Daemon::stop.
void give_up(int) {
  constexpr char message[] = "a job did not end in time and is left alone\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message, sizeof message - 1);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  virtset::Options options;
  if (const auto exit_code = virtset::read_options(argc, argv, options)) return *exit_code;
  set_up_log(options.log_level);
  // Database, keys and disks are nobody else's; what others may see is made so explicitly.
  umask(0077);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGALRM, give_up);
  try {
    virtset::Daemon daemon(options);
    daemon.run();
    return 0;
  } catch (const std::exception& error) {
    spdlog::critical("{}", error.what());
    return 1;
  }
}
