#include "api/kinds/virtualmachineinstance/spec.h"

#include <algorithm>
#include <map>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/kinds/quantity.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

std::uint64_t bytes(const Json& quantity) {
  const auto parsed = Quantity::read(quantity);
  return parsed && !parsed->negative() ? static_cast<std::uint64_t>(parsed->value()) : 0;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<int> boot_order(const Json& device) {
  const Json& order = member(device, "bootOrder");
  if (!order.is_number_integer()) return std::nullopt;
  return order.get<int>();
}

std::optional<std::string> cloud_data(const Json& source, const std::string& name) {
  const std::string plain = text(member(source, name.c_str()));
  if (!plain.empty()) return plain;
  const std::string encoded = text(member(source, (name + "Base64").c_str()));
  if (encoded.empty()) return std::nullopt;
  return decode_base64(encoded);
}

CloudInitSource read_cloud_init(const Json& volume) {
  const bool config_drive = volume.contains("cloudInitConfigDrive");
  const Json& source = member(volume, config_drive ? "cloudInitConfigDrive" : "cloudInitNoCloud");
  return {.config_drive = config_drive,
          .user_data = cloud_data(source, "userData"),
          .network_data = cloud_data(source, "networkData"),
          .user_data_secret = text(member(source, "secretRef", "name")),
          .network_data_secret = text(member(source, "networkDataSecretRef", "name"))};
}

KeyedSource read_keyed(const Json& volume) {
  const std::string given = text(member(volume, "configMap", "volumeLabel")) +
                            text(member(volume, "secret", "volumeLabel"));
  KeyedSource source{.label = given.empty() ? "cfgdata" : given};
  if (volume.contains("sysprep")) {
    const Json& of = volume["sysprep"];
    source.secret = member(of, "secret").is_object();
    source.name = text(member(of, source.secret ? "secret" : "configMap", "name"));
    source.label = "unattendCD";
    source.answers = true;
    return source;
  }
  source.secret = volume.contains("secret");
  const Json& of = volume[source.secret ? "secret" : "configMap"];
  source.name = text(member(of, source.secret ? "secretName" : "name"));
  source.optional = truth(member(of, "optional"));
  return source;
}

bool is_cloud_init(const Json& volume) {
  return volume.contains("cloudInitNoCloud") || volume.contains("cloudInitConfigDrive");
}

decltype(DiskSpec::source) read_source(const Json& volume) {
  if (volume.contains("containerDisk")) {
    const Json& source = volume["containerDisk"];
    return ContainerDiskSource{text(source["image"]), text(member(source, "path")),
                               text(member(source, "imagePullPolicy"))};
  }
  if (volume.contains("emptyDisk")) {
    constexpr std::uint64_t mebibyte = 1 << 20;
    return EmptyDiskSource{bytes(volume["emptyDisk"]["capacity"]) / mebibyte * mebibyte};
  }
  if (volume.contains("dataVolume")) {
    return ClaimSource{.claim = text(volume["dataVolume"]["name"]), .data_volume = true};
  }
  if (volume.contains("persistentVolumeClaim")) {
    const Json& source = volume["persistentVolumeClaim"];
    return ClaimSource{.claim = text(source["claimName"]),
                       .read_only = truth(member(source, "readOnly"))};
  }
  if (volume.contains("ephemeral")) {
    const Json& source = member(volume, "ephemeral", "persistentVolumeClaim");
    return ClaimSource{.claim = text(member(source, "claimName")), .ephemeral = true};
  }
  if (volume.contains("configMap") || volume.contains("secret") || volume.contains("sysprep")) {
    return read_keyed(volume);
  }
  return read_cloud_init(volume);
}

DiskSpec read_disk(const Json& disk, const Json& volume) {
  const bool cdrom = disk.contains("cdrom");
  const Json& target = member(disk, cdrom ? "cdrom" : "disk");
  return {.name = text(disk["name"]),
          .cdrom = cdrom,
          .bus = text(member(target, "bus")),
          .serial = text(member(disk, "serial")),
          .cache = text(member(disk, "cache")),
          .read_only = truth(member(target, "readonly"), cdrom),
          .boot_order = boot_order(disk),
          .source = read_source(volume)};
}

InterfaceSpec read_interface(const Json& interface) {
  std::string mac = lower(text(member(interface, "macAddress")));
  std::replace(mac.begin(), mac.end(), '-', ':');
  const std::string model = text(member(interface, "model"));
  return {.name = text(interface["name"]),
          .model = model.empty() ? "virtio" : model,
          .mac = mac,
          .boot_order = boot_order(interface)};
}

std::optional<ProbeSpec> read_probe(const Json& probe) {
  if (!probe.is_object()) return std::nullopt;
  ProbeSpec spec;
  const bool http = probe.contains("httpGet");
  const Json& handler = member(probe, http ? "httpGet" : "tcpSocket");
  spec.type = http ? ProbeSpec::Type::http : ProbeSpec::Type::tcp;
  const Json& port = member(handler, "port");
  spec.port = port.is_string() ? std::stoi(text(port)) : static_cast<int>(integer(port, 0));
  spec.scheme = text(member(handler, "scheme")) == "HTTPS" ? "https" : "http";
  spec.path = text(member(handler, "path"));
  if (!spec.path.starts_with('/')) spec.path = "/" + spec.path;
  if (const std::string host = text(member(handler, "host")); !host.empty()) {
    spec.headers.push_back("Host: " + host);
  }
  for (const Json& header : member(handler, "httpHeaders")) {
    spec.headers.push_back(text(header["name"]) + ": " + text(header["value"]));
  }
  // KubeVirt: values below one are replaced by the default.
  const auto at_least_one = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t value = integer(member(probe, name), 0);
    return std::min<std::int64_t>(value < 1 ? otherwise : value, 86'400);
  };
  spec.initial_delay = seconds(integer(member(probe, "initialDelaySeconds"), 0));
  spec.period = seconds(at_least_one("periodSeconds", 10));
  spec.timeout = seconds(at_least_one("timeoutSeconds", 1));
  spec.success_threshold = static_cast<int>(at_least_one("successThreshold", 1));
  spec.failure_threshold = static_cast<int>(at_least_one("failureThreshold", 3));
  return spec;
}

// KubeVirt: spec.hostname, else the name up to its first dot, cut to 63.
std::string host_name(const Json& spec, const std::string& name) {
  const std::string given = text(member(spec, "hostname"));
  return given.empty() ? name.substr(0, std::min<std::size_t>(name.find('.'), 63)) : given;
}

}  // namespace

std::string domain_uuid(const Json& spec) {
  return lower(text(member(spec, "domain", "firmware", "uuid")));
}

InstanceSpec read_instance_spec(const Json& json, const std::string& name) {
  const Json& domain = member(json, "domain");
  const Json& devices = member(domain, "devices");
  InstanceSpec spec;
  const auto count = [&](const char* part) {
    return static_cast<unsigned>(
        std::max<std::int64_t>(1, integer(member(domain, "cpu", part), 1)));
  };
  spec.sockets = count("sockets");
  spec.cores = count("cores");
  spec.threads = count("threads");
  spec.cpu_model = text(member(domain, "cpu", "model"));
  if (const auto limit = Quantity::read(member(domain, "resources", "limits", "cpu"))) {
    spec.cpu_limit_millis = static_cast<unsigned>(limit->milli_value());
  }
  spec.memory_bytes = bytes(member(domain, "memory", "guest"));
  const Json& request = member(domain, "resources", "requests", "memory");
  spec.memory_request_bytes = request.is_null() ? spec.memory_bytes : bytes(request);
  spec.machine = text(member(domain, "machine", "type"));
  spec.uuid = domain_uuid(json);
  spec.serial = text(member(domain, "firmware", "serial"));
  spec.rng = member(devices, "rng").is_object();
  for (const Json& device : member(devices, "panicDevices")) {
    const std::string model = text(member(device, "model"));
    spec.panic_device = model.empty() ? "isa" : model;
  }
  std::map<std::string, const Json*> volumes;
  // KubeVirt: only the first cloud-init volume is made; others show the same.
  const Json* cloud_init = nullptr;
  for (const Json& volume : member(json, "volumes")) {
    if (is_cloud_init(volume) && !cloud_init) cloud_init = &volume;
    volumes[text(volume["name"])] = is_cloud_init(volume) ? cloud_init : &volume;
  }
  for (const Json& disk : member(devices, "disks")) {
    spec.disks.push_back(read_disk(disk, *volumes.at(text(disk["name"]))));
  }
  for (const Json& interface : member(devices, "interfaces")) {
    spec.interfaces.push_back(read_interface(interface));
  }
  spec.host_name = host_name(json, name);
  spec.grace_period = seconds(integer(member(json, "terminationGracePeriodSeconds"), 30));
  spec.readiness = read_probe(member(json, "readinessProbe"));
  spec.liveness = read_probe(member(json, "livenessProbe"));
  return spec;
}

}  // namespace virtset::api
