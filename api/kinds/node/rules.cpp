#include "api/kinds/node/rules.h"

#include <set>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

// Kubernetes: Ready by its condition, and whether the node is cordoned.
std::string shown_status(const Json& node) {
  std::string shown = "Unknown";
  for (const Json& condition : member(node, "status", "conditions")) {
    if (text(member(condition, "type")) != "Ready") continue;
    shown = text(member(condition, "status")) == "True" ? "Ready" : "NotReady";
  }
  return truth(member(node, "spec", "unschedulable")) ? shown + ",SchedulingDisabled" : shown;
}

// Kubernetes: from labels node-role.kubernetes.io/<role>, and an older one that has it as value.
std::string shown_roles(const Json& node) {
  constexpr std::string_view prefix = "node-role.kubernetes.io/";
  std::set<std::string> roles;
  for (const auto& [key, value] : member(node, "metadata", "labels").items()) {
    if (key.starts_with(prefix)) roles.insert(key.substr(prefix.size()));
    if (key == "kubernetes.io/role") roles.insert(text(value));
  }
  roles.erase("");
  std::string shown;
  for (const std::string& role : roles) shown += (shown.empty() ? "" : ",") + role;
  return shown.empty() ? "<none>" : shown;
}

std::string shown_address(const Json& node, const std::string& type) {
  for (const Json& address : member(node, "status", "addresses")) {
    if (text(member(address, "type")) == type) return text(member(address, "address"));
  }
  return "<none>";
}

void check_taint(const Json& taint, const std::string& path, FieldErrorList& errors) {
  const std::string key = text(member(taint, "key"));
  const std::string value = text(member(taint, "value"));
  if (const auto wrong = check_label_key(key)) {
    errors.invalid(path + ".key", "Invalid value: \"" + key + "\": " + *wrong);
  }
  if (const auto wrong = check_label_value(value)) {
    errors.invalid(path + ".value", "Invalid value: \"" + value + "\": " + *wrong);
  }
}

class NodeRules final : public KindRules {
 public:
  void validate(const Json& object, FieldErrorList& errors) const override {
    std::set<std::pair<std::string, std::string>> seen;
    std::size_t index = 0;
    for (const Json& taint : member(object, "spec", "taints")) {
      const std::string path = item_path("spec.taints", index++);
      check_taint(taint, path, errors);
      const std::string key = text(member(taint, "key"));
      const std::string effect = text(member(taint, "effect"));
      if (!seen.emplace(key, effect).second) {
        errors.duplicate(path, "Duplicate value: taints must be unique by key and effect");
      }
    }
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    for (const char* field : {"podCIDR", "podCIDRs"}) {
      if (member(from, "spec", field) != member(to, "spec", field)) {
        errors.forbidden(std::string("spec.") + field,
                         "Forbidden: may only be changed by the server, see --network-cidr");
      }
    }
    const std::string provider = text(member(from, "spec", "providerID"));
    if (!provider.empty() && provider != text(member(to, "spec", "providerID"))) {
      errors.forbidden("spec.providerID", "Forbidden: cannot be changed once it is set");
    }
  }

  std::optional<Json> cell(const std::string& column, const Json& object) const override {
    if (column == "Status") return shown_status(object);
    if (column == "Roles") return shown_roles(object);
    if (column == "Internal-IP") return shown_address(object, "InternalIP");
    if (column == "External-IP") return shown_address(object, "ExternalIP");
    if (column == "Container-Runtime" &&
        text(member(object, "status", "nodeInfo", "containerRuntimeVersion")).empty()) {
      return "<unknown>";
    }
    return std::nullopt;
  }
};

}  // namespace

std::shared_ptr<const KindRules> node_rules() { return std::make_shared<NodeRules>(); }

}  // namespace virtset::api
