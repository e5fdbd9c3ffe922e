#include "daemon/volume_plan.h"

#include <algorithm>
#include <optional>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/persistentvolumeclaim/rules.h"

namespace virtset {

using store::Json;

struct VolumePlanner::Look {
  const store::Key& instance;
  const api::InstanceSpec& spec;
  const std::map<std::string, images::ContainerDisk>& images;
  VolumePlan plan;
};

namespace {

// Ends the making of a plan.
struct Stopped {
  VolumeObstacle obstacle;
};

[[noreturn]] void stop(const std::string& reason, const std::string& message,
                       std::vector<store::Key> awaited) {
  throw Stopped{{{"Synchronized", false, reason, message}, std::move(awaited)}};
}

std::string shown(const store::Key& key) { return key.kind + " " + key.ns + "/" + key.name; }

std::string of_volume(const std::string& disk) { return "volume \"" + disk + "\": "; }

store::Key keyed(const store::Key& instance, bool secret, const std::string& name) {
  return {api::core_group, secret ? api::secret_kind : api::config_map_kind, instance.ns, name};
}

// The bytes under each key.
std::map<std::string, std::string> content_of(const Json& object, bool secret) {
  std::map<std::string, std::string> files;
  for (const char* field : {"data", "binaryData"}) {
    const bool encoded = secret || std::string_view(field) == "binaryData";
    for (const auto& [name, value] : api::member(object, field).items()) {
      const std::string given = api::text(value);
      files[name] = encoded ? api::decode_base64(given).value_or("") : given;
    }
  }
  return files;
}

// KubeVirt: either spelling.
std::string secret_value(const store::Store& store, const store::Key& instance,
                         const std::string& name, const char* lower, const char* camel,
                         const std::string& disk) {
  const store::Key key = keyed(instance, true, name);
  const auto object = store.get(key);
  if (!object) {
    stop("FailedReferenceNotFound",
         of_volume(disk) + shown(key) + " does not exist, waiting for it to appear", {key});
  }
  auto files = content_of(*object->document(), true);
  for (const char* spelling : {lower, camel}) {
    if (const auto it = files.find(spelling); it != files.end()) return std::move(it->second);
  }
  stop("FailedReferenceKeyNotFound",
       of_volume(disk) + shown(key) + " has neither of the keys " + lower + " and " + camel, {key});
}

bool has_answers(const std::map<std::string, std::string>& files) {
  return std::any_of(files.begin(), files.end(), [](const auto& file) {
    std::string name = file.first;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return name == "autounattend.xml" || name == "unattend.xml";
  });
}

}  // namespace

std::variant<VolumePlan, VolumeObstacle> VolumePlanner::plan(
    const store::Key& instance, const api::InstanceSpec& spec,
    const std::map<std::string, images::ContainerDisk>& images) const {
  Look look{instance, spec, images, {}};
  try {
    for (const api::DiskSpec& disk : spec.disks) {
      std::visit([&](const auto& source) { add(look, disk, source); }, disk.source);
    }
    return std::move(look.plan);
  } catch (Stopped& stopped) {
    return std::move(stopped.obstacle);
  }
}

void VolumePlanner::add(Look& look, const api::DiskSpec& disk,
                        const api::ContainerDiskSource&) const {
  const auto image = look.images.find(disk.name);
  if (image != look.images.end()) {
    look.plan.disks.emplace_back(images::Overlay{disk.name, image->second});
  }
}

void VolumePlanner::add(Look& look, const api::DiskSpec& disk,
                        const api::EmptyDiskSource& source) const {
  look.plan.disks.emplace_back(images::EmptyDisk{disk.name, source.capacity});
}

// Kubernetes and cloud-init read meta-data as YAML, of which JSON is a part.
void VolumePlanner::add(Look& look, const api::DiskSpec& disk,
                        const api::CloudInitSource& source) const {
  const store::Key& instance = look.instance;
  std::optional<std::string> user_data = source.user_data;
  std::optional<std::string> network_data = source.network_data;
  if (!source.user_data_secret.empty()) {
    user_data =
        secret_value(store_, instance, source.user_data_secret, "userdata", "userData", disk.name);
  }
  if (!source.network_data_secret.empty()) {
    network_data = secret_value(store_, instance, source.network_data_secret, "networkdata",
                                "networkData", disk.name);
  }
  images::SeedIso iso{disk.name, source.config_drive ? "config-2" : "cidata", {}};
  if (source.config_drive) {
    const Json meta_data{{"instance_id", instance.name + "." + instance.ns},
                         {"uuid", look.spec.uuid},
                         {"hostname", look.spec.host_name}};
    iso.files["openstack/latest/meta_data.json"] = meta_data.dump();
    iso.files["openstack/latest/user_data"] = user_data.value_or("");
    if (network_data) iso.files["openstack/latest/network_data.json"] = *network_data;
  } else {
    const Json meta_data{{"instance-id", look.spec.uuid}, {"local-hostname", look.spec.host_name}};
    iso.files["meta-data"] = meta_data.dump();
    iso.files["user-data"] = user_data.value_or("");
    if (network_data) iso.files["network-config"] = *network_data;
  }
  look.plan.disks.emplace_back(std::move(iso));
}

void VolumePlanner::add(Look& look, const api::DiskSpec& disk,
                        const api::KeyedSource& source) const {
  const store::Key key = keyed(look.instance, source.secret, source.name);
  images::SeedIso iso{disk.name, source.label, {}};
  const auto object = store_.get(key);
  if (object) {
    iso.files = content_of(*object->document(), source.secret);
  } else if (!source.optional) {
    stop("FailedReferenceNotFound",
         of_volume(disk.name) + shown(key) + " does not exist, waiting for it to appear", {key});
  }
  if (source.answers && !has_answers(iso.files)) {
    stop("FailedReferenceKeyNotFound",
         of_volume(disk.name) + shown(key) +
             " has neither of the keys autounattend.xml and unattend.xml",
         {key});
  }
  look.plan.disks.emplace_back(std::move(iso));
}

void VolumePlanner::add(Look& look, const api::DiskSpec& disk,
                        const api::ClaimSource& source) const {
  const store::Key key{api::core_group, api::claim_kind, look.instance.ns, source.claim};
  store::Key data_volume{api::cdi_group, api::data_volume_kind, look.instance.ns, source.claim};
  const auto maker = store_.get(data_volume);
  const auto claim = store_.get(key);
  if (maker) {
    const auto document = maker->document();
    const Json& status = api::member(*document, "status");
    const std::string phase = api::text(api::member(status, "phase"));
    if (!claim || phase != "Succeeded") {
      const std::string progress = api::text(api::member(status, "progress"));
      // KubeVirt's condition, and its words for what is not filled yet.
      throw Stopped{{{"DataVolumesReady", false, "NotAllDVsReady",
                      of_volume(disk.name) + shown(data_volume) + " is " +
                          (phase.empty() ? "Pending" : phase) +
                          (progress.empty() || progress == "N/A" ? "" : ", " + progress)},
                     {key, data_volume},
                     false}};
    }
  }
  if (!claim || api::is_deleting(*claim->document())) {
    // KubeVirt's reason and words.
    stop("FailedPvcNotFound",
         of_volume(disk.name) + "PVC " + key.ns + "/" + key.name +
             (claim ? " is being deleted, waiting for another to appear"
                    : " does not exist, waiting for it to appear"),
         {key, data_volume});
  }
  const auto document = claim->document();
  if (api::text(api::member(*document, "status", "phase")) != "Bound") {
    throw Stopped{{{"Synchronized", false, "PvcNotBound",
                    of_volume(disk.name) + "PVC " + key.ns + "/" + key.name + " is not bound yet"},
                   {key, data_volume},
                   false}};
  }
  const ClaimUsers::Wanted use = wanted(key, disk, source);
  look.plan.claims.push_back(use);
  const std::string file = volumes_.file(claim->uid());
  // A SATA disk cannot be read-only: what the guest writes to it is thrown away.
  if (source.ephemeral ||
      (use.use == ClaimUsers::Use::read && !disk.cdrom && disk.bus != "virtio")) {
    look.plan.disks.emplace_back(
        images::VolumeOverlay{disk.name, file, api::bytes_of_claim(*document)});
    return;
  }
  look.plan.attached[disk.name] = {
      .file = file,
      .format = "raw",
      .read_only = use.use == ClaimUsers::Use::read || source.read_only,
      .shareable = use.use == ClaimUsers::Use::share};
}

ClaimUsers::Wanted VolumePlanner::wanted(const store::Key& key, const api::DiskSpec& disk,
                                         const api::ClaimSource& source) const {
  const bool only_reads = source.ephemeral || source.read_only || disk.cdrom || disk.read_only;
  const ClaimUsers::Use use = full_use_of(key);
  // An overlay over what others write to would be torn.
  if (use == ClaimUsers::Use::share && !source.ephemeral) return {key, use};
  return {key, only_reads ? ClaimUsers::Use::read : use};
}

// The most that the claim lets one have.
ClaimUsers::Use VolumePlanner::full_use_of(const store::Key& key) const {
  const auto claim = store_.get(key);
  if (!claim) return ClaimUsers::Use::write;
  switch (api::sharing_of(api::member(*claim->document(), "spec"))) {
    case api::Sharing::readers:
      return ClaimUsers::Use::read;
    case api::Sharing::writers:
      return ClaimUsers::Use::share;
    case api::Sharing::exclusive:
      break;
  }
  return ClaimUsers::Use::write;
}

std::vector<ClaimUsers::Wanted> VolumePlanner::claims_of_saved(const store::Object& saved) const {
  std::vector<ClaimUsers::Wanted> claims;
  const auto document = saved.document();
  for (const Json& name : api::member(*document, "spec", "claims")) {
    const store::Key key{api::core_group, api::claim_kind, saved.key().ns, api::text(name)};
    if (store_.get(key)) claims.push_back({key, full_use_of(key)});
  }
  return claims;
}

std::vector<ClaimUsers::Wanted> VolumePlanner::claims(const store::Key& instance,
                                                      const api::InstanceSpec& spec) const {
  std::vector<ClaimUsers::Wanted> claims;
  for (const api::DiskSpec& disk : spec.disks) {
    const auto* source = std::get_if<api::ClaimSource>(&disk.source);
    if (!source) continue;
    claims.push_back(
        wanted({api::core_group, api::claim_kind, instance.ns, source->claim}, disk, *source));
  }
  return claims;
}

}  // namespace virtset
