#include "api/kinds/json_path.h"

#include <stdexcept>

namespace virtset::api {

JsonPath::JsonPath(std::string_view text) {
  const std::string whole(text);
  while (!text.empty()) {
    if (text.front() == '.') {
      const auto end = text.find_first_of(".[", 1);
      steps_.push_back({Step::Type::member, std::string(text.substr(1, end - 1))});
      text = end == text.npos ? "" : text.substr(end);
      continue;
    }
    const auto end = text.find(']');
    if (text.front() != '[' || end == text.npos) throw std::invalid_argument("JSONPath " + whole);
    const std::string_view inside = text.substr(1, end - 1);
    constexpr std::string_view filter = "?(@.";
    if (inside.starts_with(filter)) {
      const auto equals = inside.find("==\"");
      if (equals == inside.npos || !inside.ends_with("\")")) {
        throw std::invalid_argument("JSONPath " + whole);
      }
      steps_.push_back({Step::Type::filter,
                        std::string(inside.substr(filter.size(), equals - filter.size())), 0,
                        std::string(inside.substr(equals + 3, inside.size() - equals - 5))});
    } else {
      steps_.push_back({Step::Type::index, "", std::stoul(std::string(inside))});
    }
    text.remove_prefix(end + 1);
  }
}

const nlohmann::json* JsonPath::find(const nlohmann::json& root) const {
  const nlohmann::json* at = &root;
  for (const Step& step : steps_) {
    const nlohmann::json* next = nullptr;
    if (step.type == Step::Type::member && at->is_object()) {
      const auto it = at->find(step.name);
      if (it != at->end()) next = &*it;
    } else if (step.type == Step::Type::index && at->is_array() && step.index < at->size()) {
      next = &(*at)[step.index];
    } else if (step.type == Step::Type::filter && at->is_array()) {
      for (const auto& item : *at) {
        const auto it = item.is_object() ? item.find(step.name) : item.end();
        if (item.is_object() && it != item.end() && *it == step.value) {
          next = &item;
          break;
        }
      }
    }
    if (!next) return nullptr;
    at = next;
  }
  return at->is_null() ? nullptr : at;
}

}  // namespace virtset::api
