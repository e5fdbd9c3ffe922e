#include "api/kinds/virtualmachinepool/rules.h"

#include <algorithm>
#include <charconv>

#include "api/kinds/duration.h"
#include "api/kinds/json_access.h"
#include "api/kinds/label_selector.h"
#include "api/kinds/names.h"
#include "api/kinds/virtualmachine/rules.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// "25%" as 25.
std::optional<std::int64_t> percent_in(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  return number_in(text.substr(0, text.size() - 1));
}

std::string invalid_value(const Json& value, const std::string& expected) {
  return "Invalid value: " + json_text(value) + ": " + expected;
}

void validate_selector(const Json& spec, FieldErrorList& errors) {
  try {
    const LabelSelector selector = LabelSelector::from_object(spec["selector"]);
    const Json& labels = member(spec, "virtualMachineTemplate", "metadata", "labels");
    if (!selector.matches(labels))
      errors.invalid("spec.selector", "selector does not match labels.");
  } catch (const BadSelector& error) {
    errors.invalid("spec.selector", std::string("Invalid value: ") + error.what());
  }
}

void validate_template_labels(const Json& spec, FieldErrorList& errors) {
  const Json& labels = member(spec, "virtualMachineTemplate", "metadata", "labels");
  const std::string field = "spec.virtualMachineTemplate.metadata.labels";
  for (const auto& [key, value] : labels.items()) {
    if (const auto wrong = check_label_key(key)) {
      errors.invalid(field, invalid_value(key, *wrong));
    }
    if (const auto wrong = check_label_value(text(value))) {
      errors.invalid(field, invalid_value(value, *wrong));
    }
  }
}

void validate_max_unavailable(const Json& value, FieldErrorList& errors) {
  if (value.is_null()) return;
  const std::string field = "spec.maxUnavailable";
  if (value.is_string()) {
    const auto percent = percent_in(value.get_ref<const std::string&>());
    if (!percent || *percent < 1 || *percent > 100) {
      errors.invalid(field, invalid_value(value,
                                          "must be a number above 0, or a percentage from "
                                          "\"1%\" to \"100%\""));
    }
  } else if (!value.is_number_integer() || integer(value, 0) < 1 || integer(value, 0) > INT32_MAX) {
    errors.invalid(field, invalid_value(value, "must be a number above 0, or a percentage"));
  }
}

// KubeVirt: names them in this order.
void validate_strategy(const Json& spec, const char* name, FieldErrorList& errors) {
  std::string found;
  int count = 0;
  for (const char* strategy : {"unmanaged", "opportunistic", "proactive"}) {
    if (!member(spec, name).contains(strategy)) continue;
    found += (count++ ? ", " : "") + std::string(strategy);
  }
  if (count < 2) return;
  errors.invalid(
      std::string("spec.") + name,
      "only one strategy can be configured at a time: but found " + found + " strategies");
}

// Its key and values, and that the operator is one.
void check_requirement(const Json& requirement, const std::string& field, FieldErrorList& errors) {
  try {
    LabelSelector::from_node_requirements(Json::array({requirement}));
  } catch (const BadSelector& error) {
    errors.invalid(field, std::string("Invalid value: ") + error.what());
  }
}

void validate_policy(const Json& strategy, const std::string& path, FieldErrorList& errors) {
  const Json& selectors = member(strategy, "proactive", "selectionPolicy", "selectors");
  const std::string field = path + ".proactive.selectionPolicy.selectors";
  try {
    if (selectors.contains("labelSelector")) LabelSelector::from_object(selectors["labelSelector"]);
  } catch (const BadSelector& error) {
    errors.invalid(field + ".labelSelector", std::string("Invalid value: ") + error.what());
  }
  const Json& requirements = member(selectors, "nodeSelectorRequirementMatcher");
  for (std::size_t i = 0; i < requirements.size(); ++i) {
    const std::string op = text(member(requirements[i], "operator"));
    const Json& values = member(requirements[i], "values");
    const std::string values_field =
        item_path(field + ".nodeSelectorRequirementMatcher", i) + ".values";
    if ((op == "In" || op == "NotIn") && values.empty()) {
      errors.required(values_field,
                      "Required value: must be specified when `operator` is '" + op + "'");
    } else if ((op == "Gt" || op == "Lt") && (values.size() != 1 || !number_in(text(values[0])))) {
      errors.invalid(values_field, invalid_value(values, "must be one integer for '" + op + "'"));
    } else if ((op == "Exists" || op == "DoesNotExist") && !values.empty()) {
      errors.forbidden(values_field,
                       "Forbidden: may not be specified when `operator` is '" + op + "'");
    } else {
      check_requirement(requirements[i], item_path(field + ".nodeSelectorRequirementMatcher", i),
                        errors);
    }
  }
}

void validate_healing(const Json& spec, FieldErrorList& errors) {
  const Json& duration = member(spec, "autohealing", "minFailingToStartDuration");
  if (duration.is_null()) return;
  const auto parsed = parse_duration(text(duration));
  if (!parsed || parsed->count() < 0) {
    errors.invalid("spec.autohealing.minFailingToStartDuration",
                   invalid_value(duration, "must be a duration such as \"5m\" or \"1h30m\""));
  }
}

// Ours are checked like fields.
void validate_annotations(const Json& object, FieldErrorList& errors) {
  const Json& annotations = member(object, "metadata", "annotations");
  const auto check = [&](const char* name, const char* expected, auto is_right) {
    const Json& value = member(annotations, name);
    if (value.is_null() || is_right(text(value))) return;
    errors.invalid(std::string("metadata.annotations[") + name + "]",
                   invalid_value(value, std::string("must be ") + expected));
  };
  const auto is_number = [](const std::string& value) {
    const auto number = number_in(value);
    return number && *number >= 1 && *number <= INT32_MAX;
  };
  check(progress_deadline_annotation, "a number of seconds above 0", is_number);
  check(min_ready_annotation, "a number of seconds", [](const std::string& value) {
    const auto number = number_in(value);
    return number && *number >= 0 && *number <= INT32_MAX;
  });
  check(rollback_annotation, "the number of a ControllerRevision of the pool", is_number);
  check(max_surge_annotation, "a number, or a percentage from \"0%\" to \"100%\"",
        [](const std::string& value) {
          const auto number = number_in(value);
          const auto percent = percent_in(value);
          return (number && *number >= 0 && *number <= INT32_MAX) ||
                 (percent && *percent >= 0 && *percent <= 100);
        });
  check(heal_never_ready_annotation, "a duration such as \"10m\"", [](const std::string& value) {
    const auto duration = parse_duration(value);
    return duration && duration->count() > 0;
  });
  // Each of them would need disks that nobody had before, and that nobody would need after it.
  const Json& disks =
      member(object, "spec", "virtualMachineTemplate", "spec", "dataVolumeTemplates");
  if (annotations.contains(max_surge_annotation) && !disks.empty()) {
    errors.invalid(std::string("metadata.annotations[") + max_surge_annotation + "]",
                   invalid_value(annotations[max_surge_annotation],
                                 "must not be given while spec.virtualMachineTemplate.spec has "
                                 "dataVolumeTemplates"));
  }
}

class PoolRules final : public KindRules {
 public:
  // The user guide of KubeVirt has these older names.
  void complete(Json& object) const override {
    Json& spec = object["spec"];
    const struct {
      const char* old_name;
      const char* name;
    } renamed[] = {{"appendPostfixToConfigMapReferences", "appendIndexToConfigMapRefs"},
                   {"AppendPostfixToConfigMapReferences", "appendIndexToConfigMapRefs"},
                   {"appendPostfixToSecretReferences", "appendIndexToSecretRefs"},
                   {"AppendPostfixToSecretReferences", "appendIndexToSecretRefs"}};
    for (const auto& [old_name, name] : renamed) {
      const auto it = spec.find(old_name);
      if (it == spec.end()) continue;
      const bool wanted = truth(*it);
      spec.erase(it);
      spec["nameGeneration"][name] = wanted;
    }
  }

  // The order of causes is KubeVirt's.
  void validate(const Json& object, FieldErrorList& errors) const override {
    const Json& spec = object["spec"];
    validate_machine_spec(spec["virtualMachineTemplate"]["spec"],
                          "spec.virtualMachineTemplate.spec", errors);
    validate_template_labels(spec, errors);
    validate_selector(spec, errors);
    validate_max_unavailable(member(spec, "maxUnavailable"), errors);
    for (const char* strategy : {"updateStrategy", "scaleInStrategy"}) {
      validate_strategy(spec, strategy, errors);
      validate_policy(member(spec, strategy), std::string("spec.") + strategy, errors);
    }
    validate_healing(spec, errors);
    validate_annotations(object, errors);
  }

  // The names of the virtual machines are labels too.
  void validate_new(const Json& object, FieldErrorList& errors) const override {
    constexpr std::size_t longest = 63;
    const std::string name = text(member(object, "metadata", "name"));
    const auto last = std::max<std::int64_t>(1, integer(member(object, "spec", "replicas"), 1)) - 1;
    if (name.size() + 1 + std::to_string(last).size() > longest) {
      errors.invalid("metadata.name",
                     "Invalid value: \"" + name +
                         "\": must leave room for the index in the names of virtual machines, "
                         "which are no more than 63 characters");
    }
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (from["spec"]["selector"] != to["spec"]["selector"]) {
      errors.invalid("spec.selector", "selector is immutable after creation.");
    }
  }
};

}  // namespace

std::shared_ptr<const KindRules> pool_rules() { return std::make_shared<PoolRules>(); }

std::optional<std::int64_t> scaled(const Json& number_or_percent, std::int64_t replicas,
                                   Rounding rounding) {
  if (number_or_percent.is_number_integer()) return number_or_percent.get<std::int64_t>();
  const std::string given = text(number_or_percent);
  if (const auto number = number_in(given)) return number;
  const auto percent = percent_in(given);
  if (!percent) return std::nullopt;
  return (replicas * *percent + (rounding == Rounding::up ? 99 : 0)) / 100;
}

}  // namespace virtset::api
