// What the command line and the configuration file can say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace virtset {

enum class Emulation { automatic, always, never };

struct Options {
  std::filesystem::path state_directory = "/var/lib/virtset";
  std::filesystem::path runtime_directory = "/run/virtset";
  std::filesystem::path configuration_directory = "/etc/virtset";
  // Where images and disks are; below the state directory if not given.
  std::filesystem::path data_directory;
  // Image archives that are dropped here are taken in; below the data directory if not given.
  std::filesystem::path import_directory;

  std::string socket_group;
  std::string listen = "127.0.0.1:7443";  // for TLS; empty: none
  std::string node_name;                  // the host's name if not given

  std::string libvirt_uri = "qemu:///system";
  std::string pid_directory = "/run/libvirt/qemu";
  Emulation emulation = Emulation::automatic;
  unsigned start_concurrency = 0;  // 0: one per core

  std::string network_name = "virtset0";
  std::string network_bridge;  // the network's name if not given
  std::string network_cidr = "10.115.0.0/22";

  std::vector<std::string> insecure_registries;
  std::string registry_auth_file;
  unsigned image_high_water = 85;
  unsigned image_low_water = 80;

  // Memory of the host that guests may ask for in total, in MiB; 0: all but 256 MiB; -1: no limit.
  std::int64_t guest_memory_mib = 0;
  unsigned crash_back_off_s = 10;
  unsigned image_back_off_s = 10;

  std::string log_level = "info";
};

// Reads them. What was asked for may be done with that (--help, --version, a mistake): then the
// exit code is given instead, and everything has been printed.
std::optional<int> read_options(int argc, char** argv, Options& options);

}  // namespace virtset
