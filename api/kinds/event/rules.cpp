#include "api/kinds/event/rules.h"

#include <algorithm>

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

class EventRules final : public KindRules {
 public:
  void validate(const Json& object, FieldErrorList& errors) const override {
    const std::string ns = text(member(object, "involvedObject", "namespace"));
    const std::string own = text(member(object, "metadata", "namespace"));
    if (!ns.empty() && !own.empty() && ns != own) {
      errors.invalid("involvedObject.namespace",
                     "Invalid value: \"" + ns + "\": does not match the event's namespace");
    }
  }

  // kubectl prints the kind in lower case before the name.
  std::optional<Json> cell(const std::string& column, const Json& object) const override {
    if (column != "Object") return std::nullopt;
    std::string kind = text(member(object, "involvedObject", "kind"));
    std::transform(kind.begin(), kind.end(), kind.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return kind + "/" + text(member(object, "involvedObject", "name"));
  }
};

}  // namespace

std::shared_ptr<const KindRules> event_rules() { return std::make_shared<EventRules>(); }

}  // namespace virtset::api
