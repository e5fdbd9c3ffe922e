#include "api/kinds/virtualmachineinstancereplicaset/rules.h"

#include "api/kinds/json_access.h"
#include "api/kinds/label_selector.h"
#include "api/kinds/names.h"
#include "api/kinds/virtualmachineinstance/rules.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

void validate_template_labels(const Json& labels, FieldErrorList& errors) {
  if (!labels.is_object()) return;
  const std::string field = "spec.template.metadata.labels";
  for (const auto& [key, value] : labels.items()) {
    if (const auto wrong = check_label_key(key)) {
      errors.invalid(field, "Invalid value: \"" + key + "\": " + *wrong);
    }
    if (const auto wrong = check_label_value(text(value))) {
      errors.invalid(field, "Invalid value: \"" + text(value) + "\": " + *wrong);
    }
  }
}

class ReplicaSetRules final : public KindRules {
 public:
  // KubeVirt's controller writes these as its first step.
  void complete_new(Json& object) const override {
    Json& annotations = object["metadata"]["annotations"];
    annotations["kubevirt.io/latest-observed-api-version"] = "v1";
    annotations["kubevirt.io/storage-observed-api-version"] = "v1";
  }

  void validate(const Json& object, FieldErrorList& errors) const override {
    const Json& spec = object["spec"];
    validate_instance_spec(spec["template"]["spec"], "spec.template.spec", errors);
    const Json& labels = member(spec, "template", "metadata", "labels");
    validate_template_labels(labels, errors);
    // KubeVirt: the selector comes last, and is not immutable.
    try {
      const LabelSelector selector = LabelSelector::from_object(spec["selector"]);
      if (!selector.matches(labels)) {
        errors.invalid("spec.selector", "selector does not match labels.");
      } else if (labels.empty()) {
        // KubeVirt admits this and then never does anything about it.
        errors.required(
            "spec.template.metadata.labels",
            "Required value: the template needs labels by which its replicas are found");
      }
    } catch (const BadSelector& error) {
      errors.invalid("spec.selector", std::string("Invalid value: ") + error.what());
    }
  }
};

}  // namespace

std::shared_ptr<const KindRules> replica_set_rules() { return std::make_shared<ReplicaSetRules>(); }

}  // namespace virtset::api
