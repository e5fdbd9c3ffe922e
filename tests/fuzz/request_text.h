// Requests as readable text: a line with method and target, headers, an empty line, the body.
#pragma once

#include <string>
#include <string_view>

#include "api/rest/message.h"
#include "tests/fuzz/fuzz.h"

namespace virtset::fuzz {

// As libwebsockets decodes paths and parameters.
inline std::string percent_decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = static_cast<char>(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return decoded;
}

inline api::Request read_request(std::string_view text) {
  api::Request request;
  std::string_view line = take(text, "\n");
  request.method = take(line, " ");
  std::string_view target = line;
  request.path = percent_decode(take(target, "?"));
  while (!target.empty()) {
    std::string_view parameter = take(target, "&");
    const std::string name = percent_decode(take(parameter, "="));
    request.query.emplace_back(name, percent_decode(parameter));
  }
  while (!(line = take(text, "\n")).empty()) {
    const std::string_view name = take(line, ": ");
    if (name == "accept") request.accept = line;
    if (name == "content-type") request.content_type = line;
    if (name == "user-agent") request.user_agent = line;
  }
  request.body = text;
  return request;
}

}  // namespace virtset::fuzz
