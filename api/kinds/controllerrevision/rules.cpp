#include "api/kinds/controllerrevision/rules.h"

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

class ControllerRevisionRules final : public KindRules {
 public:
  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (member(from, "data") != member(to, "data")) {
      errors.invalid("data", "Invalid value: field is immutable");
    }
  }

  // kubectl: kind and name of the controller.
  std::optional<Json> cell(const std::string& column, const Json& object) const override {
    if (column != "Controller") return std::nullopt;
    const Json& owner = controller_of(object);
    if (owner.is_null()) return "<none>";
    return text(member(owner, "kind")) + "/" + text(member(owner, "name"));
  }
};

}  // namespace

std::shared_ptr<const KindRules> controller_revision_rules() {
  return std::make_shared<ControllerRevisionRules>();
}

}  // namespace virtset::api
