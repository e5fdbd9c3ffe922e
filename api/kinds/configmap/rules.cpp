#include "api/kinds/configmap/rules.h"

#include "api/kinds/keyed_data.h"

namespace virtset::api {

namespace {

class ConfigMapRules final : public KindRules {
 public:
  void validate(const nlohmann::json& object, FieldErrorList& errors) const override {
    check_keyed_data(object, {"data", "binaryData"}, errors);
  }
  void validate_change(const nlohmann::json& from, const nlohmann::json& to,
                       FieldErrorList& errors) const override {
    check_immutable(from, to, {"data", "binaryData"}, errors);
  }
  std::optional<nlohmann::json> cell(const std::string& column,
                                     const nlohmann::json& object) const override {
    if (column != "Data") return std::nullopt;
    return count_keys(object, {"data", "binaryData"});
  }
};

}  // namespace

std::shared_ptr<const KindRules> config_map_rules() { return std::make_shared<ConfigMapRules>(); }

}  // namespace virtset::api
