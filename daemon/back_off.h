// How long to wait before what has failed is tried again.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "api/kinds/json_access.h"
#include "api/kinds/times.h"

namespace virtset {

// `first` after the first of `failures` in a row, then doubled, up to `longest`.
template <typename Duration>
Duration back_off(std::int64_t failures, Duration first, Duration longest) {
  Duration delay = first;
  for (; failures > 1 && delay < longest; --failures) delay *= 2;
  return std::min(delay, longest);
}

// What is left of the wait until a stored time (retryAfterTimestamp); nothing if it is over. A
// wait of more than `longest` comes of a clock that was set back, and counts as over: nothing is
// to be put off for ever.
inline std::optional<std::chrono::milliseconds> wait_left(const nlohmann::json& until,
                                                          api::Time now,
                                                          std::chrono::seconds longest) {
  const auto time = api::parse_time(api::text(until));
  if (!time || *time <= now || *time - now > longest) return std::nullopt;
  return std::chrono::ceil<std::chrono::milliseconds>(*time - now);
}

}  // namespace virtset
