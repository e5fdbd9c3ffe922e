// Conditions in a status, as KubeVirt keeps them.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/kinds/times.h"

namespace virtset::api {

struct Condition {
  std::string type;
  bool status = false;
  std::string reason;
  std::string message;
};

// Null if there is none of that type.
const nlohmann::json& find_condition(const nlohmann::json& status, const std::string& type);

bool condition_is_true(const nlohmann::json& status, const std::string& type);

// KubeVirt: an entry is replaced only if its status or reason changed, so that times are stable. A
// message alone is brought up to date without touching the times.
void set_condition(nlohmann::json& status, const Condition& condition, Time now);

void remove_condition(nlohmann::json& status, const std::string& type);

}  // namespace virtset::api
