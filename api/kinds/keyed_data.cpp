#include "api/kinds/keyed_data.h"

#include <set>
#include <string>

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t longest_key = 253;

bool is_key(const std::string& key) {
  if (key.empty() || key.size() > longest_key || key == "." || key.starts_with("..")) return false;
  return key.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
         std::string::npos;
}

}  // namespace

void KeyedDataRules::validate(const Json& object, FieldErrorList& errors) const {
  std::set<std::string> seen;
  std::size_t bytes = 0;
  for (const std::string& field : fields_) {
    const Json& data = member(object, field.c_str());
    if (!data.is_object()) continue;
    for (const auto& [key, value] : data.items()) {
      const std::string at = field + "[" + key + "]";
      if (!is_key(key)) {
        errors.invalid(at, "Invalid value: \"" + key +
                               "\": a valid config key must consist of alphanumeric characters, "
                               "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
                               "regex used for validation is '[-._a-zA-Z0-9]+'), have at most 253 "
                               "of them and not begin with '..'");
      }
      if (!seen.insert(key).second) {
        errors.invalid(at, "Invalid value: \"" + key + "\": duplicate of key present in data");
      }
      bytes += value.is_string() ? value.get_ref<const std::string&>().size() : 0;
    }
  }
  if (bytes > most_bytes) {
    errors.invalid(fields_.front(), "Too long: may not be more than 1048576 bytes");
  }
}

void KeyedDataRules::validate_change(const Json& from, const Json& to,
                                     FieldErrorList& errors) const {
  if (!truth(member(from, "immutable"))) return;
  const std::string why = "Forbidden: field is immutable when `immutable` is set";
  if (!truth(member(to, "immutable"))) errors.forbidden("immutable", why);
  for (const std::string& field : fields_) {
    if (member(from, field.c_str()) != member(to, field.c_str())) errors.forbidden(field, why);
  }
}

std::optional<Json> KeyedDataRules::cell(const std::string& column, const Json& object) const {
  if (column != "Data") return std::nullopt;
  std::size_t count = 0;
  for (const std::string& field : fields_) count += member(object, field.c_str()).size();
  return count;
}

}  // namespace virtset::api
