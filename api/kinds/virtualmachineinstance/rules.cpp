#include "api/kinds/virtualmachineinstance/rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <regex>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"
#include "api/kinds/quantity.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

// KubeVirt: labels that only the system sets.
constexpr const char* reserved_labels[] = {
    "kubevirt.io/created-by",  "kubevirt.io/migrationJobUID",
    "kubevirt.io/nodeName",    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/schedulable", "kubevirt.io/install-strategy"};

std::optional<Quantity> quantity(const Json& value) {
  return value.is_null() ? std::nullopt : Quantity::read(value);
}

void validate_memory(const Json& domain, const std::string& path, FieldErrorList& errors) {
  const auto guest = quantity(member(domain, "memory", "guest"));
  const auto request = quantity(member(domain, "resources", "requests", "memory"));
  const auto limit = quantity(member(domain, "resources", "limits", "memory"));
  const std::string requests = path + ".resources.requests.memory";
  const std::string limits = path + ".resources.limits.memory";
  constexpr std::int64_t smallest = 1'000'000;
  if (request && request->negative()) {
    errors.invalid(requests, requests + " must be greater than or equal to 0.");
  }
  if (limit && limit->negative()) {
    errors.invalid(limits, limits + " must be greater than or equal to 0.");
  }
  if (request && !request->negative() && !request->zero() && request->value() < smallest) {
    errors.invalid(requests, requests + " must be greater than or equal to 1M.");
  }
  if (request && limit && !limit->zero() && *request > *limit) {
    errors.invalid(requests, requests + " must be less than or equal to " + limits);
  }
  if (guest && (guest->negative() || guest->value() < smallest)) {
    errors.invalid(path + ".memory.guest", path + ".memory.guest must be at least 1M.");
  }
}

void validate_cpu(const Json& domain, const std::string& path, FieldErrorList& errors) {
  const auto request = quantity(member(domain, "resources", "requests", "cpu"));
  const auto limit = quantity(member(domain, "resources", "limits", "cpu"));
  const std::string requests = path + ".resources.requests.cpu";
  const std::string limits = path + ".resources.limits.cpu";
  if (request && request->negative()) {
    errors.invalid(requests, requests + " must be greater than or equal to 0.");
  }
  if (limit && limit->negative()) {
    errors.invalid(limits, limits + " must be greater than or equal to 0.");
  }
  if (request && limit && !limit->zero() && *request > *limit) {
    errors.invalid(requests, requests + " must be less than or equal to " + limits);
  }
  static const std::regex model_name("[A-Za-z0-9_.-]*");
  if (!std::regex_match(text(member(domain, "cpu", "model")), model_name)) {
    errors.invalid(
        path + ".cpu.model",
        "Invalid value: must be the name of a CPU model: letters, digits, '.', '_', '-'");
  }
}

void validate_machine(const Json& domain, const std::string& path, FieldErrorList& errors) {
  const std::string type = text(member(domain, "machine", "type"));
  const bool known =
      fnmatch("q35*", type.c_str(), 0) == 0 || fnmatch("pc-q35*", type.c_str(), 0) == 0;
  static const std::regex machine_name("[A-Za-z0-9_.-]*");
  if (!type.empty() && (!known || !std::regex_match(type, machine_name))) {
    errors.invalid(path + ".machine.type", path + ".machine.type is not supported: " + type +
                                               " (allowed values: q35*, pc-q35*)");
  }
}

void validate_firmware(const Json& domain, const std::string& path, FieldErrorList& errors) {
  const Json& firmware = member(domain, "firmware");
  static const std::regex uuid(
      "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}");
  const Json& given = member(firmware, "uuid");
  if (given.is_string() && !std::regex_match(text(given), uuid)) {
    errors.invalid(path + ".firmware.uuid", "Invalid value: " + given.dump() + ": must be a UUID");
  }
  static const std::regex serial("[A-Za-z0-9_.+-]*");
  if (!std::regex_match(text(member(firmware, "serial")), serial)) {
    errors.invalid(path + ".firmware.serial",
                   path +
                       ".firmware.serial must be made up of the following characters "
                       "[A-Za-z0-9_.+-]");
  }
}

// Devices that are always, or never, attached so far.
void validate_autoattach(const Json& devices, const std::string& path, FieldErrorList& errors) {
  const struct {
    const char* field;
    bool possible;
  } fixed[] = {{"autoattachGraphicsDevice", false},
               {"autoattachSerialConsole", true},
               {"autoattachMemBalloon", true}};
  for (const auto& [field, possible] : fixed) {
    const Json& value = member(devices, field);
    if (value.is_boolean() && value.get<bool>() != possible) {
      errors.not_supported(path + ".devices." + field,
                           std::string("Unsupported value: ") + value.dump() +
                               ": this version of virtset can do only " +
                               (possible ? "true" : "false"));
    }
  }
}

bool has_pod_network(const Json& spec) {
  for (const Json& network : member(spec, "networks")) {
    if (network.contains("pod")) return true;
  }
  // Without networks the default one is the pod network.
  return member(spec, "networks").empty() &&
         truth(member(spec, "domain", "devices", "autoattachPodInterface"), true);
}

// They go into a request line by line.
void validate_headers(const Json& http_get, const std::string& path, FieldErrorList& errors) {
  const Json& headers = member(http_get, "httpHeaders");
  for (std::size_t i = 0; i < headers.size(); ++i) {
    for (const char* part : {"name", "value"}) {
      const std::string value = text(member(headers[i], part));
      const bool printable = std::all_of(value.begin(), value.end(),
                                         [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
      if (!printable) {
        errors.invalid(item_path(path, i) + "." + part,
                       "Invalid value: must not have control characters in it");
      }
    }
  }
}

void validate_probe(const Json& spec, const char* name, const std::string& path,
                    FieldErrorList& errors) {
  const Json& probe = member(spec, name);
  if (probe.is_null()) return;
  const std::string field = path + "." + name;
  int handlers = 0;
  for (const char* handler : {"httpGet", "tcpSocket"}) {
    const Json& given = member(probe, handler);
    if (given.is_null()) continue;
    ++handlers;
    if (!has_pod_network(spec)) {
      errors.invalid(field + "." + handler,
                     field + "." + handler + " is only allowed if the Pod Network is attached");
    }
    const Json& port = given["port"];
    const bool numeric =
        port.is_string() && !port.get_ref<const std::string&>().empty() &&
        port.get_ref<const std::string&>().find_first_not_of("0123456789") == std::string::npos &&
        port.get_ref<const std::string&>().size() <= 5;
    const std::int64_t number = numeric ? std::stoll(text(port)) : integer(port, 0);
    if (number < 1 || number > 65535) {
      errors.invalid(field + "." + handler + ".port",
                     "Invalid value: " + port.dump() + ": must be a number from 1 to 65535");
    }
  }
  validate_headers(member(probe, "httpGet"), field + ".httpGet.httpHeaders", errors);
  if (handlers > 1) {
    errors.invalid(field, field + " must have exactly one probe type set");
  } else if (handlers == 0) {
    errors.required(field, "either " + field + ".tcpSocket or " + field + ".httpGet must be set");
  }
}

void validate_hostname(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& hostname = member(spec, "hostname");
  if (!hostname.is_string() || text(hostname).empty()) return;
  if (const auto wrong = check_label_name(text(hostname))) {
    errors.invalid(
        path + ".hostname",
        path + ".hostname does not conform to the kubernetes DNS_LABEL rules : " + *wrong);
  }
}

class InstanceRules final : public KindRules {
 public:
  void complete_new(Json& object) const override {
    complete_instance_spec(object["spec"]);
    // KubeVirt: set on create; what a user sends as status does not count.
    object["status"] = {{"phase", "Pending"}};
    Json& finalizers = object["metadata"]["finalizers"];
    const Json ours = instance_finalizer;
    if (std::find(finalizers.begin(), finalizers.end(), ours) == finalizers.end()) {
      finalizers.push_back(ours);
    }
  }

  void validate(const Json& object, FieldErrorList& errors) const override {
    validate_instance_spec(object["spec"], "spec", errors);
  }

  void validate_new(const Json& object, FieldErrorList& errors) const override {
    if (!member(object, "spec", "domain", "memory", "guest").is_string() &&
        !member(object, "spec", "domain", "memory", "guest").is_number()) {
      errors.required("spec.domain.memory.guest",
                      "no memory requested, at least one of 'spec.domain.memory.guest' or "
                      "'spec.domain.resources.requests.memory' must be set");
    }
    validate_instance_labels(member(object, "metadata", "labels"), "metadata.labels", errors);
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (from["spec"] != to["spec"]) {
      errors.not_supported("spec",
                           "update of VMI object is restricted: the spec cannot be changed");
    }
  }
};

}  // namespace

std::shared_ptr<const KindRules> instance_rules() { return std::make_shared<InstanceRules>(); }

std::set<std::string> names_of(const Json& list) {
  std::set<std::string> names;
  for (const Json& item : list) names.insert(text(item["name"]));
  return names;
}

void validate_instance_labels(const Json& labels, const std::string& path, FieldErrorList& errors) {
  for (const char* label : reserved_labels) {
    if (!labels.contains(label)) continue;
    errors.not_supported(path, std::string("creation of the following reserved kubevirt.io/ labels "
                                           "on a VMI object is prohibited: ") +
                                   label);
  }
}

// The order is KubeVirt's, because only the first ten causes are told.
void validate_instance_spec(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& domain = member(spec, "domain");
  const std::string domain_path = path + ".domain";
  validate_disks(spec, path, errors);
  validate_volumes(spec, path, errors);
  validate_memory(domain, domain_path, errors);
  validate_cpu(domain, domain_path, errors);
  validate_machine(domain, domain_path, errors);
  validate_firmware(domain, domain_path, errors);
  validate_autoattach(member(domain, "devices"), domain_path, errors);
  validate_networks(spec, path, errors);
  validate_boot_orders(spec, path, errors);
  validate_probe(spec, "readinessProbe", path, errors);
  validate_probe(spec, "livenessProbe", path, errors);
  validate_hostname(spec, path, errors);
}

}  // namespace virtset::api
