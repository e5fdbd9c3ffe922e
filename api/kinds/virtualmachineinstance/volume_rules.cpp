#include <openssl/evp.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/kinds/names.h"
#include "api/kinds/quantity.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "images/reference.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_cloud_init_bytes = 2048;

void validate_bus(const Json& disk, const std::string& field, FieldErrorList& errors) {
  for (const char* device : {"disk", "cdrom"}) {
    const Json& target = member(disk, device);
    const std::string bus = text(member(target, "bus"));
    const std::string bus_field = field + "." + device + ".bus";
    const bool cdrom = std::string_view(device) == "cdrom";
    if (bus == "ide") {
      errors.invalid(bus_field, "IDE bus is not supported");
    } else if (cdrom && bus == "virtio") {
      errors.invalid(bus_field, "Bus type virtio is invalid for CD-ROM device");
    } else if (bus == "scsi" || bus == "usb") {
      errors.not_supported(bus_field,
                           "bus " + bus + " is not supported by this version of virtset");
    } else if (!bus.empty() && bus != "virtio" && bus != "sata") {
      errors.invalid(bus_field, bus_field + " is set with an unrecognized bus " + bus +
                                    ", must be one of: virtio, sata");
    } else if (!cdrom && bus != "virtio" && truth(member(target, "readonly"))) {
      errors.invalid(bus_field,
                     bus_field + " hard-disks do not support read-only with the sata bus");
    }
    if (cdrom && !truth(member(target, "readonly"), true)) {
      errors.invalid(field + ".cdrom.readonly", "Invalid value: false: a CD-ROM is read-only");
    }
  }
}

void validate_disk(const Json& disk, const std::string& field, FieldErrorList& errors) {
  if (const auto wrong = check_label_name(text(disk["name"]))) {
    errors.invalid(field + ".name", field + ".name does not conform with the rules: " + *wrong);
  }
  if (disk.contains("disk") && disk.contains("cdrom")) {
    errors.invalid(field, field + " can only have a single target type defined");
  }
  validate_bus(disk, field, errors);
  const std::string serial = text(member(disk, "serial"));
  static const std::regex allowed("[A-Za-z0-9_.+-]*");
  if (serial.size() > 256) {
    errors.invalid(field + ".serial",
                   field + ".serial must be less than or equal to 256 in length, if specified");
  } else if (!std::regex_match(serial, allowed)) {
    errors.invalid(field + ".serial", field +
                                          ".serial must be made up of the following characters "
                                          "[A-Za-z0-9_.+-], if specified");
  }
  const std::string cache = text(member(disk, "cache"));
  if (!cache.empty() && cache != "none" && cache != "writethrough" && cache != "writeback") {
    errors.invalid(field + ".cache", field + ".cache has invalid value " + cache +
                                         ", must be one of: none, writethrough, writeback");
  }
}

void validate_container_disk(const Json& source, const std::string& field, FieldErrorList& errors) {
  try {
    images::Reference::parse(text(member(source, "image")));
  } catch (const images::BadReference& error) {
    errors.invalid(field + ".image", std::string("Invalid value: ") + error.what());
  }
  const Json& path = member(source, "path");
  if (path.is_string() && !text(path).empty()) {
    const std::filesystem::path given(text(path));
    const bool clean = given.is_absolute() && given == given.lexically_normal() && given != "/" &&
                       given.has_filename();
    if (!clean) {
      errors.invalid(field, field +
                                ".path must be an absolute path to a file without relative "
                                "elements");
    }
  }
}

// One of the two kinds of data that cloud-init takes. True if there is any.
bool validate_cloud_data(const Json& source, const std::string& name, const std::string& field,
                         FieldErrorList& errors) {
  const Json& plain = member(source, name.c_str());
  const Json& encoded = member(source, (name + "Base64").c_str());
  const bool has_plain = !text(plain).empty();
  const bool has_encoded = !text(encoded).empty();
  const char* reference = name == "userData" ? "secretRef" : "networkDataSecretRef";
  const bool has_reference = member(source, reference).is_object();
  if (has_plain + has_encoded + has_reference > 1) {
    errors.invalid(field, field + " must have only one " + name + " source set");
  }
  std::optional<std::string> data = text(plain);
  if (has_encoded) {
    data = decode_base64(text(encoded));
    if (!data) {
      errors.invalid(field + "." + name + "Base64",
                     field + "." + name + "Base64 is not a valid base64 value");
      return true;
    }
  }
  if (data->size() > most_cloud_init_bytes) {
    errors.invalid(field, field + " " + name + " exceeds 2048 byte limit. Should use " +
                              (name == "userData" ? "UserDataSecretRef" : "NetworkDataSecretRef") +
                              " for larger data");
  }
  return has_plain || has_encoded || has_reference;
}

void validate_cloud_init(const Json& source, const std::string& field, FieldErrorList& errors) {
  const bool user = validate_cloud_data(source, "userData", field, errors);
  const bool network = validate_cloud_data(source, "networkData", field, errors);
  if (!user && !network) {
    errors.invalid(field, field +
                              " must have at least one userdatasource or one networkdatasource "
                              "set.");
  }
}

void validate_empty_disk(const Json& source, const std::string& field, FieldErrorList& errors) {
  const auto capacity = Quantity::read(member(source, "capacity"));
  if (capacity && capacity->value() < (1 << 20)) {
    errors.invalid(field + ".capacity",
                   "Invalid value: " + source["capacity"].dump() + ": must be at least 1Mi");
  }
}

void validate_reference(const Json& name, const std::string& field, FieldErrorList& errors) {
  if (const auto wrong = check_subdomain(text(name))) {
    errors.invalid(field, "Invalid value: \"" + text(name) + "\": " + *wrong);
  }
}

// The keys of an object as files.
void validate_keyed(const Json& source, const char* name, const std::string& field,
                    FieldErrorList& errors) {
  // KubeVirt: reported at the name.
  if (text(member(source, name)).empty()) {
    errors.invalid(field + "." + name, field + "." + name + " is a required field");
  } else {
    validate_reference(source[name], field + "." + name, errors);
  }
  // Volume identifiers of ISO 9660 that Linux and Windows show as they are.
  static const std::regex label("[A-Za-z0-9_.-]*");
  if (!std::regex_match(text(member(source, "volumeLabel")), label)) {
    errors.invalid(field + ".volumeLabel",
                   "Invalid value: must be made up of the characters [A-Za-z0-9_.-]");
  }
}

void validate_sysprep(const Json& source, const std::string& field, FieldErrorList& errors) {
  const bool config_map = member(source, "configMap").is_object();
  const bool secret = member(source, "secret").is_object();
  if (config_map == secret) {
    errors.invalid(field, field + " must have exactly one of configMap and secret");
    return;
  }
  const char* of = secret ? "secret" : "configMap";
  validate_reference(member(source, of, "name"), field + "." + of + ".name", errors);
}

void validate_source(const Json& volume, const std::string& field, FieldErrorList& errors) {
  if (volume.contains("containerDisk")) {
    validate_container_disk(volume["containerDisk"], field + ".containerDisk", errors);
  } else if (volume.contains("cloudInitNoCloud")) {
    validate_cloud_init(volume["cloudInitNoCloud"], field + ".cloudInitNoCloud", errors);
  } else if (volume.contains("cloudInitConfigDrive")) {
    validate_cloud_init(volume["cloudInitConfigDrive"], field + ".cloudInitConfigDrive", errors);
  } else if (volume.contains("emptyDisk")) {
    validate_empty_disk(volume["emptyDisk"], field + ".emptyDisk", errors);
  } else if (volume.contains("persistentVolumeClaim")) {
    validate_reference(member(volume, "persistentVolumeClaim", "claimName"),
                       field + ".persistentVolumeClaim.claimName", errors);
  } else if (volume.contains("dataVolume")) {
    validate_reference(member(volume, "dataVolume", "name"), field + ".dataVolume.name", errors);
  } else if (volume.contains("ephemeral")) {
    const Json& claim = member(volume, "ephemeral", "persistentVolumeClaim");
    if (!claim.is_object()) {
      errors.required(field + ".ephemeral.persistentVolumeClaim", "Required value");
    } else {
      validate_reference(member(claim, "claimName"),
                         field + ".ephemeral.persistentVolumeClaim.claimName", errors);
    }
  } else if (volume.contains("configMap")) {
    validate_keyed(volume["configMap"], "name", field + ".configMap", errors);
  } else if (volume.contains("secret")) {
    validate_keyed(volume["secret"], "secretName", field + ".secret", errors);
  } else if (volume.contains("sysprep")) {
    validate_sysprep(volume["sysprep"], field + ".sysprep", errors);
  }
}

}  // namespace

void validate_disks(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const std::set<std::string> volumes = names_of(member(spec, "volumes"));
  const Json& disks = member(spec, "domain", "devices", "disks");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < disks.size(); ++i) {
    const std::string field = item_path(path + ".domain.devices.disks", i);
    const std::string name = text(disks[i]["name"]);
    if (!volumes.contains(name)) {
      errors.invalid(field + ".name", field + ".Name '" + name + "' not found.");
    }
    if (!seen.insert(name).second) {
      errors.invalid(field + ".name",
                     field + " and an earlier disk must not have the same Name '" + name + "'.");
    }
    validate_disk(disks[i], field, errors);
  }
}

void validate_volumes(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& volumes = member(spec, "volumes");
  std::set<std::string> seen;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const Json& volume = volumes[i];
    const std::string field = item_path(path + ".volumes", i);
    const std::string name = text(volume["name"]);
    if (const auto wrong = check_label_name(name)) {
      errors.invalid(field + ".name", "Invalid value: \"" + name + "\": " + *wrong);
    }
    if (!seen.insert(name).second) {
      errors.invalid(field + ".name",
                     field + " and an earlier volume must not have the same Name '" + name + "'.");
    }
    const auto sources = volume.size() - (volume.contains("name") ? 1 : 0);
    if (sources != 1) {
      errors.invalid(field, field + " must have exactly one source type set");
      continue;
    }
    validate_source(volume, field, errors);
  }
}

void validate_boot_orders(const Json& spec, const std::string& path, FieldErrorList& errors) {
  std::set<std::int64_t> seen;
  for (const char* list : {"disks", "interfaces"}) {
    const Json& devices = member(spec, "domain", "devices", list);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const Json& order = member(devices[i], "bootOrder");
      if (!order.is_number_integer()) continue;
      const std::string field = item_path(path + ".domain.devices." + list, i) + ".bootOrder";
      if (order.get<std::int64_t>() < 1) {
        errors.invalid(field, field + " must have a boot order > 0, if supplied");
      } else if (!seen.insert(order.get<std::int64_t>()).second) {
        errors.invalid(field, "Boot order for " + field + " already set for a different device.");
      }
    }
  }
}

}  // namespace virtset::api
