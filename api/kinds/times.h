// Times as Kubernetes writes them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace virtset::api {

using Time = std::chrono::system_clock::time_point;

// metav1.Time: RFC 3339, UTC, whole seconds.
std::string format_time(Time time);
// metav1.MicroTime: exactly six digits of a second.
std::string format_micro_time(Time time);
// Whether the text is a MicroTime in UTC: clients refuse a whole list for another number of digits.
bool is_micro_time(std::string_view text);
// Either of them; nothing if the text is no such time.
std::optional<Time> parse_time(std::string_view text);

// So many seconds after 1970. What is further away than a Time can be (1677 to 2262) becomes the
// nearest that can.
Time time_from(std::chrono::seconds since_1970);

// As kubectl prints an age: "5s", "3m20s", "2d4h" (Kubernetes: duration.HumanDuration).
std::string human_duration(std::chrono::seconds duration);

}  // namespace virtset::api
