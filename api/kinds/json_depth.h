// How deeply documents nest. Everything that works on documents recurses, so whatever makes them
// from outside input bounds this.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>

namespace virtset::api {

// 0 for a value that has nothing in it.
inline int depth_of(const nlohmann::json& value) {
  int below = 0;
  if (value.is_structured()) {
    for (const nlohmann::json& item : value) below = std::max(below, 1 + depth_of(item));
  }
  return below;
}

}  // namespace virtset::api
