// YAML in and out, through libyaml, as the JSON that everything else works on.
#pragma once

#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace virtset::api {

class BadYaml : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads one document. Scalars become what kubectl makes of them (YAML 1.1: yes and on are true).
// Limits on depth and on the number of values keep nested and aliased bombs out. Throws BadYaml
// with the line.
nlohmann::json parse_yaml(std::string_view text);

// Block style, keys in order, strings quoted where a reader would take them for something else;
// "?" in place of what is not UTF-8.
std::string to_yaml(const nlohmann::json& value);

}  // namespace virtset::api
