#include "api/kinds/secret/rules.h"

#include <map>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/kinds/keyed_data.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

// Kubernetes: keys that secrets of these types must have.
const std::map<std::string, std::vector<const char*>> required_keys = {
    {"kubernetes.io/tls", {"tls.crt", "tls.key"}},
    {"kubernetes.io/dockerconfigjson", {".dockerconfigjson"}},
    {"kubernetes.io/dockercfg", {".dockercfg"}},
    {"kubernetes.io/ssh-auth", {"ssh-privatekey"}}};

class SecretRules final : public KeyedDataRules {
 public:
  SecretRules() : KeyedDataRules({"data"}) {}

  void complete(Json& object) const override {
    const auto text = object.find("stringData");
    if (text == object.end()) return;
    for (const auto& [key, value] : text->items()) {
      object["data"][key] = encode_base64(value.get_ref<const std::string&>());
    }
    object.erase(text);
  }

  void validate(const Json& object, FieldErrorList& errors) const override {
    KeyedDataRules::validate(object, errors);
    const auto required = required_keys.find(text(member(object, "type")));
    if (required == required_keys.end()) return;
    for (const char* key : required->second) {
      if (!member(object, "data").contains(key)) {
        errors.required("data[" + std::string(key) + "]", "Required value");
      }
    }
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (member(from, "type") != member(to, "type")) {
      errors.invalid("type",
                     "Invalid value: " + member(to, "type").dump() + ": field is immutable");
    }
    KeyedDataRules::validate_change(from, to, errors);
  }
};

}  // namespace

std::shared_ptr<const KindRules> secret_rules() { return std::make_shared<SecretRules>(); }

}  // namespace virtset::api
