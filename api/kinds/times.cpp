#include "api/kinds/times.h"

#include <fmt/format.h>

#include <algorithm>

namespace virtset::api {

namespace {

using namespace std::chrono;

std::string format_seconds(Time time) {
  const auto whole = floor<seconds>(time);
  const auto day = floor<days>(whole);
  const year_month_day date(day);
  const hh_mm_ss clock(whole - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string format_time(Time time) { return format_seconds(time) + "Z"; }

std::string format_micro_time(Time time) {
  const auto fraction = floor<microseconds>(time) - floor<seconds>(time);
  return fmt::format("{}.{:06}Z", format_seconds(time), fraction.count());
}

namespace {

// Reads a text from its beginning on.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  // Exactly so many digits.
  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, count)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }
  bool skip(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Digits after the point, of which nine count; nothing if there is none.
  std::optional<nanoseconds> fraction() {
    auto unit = nanoseconds(100'000'000);
    auto value = nanoseconds(0);
    bool any = false;
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1)) {
      value += unit * (rest_[0] - '0');
      unit /= 10;
      any = true;
    }
    return any ? std::optional(value) : std::nullopt;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// "Z" or "+01:00", to the end.
std::optional<seconds> parse_offset(Scanner& scanner) {
  if (scanner.skip('Z')) return scanner.done() ? std::optional(seconds(0)) : std::nullopt;
  const bool minus = scanner.skip('-');
  if (!minus && !scanner.skip('+')) return std::nullopt;
  const auto h = scanner.digits(2);
  const bool colon = scanner.skip(':');
  const auto m = scanner.digits(2);
  if (!h || !colon || !m || *h > 23 || *m > 59 || !scanner.done()) return std::nullopt;
  const seconds offset = hours(*h) + minutes(*m);
  return minus ? -offset : offset;
}

}  // namespace

Time time_from(seconds since_1970) {
  // What a count of nanoseconds can say, less a second for their fraction.
  constexpr auto first = ceil<seconds>(Time::min().time_since_epoch());
  constexpr auto last = floor<seconds>(Time::max().time_since_epoch()) - seconds(1);
  return Time(std::clamp(since_1970, first, last));
}

std::optional<Time> parse_time(std::string_view text) {
  Scanner scanner(text);
  const auto y = scanner.digits(4);
  const bool dash = scanner.skip('-');
  const auto mo = scanner.digits(2);
  const bool dash2 = scanner.skip('-');
  const auto d = scanner.digits(2);
  const bool t = scanner.skip('T');
  const auto h = scanner.digits(2);
  const bool colon = scanner.skip(':');
  const auto mi = scanner.digits(2);
  const bool colon2 = scanner.skip(':');
  const auto s = scanner.digits(2);
  if (!y || !mo || !d || !h || !mi || !s || !(dash && dash2 && t && colon && colon2)) {
    return std::nullopt;
  }
  const year_month_day date{year(*y), month(static_cast<unsigned>(*mo)),
                            day(static_cast<unsigned>(*d))};
  if (!date.ok() || *h > 23 || *mi > 59 || *s > 60) return std::nullopt;
  std::optional<nanoseconds> fraction(nanoseconds(0));
  if (scanner.skip('.')) fraction = scanner.fraction();
  const auto offset = parse_offset(scanner);
  if (!fraction || !offset) return std::nullopt;
  const seconds whole =
      sys_seconds(sys_days(date)).time_since_epoch() + hours(*h) + minutes(*mi) + seconds(*s);
  return time_from(whole - *offset) + duration_cast<Time::duration>(*fraction);
}

bool is_micro_time(std::string_view text) {
  const auto time = parse_time(text);
  return time && format_micro_time(*time) == text;
}

std::string human_duration(seconds duration) {
  if (duration < seconds(0)) return "0s";
  const long long s = duration.count();
  const long long m = s / 60, h = s / 3600, d = s / 86400;
  const auto two = [](long long first, const char* first_unit, long long second,
                      const char* second_unit) {
    return second == 0 ? fmt::format("{}{}", first, first_unit)
                       : fmt::format("{}{}{}{}", first, first_unit, second, second_unit);
  };
  if (s < 2 * 60) return fmt::format("{}s", s);
  if (m < 10) return two(m, "m", s % 60, "s");
  if (m < 3 * 60) return fmt::format("{}m", m);
  if (h < 8) return two(h, "h", m % 60, "m");
  if (h < 48) return fmt::format("{}h", h);
  if (d < 8) return two(d, "d", h % 24, "h");
  if (d < 2 * 365) return fmt::format("{}d", d);
  if (d < 8 * 365) return two(d / 365, "y", d % 365, "d");
  return fmt::format("{}y", d / 365);
}

}  // namespace virtset::api
