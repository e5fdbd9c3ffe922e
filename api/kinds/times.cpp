#include "api/kinds/times.h"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

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

std::optional<Time> parse_time(std::string_view text) {
  int y, mo, d, h, mi, s, read = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &y, &mo, &d, &h, &mi, &s, &read) !=
      6) {
    return std::nullopt;
  }
  const year_month_day date{year(y), month(static_cast<unsigned>(mo)),
                            day(static_cast<unsigned>(d))};
  if (!date.ok() || h > 23 || mi > 59 || s > 60) return std::nullopt;
  Time time = sys_days(date) + hours(h) + minutes(mi) + seconds(s);
  std::string_view rest = std::string_view(copy).substr(static_cast<std::size_t>(read));
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    auto unit = nanoseconds(100'000'000);
    auto fraction = nanoseconds(0);
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') return std::nullopt;
    for (; !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; rest.remove_prefix(1), unit /= 10) {
      fraction += unit * (rest[0] - '0');
    }
    time += duration_cast<Time::duration>(fraction);
  }
  if (rest == "Z") return time;
  int offset_hours, offset_minutes;
  char sign;
  if (std::sscanf(std::string(rest).c_str(), "%c%2d:%2d%n", &sign, &offset_hours, &offset_minutes,
                  &read) != 3 ||
      static_cast<std::size_t>(read) != rest.size() || (sign != '+' && sign != '-')) {
    return std::nullopt;
  }
  const auto offset = hours(offset_hours) + minutes(offset_minutes);
  return sign == '+' ? time - offset : time + offset;
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
