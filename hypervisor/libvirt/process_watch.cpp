#include "hypervisor/libvirt/process_watch.h"

#include <libvirt/libvirt.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace virtset::hypervisor::libvirt {

// Handed to libvirt, and back on its event loop.
struct ProcessWatch::Watch {
  std::shared_ptr<Shared> shared;
  std::string uuid;
  int fd;

  static Watch of(const void* opaque) { return *static_cast<const Watch*>(opaque); }
  static void destroy(void* opaque) {
    auto* watch = static_cast<Watch*>(opaque);
    close(watch->fd);
    delete watch;
  }
};

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

enum class Process { of_the_domain, dead, another };

// QEMU's command line names the domain's UUID: this tells the process from one that got its number.
Process identify(pid_t pid, const std::string& uuid) {
  const std::string command = read_file("/proc/" + std::to_string(pid) + "/cmdline");
  if (command.empty()) return Process::dead;  // a zombie has none
  return command.find(uuid) == std::string::npos ? Process::another : Process::of_the_domain;
}

}  // namespace

ProcessWatch::ProcessWatch(std::string pid_directory,
                           std::function<void(const std::string&)> exited)
    : pid_directory_(std::move(pid_directory)), shared_(std::make_shared<Shared>()) {
  shared_->exited = std::move(exited);
}

ProcessWatch::~ProcessWatch() {
  std::lock_guard lock(shared_->mutex);
  shared_->exited = nullptr;
  for (const auto& [uuid, handle] : shared_->handles) virEventRemoveHandle(handle);
  shared_->handles.clear();
}

void ProcessWatch::add(const std::string& domain_name, const std::string& uuid) {
  if (pid_directory_.empty()) return;
  const std::string path = pid_directory_ + "/" + domain_name + ".pid";
  const auto pid = static_cast<pid_t>(std::atoi(read_file(path).c_str()));
  if (pid <= 0) {
    spdlog::debug("{}: no process number in {}", domain_name, path);
    return;
  }
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  const int error = errno;
  std::lock_guard lock(shared_->mutex);
  if (shared_->handles.contains(uuid)) {
    if (fd >= 0) close(fd);
    return;
  }
  // Asked after the pidfd was opened: from here on the number cannot change hands unnoticed.
  const Process process = fd >= 0          ? identify(pid, uuid)
                          : error == ESRCH ? Process::dead
                                           : Process::another;
  if (process != Process::of_the_domain) {
    if (fd >= 0) close(fd);
    if (process == Process::dead && shared_->exited) shared_->exited(uuid);
    return;
  }
  auto* watch = new Watch{shared_, uuid, fd};
  const int handle =
      virEventAddHandle(fd, VIR_EVENT_HANDLE_READABLE, on_readable, watch, Watch::destroy);
  if (handle < 0) {
    Watch::destroy(watch);
    return;
  }
  shared_->handles[uuid] = handle;
}

void ProcessWatch::remove(const std::string& uuid) {
  std::lock_guard lock(shared_->mutex);
  const auto it = shared_->handles.find(uuid);
  if (it == shared_->handles.end()) return;
  virEventRemoveHandle(it->second);
  shared_->handles.erase(it);
}

void ProcessWatch::on_readable(int handle, int, int, void* opaque) {
  const Watch watch = Watch::of(opaque);
  virEventRemoveHandle(handle);
  std::lock_guard lock(watch.shared->mutex);
  watch.shared->handles.erase(watch.uuid);
  if (watch.shared->exited) watch.shared->exited(watch.uuid);
}

}  // namespace virtset::hypervisor::libvirt
