#include "api/kinds/accessreview/rules.h"

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

class AccessReviewRules final : public KindRules {
 public:
  void validate(const Json& object, FieldErrorList& errors) const override {
    const Json& spec = member(object, "spec");
    const bool resource = member(spec, "resourceAttributes").is_object();
    const bool path = member(spec, "nonResourceAttributes").is_object();
    if (resource == path) {
      errors.invalid("spec.resourceAttributes",
                     "Invalid value: exactly one of nonResourceAttributes or resourceAttributes "
                     "must be specified");
    }
  }
  void answer(Json& object) const override {
    object["status"] = {{"allowed", true},
                        {"reason", "whoever may use this API may do everything"}};
  }
};

class RulesReviewRules final : public KindRules {
 public:
  void answer(Json& object) const override {
    const Json everything = Json::array({"*"});
    const Json resources{
        {"verbs", everything}, {"apiGroups", everything}, {"resources", everything}};
    const Json paths{{"verbs", everything}, {"nonResourceURLs", everything}};
    object["status"] = {{"resourceRules", Json::array({resources})},
                        {"nonResourceRules", Json::array({paths})},
                        {"incomplete", false}};
  }
};

class SubjectReviewRules final : public KindRules {
 public:
  void answer(Json& object) const override {
    object["status"]["userInfo"] = {{"username", "admin"},
                                    {"groups", {"system:masters", "system:authenticated"}}};
  }
};

}  // namespace

std::shared_ptr<const KindRules> self_subject_access_review_rules() {
  return std::make_shared<AccessReviewRules>();
}
std::shared_ptr<const KindRules> self_subject_rules_review_rules() {
  return std::make_shared<RulesReviewRules>();
}
std::shared_ptr<const KindRules> self_subject_review_rules() {
  return std::make_shared<SubjectReviewRules>();
}

}  // namespace virtset::api
