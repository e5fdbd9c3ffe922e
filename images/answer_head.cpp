#include "images/answer_head.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace virtset::images {

namespace {

constexpr std::size_t shown = 200;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Takes a number off the front; -1 if there is none that fits.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "bytes 5-9/10", where the total may be "*".
void take_range(std::string_view value, AnswerHead& head) {
  head.range_start = -1;
  if (!value.starts_with("bytes ")) return;
  value.remove_prefix(6);
  const std::int64_t start = take_number(value);
  const auto slash = value.find('/');
  if (start < 0 || slash == std::string_view::npos) return;
  head.range_start = start;
  value.remove_prefix(slash + 1);
  head.total = std::max<std::int64_t>(0, take_number(value));
}

}  // namespace

void AnswerHead::take(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    status_line = std::string(trimmed(line).substr(0, shown));
    const auto space = line.find(' ');
    if (space == std::string_view::npos) return;
    std::string_view rest = line.substr(space + 1);
    status = static_cast<int>(std::clamp<std::int64_t>(take_number(rest), 0, 999));
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(trimmed(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "etag") {
    if (!value.starts_with("W/")) validator = std::string(value);
  } else if (name == "last-modified") {
    if (validator.empty()) validator = std::string(value);
  } else if (name == "content-range") {
    take_range(value, *this);
  } else if (name == "content-length" && status == 200) {
    total = std::max<std::int64_t>(0, take_number(value));
  }
}

}  // namespace virtset::images
