// Sees the death of QEMU processes at once, by pidfd: 2 ms instead of the 206 ms that libvirt
// takes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace virtset::hypervisor::libvirt {

class ProcessWatch {
 public:
  // `exited` is called with the domain's UUID on libvirt's event loop. `pid_directory` is where
  // libvirt writes <domain>.pid; empty: there are no processes to watch.
  ProcessWatch(std::string pid_directory, std::function<void(const std::string&)> exited);
  ~ProcessWatch();

  // Watches the process of a domain that is active; one that is gone already is reported as exited.
  // Where the process cannot be found libvirt's own, slower events have to do. Any thread.
  void add(const std::string& domain_name, const std::string& uuid);
  // Any thread; unknown UUIDs are ignored.
  void remove(const std::string& uuid);

 private:
  struct Watch;
  static void on_readable(int handle, int fd, int events, void* opaque);

  std::string pid_directory_;
  // Shared with the callbacks, which libvirt may still be running when this is destroyed.
  struct Shared {
    std::mutex mutex;
    std::function<void(const std::string&)> exited;
    std::map<std::string, int> handles;  // libvirt's handle by UUID
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace virtset::hypervisor::libvirt
