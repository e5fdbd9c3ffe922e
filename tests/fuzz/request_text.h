// Requests as readable text: a line with method and target, headers, an empty line, the body.
#pragma once

#include <string>
#include <string_view>

#include "api/http/target.h"
#include "api/rest/message.h"
#include "tests/fuzz/fuzz.h"

namespace virtset::fuzz {

inline api::Request read_request(std::string_view text) {
  api::Request request;
  std::string_view line = take(text, "\n");
  request.method = take(line, " ");
  try {
    api::set_target(line, request);
  } catch (const api::ApiError&) {
    // No path, such as the time of WAIT, or one that connections refuse.
    request.path = line;
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
