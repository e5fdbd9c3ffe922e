#include "api/kinds/conditions.h"

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

}  // namespace

const Json& find_condition(const Json& status, const std::string& type) {
  static const Json none;
  for (const Json& condition : member(status, "conditions")) {
    if (text(member(condition, "type")) == type) return condition;
  }
  return none;
}

bool condition_is_true(const Json& status, const std::string& type) {
  return text(member(find_condition(status, type), "status")) == "True";
}

void set_condition(Json& status, const Condition& condition, Time now) {
  const char* value = condition.status ? "True" : "False";
  Json& conditions = status["conditions"];
  if (conditions.is_null()) conditions = Json::array();
  Json entry{{"type", condition.type},
             {"status", value},
             {"lastProbeTime", nullptr},
             {"lastTransitionTime", format_time(now)}};
  if (!condition.reason.empty()) entry["reason"] = condition.reason;
  if (!condition.message.empty()) entry["message"] = condition.message;
  for (Json& existing : conditions) {
    if (text(member(existing, "type")) != condition.type) continue;
    const bool same = text(member(existing, "status")) == value &&
                      text(member(existing, "reason")) == condition.reason;
    if (!same) {
      existing = std::move(entry);
    } else if (text(member(existing, "message")) != condition.message) {
      existing["message"] = condition.message;
    }
    return;
  }
  conditions.push_back(std::move(entry));
}

void remove_condition(Json& status, const std::string& type) {
  const auto it = status.find("conditions");
  if (it == status.end()) return;
  Json kept = Json::array();
  for (Json& condition : *it) {
    if (text(member(condition, "type")) != type) kept.push_back(std::move(condition));
  }
  if (kept.empty()) {
    status.erase(it);
  } else {
    *it = std::move(kept);
  }
}

}  // namespace virtset::api
