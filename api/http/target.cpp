#include "api/http/target.h"

#include <algorithm>
#include <optional>
#include <string>

#include "api/kinds/errors.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 100;
  return "\"" + std::string(text.substr(0, most)) + (text.size() > most ? "…\"" : "\"");
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

// Nothing if an escape is malformed.
std::optional<std::string> decoded(std::string_view text, bool plus_is_space) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (!high || !low) return std::nullopt;
      result += static_cast<char>(*high << 4 | *low);
      i += 2;
    } else {
      result += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Why a segment cannot be one; nothing if it can.
const char* fault_of(const std::optional<std::string>& segment) {
  if (!segment) return "has a malformed % escape";
  if (*segment == "." || *segment == "..") return "is not a name; dots are not resolved";
  if (segment->find('/') != segment->npos) return "has an escaped slash in it";
  if (std::any_of(segment->begin(), segment->end(), is_control)) {
    return "has a control character in it";
  }
  return nullptr;
}

std::string decoded_path(std::string_view path) {
  std::string result;
  result.reserve(path.size());
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view raw = path.substr(0, path.find('/'));
    path.remove_prefix(raw.size());
    if (raw.empty() && !path.empty()) throw bad_request("the path has an empty segment, \"//\"");
    const auto segment = decoded(raw, false);
    if (const char* fault = fault_of(segment)) {
      throw bad_request("the path's segment " + quoted(raw) + " " + fault);
    }
    result += '/';
    result += *segment;
  }
  return result;
}

void add_parameter(std::string_view parameter, Request& request) {
  const auto equals = parameter.find('=');
  const std::string_view raw_name = parameter.substr(0, equals);
  const std::string_view raw_value = equals == parameter.npos ? "" : parameter.substr(equals + 1);
  auto name = decoded(raw_name, true);
  auto value = decoded(raw_value, true);
  if (!name || !value) {
    throw bad_request("the parameter " + quoted(raw_name) + " has a malformed % escape");
  }
  if (name->find('\0') != name->npos || value->find('\0') != value->npos) {
    throw bad_request("the parameter " + quoted(raw_name) + " has a NUL in it");
  }
  request.query.emplace_back(std::move(*name), std::move(*value));
}

bool starts_with_scheme(std::string_view target, std::string_view scheme) {
  return target.size() >= scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), target.begin(), [](char expected, char given) {
           return expected == (given >= 'A' && given <= 'Z' ? given | 0x20 : given);
         });
}

// The form that is meant for proxies names the host, too (RFC 9112, 3.2.2).
void remove_host(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!starts_with_scheme(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    return;
  }
  if (!target.starts_with('/')) {
    throw bad_request("the target of a request must be a path, not " + quoted(target));
  }
}

}  // namespace

void set_target(std::string_view target, Request& request) {
  remove_host(target);
  const auto question = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, question);
  request.path = path.empty() ? "/" : decoded_path(path);
  std::string_view query = target.substr(std::min(question + 1, target.size()));
  while (!query.empty()) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(parameter.size() + 1, query.size()));
    if (!parameter.empty()) add_parameter(parameter, request);
  }
}

}  // namespace virtset::api
