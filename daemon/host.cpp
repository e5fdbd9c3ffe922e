#include "daemon/host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "api/kinds/names.h"

namespace virtset {

namespace {

constexpr std::uint64_t kept_for_the_host = 256ull << 20;
// It becomes the value of a label.
constexpr std::size_t longest_node_name = 63;

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

// Empty if it is not there or not ours to read.
std::string first_line_of(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

// In bytes, from /proc/meminfo.
std::uint64_t meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) << 10;
  }
  return 0;
}

// os-release(5): shell-like, and quoted if it has spaces.
std::string os_image() {
  constexpr std::string_view key = "PRETTY_NAME=";
  for (const char* path : {"/etc/os-release", "/usr/lib/os-release"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(key)) continue;
      std::string name = line.substr(key.size());
      std::erase_if(name, [](char c) { return c == '"' || c == '\'' || c == '\\'; });
      return name;
    }
  }
  return "Linux";
}

std::string in_words_of_go(const std::string& machine) {
  static const std::map<std::string, std::string> words = {
      {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"i686", "386"}, {"armv7l", "arm"}};
  const auto it = words.find(machine);
  return it == words.end() ? machine : it->second;
}

std::string printed(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof text);
  }
  return text;
}

// Nothing is sent: to connect a datagram socket only chooses a route and with it a source address.
std::optional<std::string> source_address_towards(const sockaddr* there, socklen_t size) {
  const int fd = socket(there->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage here{};
  socklen_t here_size = sizeof here;
  const bool found = connect(fd, there, size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0;
  close(fd);
  if (!found) return std::nullopt;
  return printed(reinterpret_cast<const sockaddr*>(&here));
}

// Towards addresses for documentation, which are nobody's and thus behind the default route.
std::optional<std::string> address_on_route_out() {
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(9)};
  inet_pton(AF_INET, "198.51.100.1", &v4.sin_addr);
  if (auto found = source_address_towards(reinterpret_cast<const sockaddr*>(&v4), sizeof v4)) {
    return found;
  }
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(9)};
  inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
  return source_address_towards(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
}

// Of a host without a default route.
std::string first_address(const std::string& own_bridge) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* it = all; it && found.empty(); it = it->ifa_next) {
    const bool usable = it->ifa_addr && it->ifa_addr->sa_family == AF_INET &&
                        (it->ifa_flags & IFF_UP) && !(it->ifa_flags & IFF_LOOPBACK) &&
                        it->ifa_name != own_bridge;
    if (usable) found = printed(it->ifa_addr);
  }
  freeifaddrs(all);
  return found;
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

std::string node_name_of(std::string host_name) {
  const auto trim = [](std::string& name) {
    name.resize(std::min(name.size(), longest_node_name));
    while (!name.empty() && !std::isalnum(static_cast<unsigned char>(name.back()))) name.pop_back();
    name.erase(0, std::min(name.size(), name.find_first_not_of("-.")));
  };
  for (char& c : host_name) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : c == '.' ? '.' : '-';
  }
  trim(host_name);
  if (api::check_subdomain(host_name)) {
    std::replace(host_name.begin(), host_name.end(), '.', '-');
    trim(host_name);
  }
  return host_name.empty() ? "localhost" : host_name;
}

HostState look_at_host(const std::filesystem::path& data_directory, const std::string& own_bridge) {
  HostState state;
  utsname names{};
  uname(&names);
  state.host_name = names.nodename;
  state.architecture = in_words_of_go(names.machine);
  state.kernel = names.release;
  state.os_image = os_image();
  state.machine_id = first_line_of("/etc/machine-id");
  // For root alone on most hosts.
  state.system_uuid = first_line_of("/sys/class/dmi/id/product_uuid");
  if (state.system_uuid.empty()) state.system_uuid = state.machine_id;
  state.boot_id = first_line_of("/proc/sys/kernel/random/boot_id");
  const auto route_out = address_on_route_out();
  state.address = route_out ? *route_out : first_address(own_bridge);
  state.cpus = static_cast<unsigned>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  state.memory = meminfo("MemTotal");
  state.available_memory = meminfo("MemAvailable");
  struct statvfs status {};
  if (statvfs(data_directory.c_str(), &status) == 0 && status.f_blocks > 0) {
    state.disk = static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize;
    state.disk_used_percent = static_cast<unsigned>(100 - status.f_bavail * 100 / status.f_blocks);
  }
  return state;
}

}  // namespace virtset
