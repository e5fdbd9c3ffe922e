// The spec of an instance as the daemon works with it: admitted and defaulted, so everything is
// there and right.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace virtset::api {

struct ContainerDiskSource {
  std::string image;
  std::string path;
  std::string pull_policy;
};
struct CloudInitSource {
  bool config_drive = false;  // else NoCloud
  std::optional<std::string> user_data;
  std::optional<std::string> network_data;
  // Names of Secrets that have them instead, or empty.
  std::string user_data_secret;
  std::string network_data_secret;
};
struct EmptyDiskSource {
  std::uint64_t capacity = 0;  // whole MiB
};

// The disk of a PersistentVolumeClaim, or of a DataVolume, whose claim has the same name.
struct ClaimSource {
  std::string claim;
  bool data_volume = false;
  bool read_only = false;
  bool ephemeral = false;  // what is written goes to an overlay
};
// The keys of a ConfigMap or Secret as files.
struct KeyedSource {
  bool secret = false;  // else a ConfigMap
  std::string name;
  std::string label;
  bool optional = false;
  bool answers = false;  // for Windows' setup, which needs certain files
};

struct DiskSpec {
  std::string name;
  bool cdrom = false;
  std::string bus;
  std::string serial;
  std::string cache;
  bool read_only = false;
  std::optional<int> boot_order;
  std::variant<ContainerDiskSource, CloudInitSource, EmptyDiskSource, ClaimSource, KeyedSource>
      source;
};

struct InterfaceSpec {
  std::string name;
  std::string model;
  std::string mac;  // empty: one of the network's
  std::optional<int> boot_order;
};

struct ProbeSpec {
  enum class Type { http, tcp };
  Type type = Type::tcp;
  int port = 0;
  std::string scheme;  // "http" or "https"
  std::string path;
  std::vector<std::string> headers;  // "Name: value"
  std::chrono::seconds initial_delay{0};
  std::chrono::seconds period{10};
  std::chrono::seconds timeout{1};
  int success_threshold = 1;
  int failure_threshold = 3;
};

struct InstanceSpec {
  unsigned sockets = 1, cores = 1, threads = 1;
  std::string cpu_model;
  unsigned cpu_limit_millis = 0;  // 0: none
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_request_bytes = 0;  // what the host sets aside; at least what was asked for
  std::string machine;
  std::string uuid;  // lower case
  std::string serial;
  bool rng = false;
  std::string panic_device;  // its model; empty: none
  std::vector<DiskSpec> disks;
  std::vector<InterfaceSpec> interfaces;
  std::string host_name;
  std::chrono::seconds grace_period{30};
  std::optional<ProbeSpec> readiness;
  std::optional<ProbeSpec> liveness;
};

// The UUID of its domain, in lower case: for those who need nothing else of the spec.
std::string domain_uuid(const nlohmann::json& spec);

// Reads the spec of an admitted instance of this name.
InstanceSpec read_instance_spec(const nlohmann::json& spec, const std::string& name);

}  // namespace virtset::api
