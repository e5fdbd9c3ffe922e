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

void check_keyed_data(const Json& object, std::initializer_list<const char*> fields,
                      FieldErrorList& errors) {
  std::set<std::string> seen;
  std::size_t bytes = 0;
  for (const char* field : fields) {
    const Json& data = member(object, field);
    if (!data.is_object()) continue;
    for (const auto& [key, value] : data.items()) {
      const std::string at = std::string(field) + "[" + key + "]";
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
    errors.invalid(*fields.begin(), "Too long: may not be more than 1048576 bytes");
  }
}

void check_immutable(const Json& from, const Json& to, std::initializer_list<const char*> fields,
                     FieldErrorList& errors) {
  if (!truth(member(from, "immutable"))) return;
  const std::string why = "Forbidden: field is immutable when `immutable` is set";
  if (!truth(member(to, "immutable"))) errors.forbidden("immutable", why);
  for (const char* field : fields) {
    if (member(from, field) != member(to, field)) errors.forbidden(field, why);
  }
}

std::size_t count_keys(const Json& object, std::initializer_list<const char*> fields) {
  std::size_t count = 0;
  for (const char* field : fields) count += member(object, field).size();
  return count;
}

}  // namespace virtset::api
