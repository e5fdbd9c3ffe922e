#include "api/kinds/names.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

namespace virtset::api {

namespace {

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

constexpr const char* label_rule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must "
    "start and end with an alphanumeric character";
constexpr const char* subdomain_rule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', "
    "and must start and end with an alphanumeric character";
constexpr const char* name_rule =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character";

bool is_label(std::string_view text) {
  return !text.empty() && is_lower(text.front()) && is_lower(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_lower(c) || c == '-'; });
}

bool is_name_part(std::string_view text) {
  return !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

std::string too_long(std::size_t most) {
  return "must be no more than " + std::to_string(most) + " characters";
}

void random_bytes(void* data, std::size_t size) {
  // Up to 256 bytes come whole and do not block once the kernel is up.
  if (getrandom(data, size, 0) != static_cast<ssize_t>(size)) {
    throw std::runtime_error("the kernel gave no random bytes");
  }
}

}  // namespace

Complaint check_label_name(std::string_view name) {
  if (name.size() > 63) return too_long(63);
  if (!is_label(name)) return label_rule;
  return std::nullopt;
}

Complaint check_subdomain(std::string_view name) {
  if (name.size() > 253) return too_long(253);
  std::string_view rest = name;
  for (;;) {
    const auto dot = rest.find('.');
    if (!is_label(rest.substr(0, dot))) return subdomain_rule;
    if (dot == rest.npos) return std::nullopt;
    rest.remove_prefix(dot + 1);
  }
}

Complaint check_label_key(std::string_view key) {
  const auto slash = key.find('/');
  std::string_view name = key;
  if (slash != key.npos) {
    if (const auto wrong = check_subdomain(key.substr(0, slash))) return "prefix part " + *wrong;
    name = key.substr(slash + 1);
  }
  if (name.size() > 63) return "name part " + too_long(63);
  if (!is_name_part(name)) return std::string("name part ") + name_rule;
  return std::nullopt;
}

Complaint check_label_value(std::string_view value) {
  if (value.size() > 63) return too_long(63);
  if (!value.empty() && !is_name_part(value)) {
    return std::string("a valid label must be an empty string or ") + name_rule;
  }
  return std::nullopt;
}

std::string generate_name(std::string_view base) {
  constexpr std::string_view alphabet = "bcdfghjklmnpqrstvwxz2456789";
  constexpr std::size_t random_length = 5;
  std::string name(base.substr(0, 63 - random_length));
  const std::size_t length = name.size() + random_length;
  while (name.size() < length) {
    std::uint8_t byte;
    random_bytes(&byte, 1);
    // Uniform: five bits, and what lies beyond the alphabet is drawn again.
    if ((byte & 31u) < alphabet.size()) name += alphabet[byte & 31u];
  }
  return name;
}

std::string new_uuid() {
  std::array<std::uint8_t, 16> bytes;
  random_bytes(bytes.data(), bytes.size());
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr char digits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

}  // namespace virtset::api
