// What the head of an HTTP answer says about a file: how much of it comes, and which version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace virtset::images {

struct AnswerHead {
  int status = 0;
  std::string status_line;       // for people, shortened
  std::string validator;         // a strong ETag, or else Last-Modified; empty: neither
  std::int64_t range_start = 0;  // of a part; -1: it does not say
  std::int64_t total = 0;        // bytes of the whole file; 0: unknown

  // Takes in one line, as libcurl gives them. A status line begins anew: redirections come first.
  void take(std::string_view line);
};

}  // namespace virtset::images
