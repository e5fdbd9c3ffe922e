#include <array>
#include <regex>
#include <set>

#include "api/kinds/json_access.h"
#include "api/kinds/virtualmachineinstance/rules.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::array models = {"virtio", "e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139"};

void validate_mac(const Json& interface, const std::string& field, FieldErrorList& errors) {
  const std::string mac = text(member(interface, "macAddress"));
  if (mac.empty()) return;
  static const std::regex grammar(
      "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}");
  if (!std::regex_match(mac, grammar)) {
    errors.invalid(field, "interface " + field + " has malformed MAC address (" + mac + ").");
    return;
  }
  // The lowest bit of the first byte makes it a group's address.
  if (std::stoi(mac.substr(0, 2), nullptr, 16) & 1) {
    errors.invalid(field, "interface " + field + " has a multicast MAC address (" + mac + ").");
  } else if (mac == "02:00:00:00:00:00" || mac == "02-00-00-00-00-00") {
    errors.invalid(field, "interface " + field + " has a reserved MAC address (" + mac + ").");
  }
}

void validate_interface(const Json& interface, const std::string& field, FieldErrorList& errors) {
  static const std::regex name_grammar("[A-Za-z0-9-_]+");
  if (!std::regex_match(text(interface["name"]), name_grammar)) {
    errors.invalid(
        field + ".name",
        "Network interface name can only contain alphabetical characters, numbers, dashes "
        "(-) or underscores (_)");
  }
  const int bindings =
      (interface.contains("masquerade") ? 1 : 0) + (interface.contains("bridge") ? 1 : 0);
  if (bindings != 1) {
    errors.invalid(field, field + " must have exactly one binding: masquerade or bridge");
  }
  const std::string model = text(member(interface, "model"));
  if (!model.empty() && std::find(models.begin(), models.end(), model) == models.end()) {
    errors.not_supported(field + ".model",
                         "interface " + field + ".name uses model " + model +
                             " that is not supported: virtio, e1000, e1000e, igb, "
                             "ne2k_pci, pcnet, rtl8139");
  }
  validate_mac(interface, field + ".macAddress", errors);
}

}  // namespace

void validate_networks(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& networks = member(spec, "networks");
  const Json& interfaces = member(spec, "domain", "devices", "interfaces");
  const std::string interfaces_path = path + ".domain.devices.interfaces";
  const std::set<std::string> network_names = names_of(networks);
  const std::set<std::string> interface_names = names_of(interfaces);

  std::set<std::string> seen;
  int pod_networks = 0;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const std::string field = item_path(path + ".networks", i);
    const std::string name = text(networks[i]["name"]);
    if (!networks[i].contains("pod")) {
      errors.required(field, "should have a network type");
    } else if (++pod_networks == 2) {
      errors.duplicate(
          path + ".interfaces",
          "more than one interface is connected to a pod network in " + path + ".interfaces");
    }
    if (!seen.insert(name).second) {
      errors.duplicate(field + ".name", "Network with name \"" + name +
                                            "\" already exists, every "
                                            "network must have a unique name");
    }
    if (!interface_names.contains(name)) {
      errors.required(field + ".name", field + ".name '" + name + "' not found.");
    }
  }
  seen.clear();
  for (std::size_t i = 0; i < interfaces.size(); ++i) {
    const std::string field = item_path(interfaces_path, i);
    const std::string name = text(interfaces[i]["name"]);
    if (!network_names.contains(name)) {
      errors.invalid(field + ".name", field + ".name '" + name + "' not found.");
    }
    if (!seen.insert(name).second) {
      errors.duplicate(field + ".name",
                       "Only one interface can be connected to one specific network");
    }
    validate_interface(interfaces[i], field, errors);
  }
}

}  // namespace virtset::api
