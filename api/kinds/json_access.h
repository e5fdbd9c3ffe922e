// Reading JSON that may or may not be there, and writing it, without an exception or a null
// pointer.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace virtset::api {

// The member, or null if `object` is no object or has none of that name.
inline const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json nothing;
  if (!object.is_object()) return nothing;
  const auto it = object.find(name);
  return it == object.end() ? nothing : *it;
}

template <typename... Names>
const nlohmann::json& member(const nlohmann::json& object, const char* name, Names... deeper) {
  return member(member(object, name), deeper...);
}

inline std::string text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

inline std::int64_t integer(const nlohmann::json& value, std::int64_t otherwise) {
  return value.is_number_integer() ? value.get<std::int64_t>() : otherwise;
}

inline bool truth(const nlohmann::json& value, bool otherwise = false) {
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

// The value of an object's annotation, or empty.
inline std::string annotation(const nlohmann::json& object, const char* name) {
  return text(member(object, "metadata", "annotations", name));
}

// In one line, with U+FFFD in place of what is not UTF-8.
inline std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace virtset::api
