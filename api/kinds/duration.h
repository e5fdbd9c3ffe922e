// Durations as Kubernetes writes them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace virtset::api {

// Go: time.ParseDuration, "1h30m", "1.5s", "-2ms", "0"; to the millisecond, rounded down. Nothing
// if the text is no duration, or one of more than a hundred years.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace virtset::api
