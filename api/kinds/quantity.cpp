#include "api/kinds/quantity.h"

#include <array>
#include <limits>

namespace virtset::api {

namespace {

using Wide = __int128;

constexpr Wide nano = 1'000'000'000;
// Kubernetes caps at 2^63-1 units.
constexpr Wide largest = static_cast<Wide>(std::numeric_limits<std::int64_t>::max()) * nano;

struct Suffix {
  std::string_view text;
  int base;  // 2 or 10
  int exponent;
};
constexpr std::array suffixes = {
    Suffix{"n", 10, -9}, Suffix{"u", 10, -6}, Suffix{"m", 10, -3}, Suffix{"", 10, 0},
    Suffix{"k", 10, 3},  Suffix{"M", 10, 6},  Suffix{"G", 10, 9},  Suffix{"T", 10, 12},
    Suffix{"P", 10, 15}, Suffix{"E", 10, 18}, Suffix{"Ki", 2, 10}, Suffix{"Mi", 2, 20},
    Suffix{"Gi", 2, 30}, Suffix{"Ti", 2, 40}, Suffix{"Pi", 2, 50}, Suffix{"Ei", 2, 60}};

std::optional<Suffix> parse_suffix(std::string_view text) {
  for (const Suffix& suffix : suffixes) {
    if (suffix.text == text) return suffix;
  }
  // e or E and an integer: "1E" alone is exa and was found above.
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  std::string_view digits = text.substr(1);
  const bool minus = digits[0] == '-';
  if (minus || digits[0] == '+') digits.remove_prefix(1);
  if (digits.empty() || digits.size() > 3) return std::nullopt;
  int exponent = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    exponent = exponent * 10 + (c - '0');
  }
  return Suffix{"", 10, minus ? -exponent : exponent};
}

std::int64_t divide_up(Wide nanos, Wide unit) {
  Wide result = nanos / unit;
  if (nanos % unit > 0) ++result;
  constexpr Wide high = std::numeric_limits<std::int64_t>::max();
  constexpr Wide low = std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(result > high ? high : result < low ? low : result);
}

}  // namespace

std::optional<Quantity> Quantity::parse(std::string_view text) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  // The digits with the point taken out, and how many of them stood behind it.
  Wide mantissa = 0;
  int decimals = 0;
  bool any = false, point = false, saturated = false, dropped = false;
  while (!text.empty() && ((text[0] >= '0' && text[0] <= '9') || (text[0] == '.' && !point))) {
    if (text[0] == '.') {
      point = true;
    } else {
      any = true;
      if (point && decimals >= 12) {
        dropped = dropped || text[0] != '0';  // below any precision that counts
      } else {
        saturated = saturated || mantissa > largest;
        if (!saturated) mantissa = mantissa * 10 + (text[0] - '0');
        if (point) ++decimals;
      }
    }
    text.remove_prefix(1);
  }
  const auto suffix = parse_suffix(text);
  if (!any || !suffix) return std::nullopt;

  // In nanos: mantissa * 10^(9 - decimals) * base^exponent, rounded away from zero.
  Wide nanos = mantissa;
  bool inexact = dropped;
  const auto times = [&](int factor) {
    if (nanos > largest) saturated = true;
    if (!saturated) nanos *= factor;
  };
  const auto over_ten = [&] {
    inexact = inexact || nanos % 10 != 0;
    nanos /= 10;
  };
  int tens = 9 - decimals + (suffix->base == 10 ? suffix->exponent : 0);
  for (int i = 0; suffix->base == 2 && i < suffix->exponent; ++i) times(2);
  for (; tens > 0; --tens) times(10);
  for (; tens < 0 && nanos > 0; ++tens) over_ten();
  if (inexact) ++nanos;
  if (saturated || nanos > largest) nanos = largest;
  return Quantity(minus ? -nanos : nanos);
}

std::optional<Quantity> Quantity::read(const nlohmann::json& value) {
  if (value.is_string()) return parse(value.get_ref<const std::string&>());
  if (value.is_number()) return parse(value.dump());
  return std::nullopt;
}

std::int64_t Quantity::value() const { return divide_up(nanos_, nano); }

std::int64_t Quantity::milli_value() const { return divide_up(nanos_, nano / 1000); }

}  // namespace virtset::api
