// The part of Kubernetes' JSONPath that printer columns use: .a.b, [0], [?(@.type=="Ready")].
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace virtset::api {

class JsonPath {
 public:
  JsonPath() = default;
  // Throws std::invalid_argument for what it does not know: paths come from our own declarations.
  explicit JsonPath(std::string_view text);

  // The value there, or null. Valid as long as `root`.
  const nlohmann::json* find(const nlohmann::json& root) const;

 private:
  struct Step {
    enum class Type { member, index, filter };
    Type type;
    std::string name;  // of the member, or of the one that the filter looks at
    std::size_t index = 0;
    std::string value;  // that the filter wants
  };
  std::vector<Step> steps_;
};

}  // namespace virtset::api
