#include "api/kinds/duration.h"

#include <algorithm>
#include <utility>

namespace virtset::api {

namespace {

constexpr double most_ms = 100.0 * 366 * 24 * 3'600 * 1'000;

// Takes digits, and perhaps a fraction, from the front.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  double place = 0;  // of the next digit after the point; 0 before it
  std::size_t digits = 0;
  std::size_t used = 0;
  for (; used < text.size(); ++used) {
    const char c = text[used];
    if (c == '.' && place == 0) {
      place = 0.1;
    } else if (c >= '0' && c <= '9') {
      ++digits;
      number = place > 0 ? number + place * (c - '0') : number * 10 + (c - '0');
      place /= 10;
    } else {
      break;
    }
  }
  if (digits == 0) return std::nullopt;
  text.remove_prefix(used);
  return number;
}

// Takes the name of a unit from the front and gives its milliseconds.
std::optional<double> take_unit(std::string_view& text) {
  static constexpr std::pair<std::string_view, double> units[] = {
      {"ns", 1e-6}, {"us", 1e-3}, {"\u00b5s", 1e-3}, {"\u03bcs", 1e-3},
      {"ms", 1},    {"s", 1e3},   {"m", 60'000},     {"h", 3'600'000}};
  const auto end = std::min(text.find_first_of("0123456789."), text.size());
  const std::string_view name = text.substr(0, end);
  for (const auto& [unit, milliseconds] : units) {
    if (name != unit) continue;
    text.remove_prefix(end);
    return milliseconds;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  double sign = 1;
  if (text.starts_with('-') || text.starts_with('+')) {
    if (text.front() == '-') sign = -1;
    text.remove_prefix(1);
  }
  if (text == "0") return std::chrono::milliseconds(0);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const auto number = take_number(text);
    const auto unit = number ? take_unit(text) : std::nullopt;
    if (!unit) return std::nullopt;
    total += *number * *unit;
    if (total > most_ms) return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(sign * (total + 1e-6)));
}

}  // namespace virtset::api
