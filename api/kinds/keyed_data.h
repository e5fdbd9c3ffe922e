// What ConfigMaps and Secrets have in common: data under keys.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kind.h"

namespace virtset::api {

class KeyedDataRules : public KindRules {
 public:
  // The fields that hold data, each a map of strings.
  explicit KeyedDataRules(std::vector<std::string> fields) : fields_(std::move(fields)) {}

  // Kubernetes: keys of up to 253 letters, digits, "-", "_" and ".", none of them in two of the
  // fields, and at most 1 MiB in all.
  void validate(const nlohmann::json& object, FieldErrorList& errors) const override;
  // Kubernetes: once `immutable` is true, neither it nor the data can be changed.
  void validate_change(const nlohmann::json& from, const nlohmann::json& to,
                       FieldErrorList& errors) const override;
  // The column Data: the number of keys.
  std::optional<nlohmann::json> cell(const std::string& column,
                                     const nlohmann::json& object) const override;

 private:
  std::vector<std::string> fields_;
};

}  // namespace virtset::api
