#include "daemon/host.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace virtset {

namespace {

constexpr std::uint64_t kept_for_the_host = 256ull << 20;

bool cpu_can_virtualise() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream flags(line.substr(line.find(':') + 1));
    for (std::string flag; flags >> flag;) {
      if (flag == "vmx" || flag == "svm") return true;
    }
    return false;
  }
  return false;
}

}  // namespace

bool must_emulate(Emulation wanted, std::string& why) {
  if (wanted != Emulation::automatic) {
    why = "by configuration";
    return wanted == Emulation::always;
  }
  if (!cpu_can_virtualise()) {
    why = "the CPU has neither vmx nor svm";
    return true;
  }
  // It is libvirt that opens it; whether it is there is what can be seen from here.
  if (access("/dev/kvm", F_OK) != 0) {
    why = "there is no /dev/kvm";
    return true;
  }
  why = "/dev/kvm is there and the CPU can";
  return false;
}

std::uint64_t memory_for_guests(std::int64_t guest_memory_mib) {
  if (guest_memory_mib < 0) return 0;
  if (guest_memory_mib > 0) return static_cast<std::uint64_t>(guest_memory_mib) << 20;
  const auto total = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  return total > 2 * kept_for_the_host ? total - kept_for_the_host : total / 2;
}

}  // namespace virtset
