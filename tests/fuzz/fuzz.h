// What the fuzzers share. Each is one file with libFuzzer's entry point; an input that a promise
// does not hold for ends the process, as one does that a sanitizer has a report about.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/kinds/json_depth.h"
#include "api/kinds/kind.h"
#include "api/kinds/label_selector.h"
#include "api/kinds/yaml.h"

namespace virtset::fuzz {

using Json = nlohmann::json;

inline void require(bool holds, std::string_view what, std::string_view with = "") {
  if (holds) return;
  std::fprintf(stderr, "DOES NOT HOLD: %.*s\n%.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(std::min<std::size_t>(with.size(), 4096)), with.data());
  std::abort();
}

// Runs what may refuse its input with an error that users see. Any other exception ends the
// process.
template <typename Work>
bool accepted(const Work& work) {
  try {
    work();
    return true;
  } catch (const api::ApiError& error) {
    require(error.code() >= 400 && error.code() < 500, "what is wrong with the input is a 4xx");
  } catch (const api::BadSelector&) {
  } catch (const api::BadYaml&) {
  } catch (const Json::exception&) {
  }
  return false;
}

// Takes the text up to the next separator, which goes too; all of it where there is none.
inline std::string_view take(std::string_view& text, std::string_view separator) {
  const auto end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + separator.size());
  return taken;
}

// Between the parts of an input that has several.
inline constexpr std::string_view next_part = "\n====\n";

inline std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// How much there is of it: each value and each character.
inline std::size_t weight(const Json& json) {
  std::size_t total = 1;
  if (json.is_string()) total += json.get_ref<const std::string&>().size();
  if (json.is_structured()) {
    for (const auto& [key, value] : json.items()) {
      total += weight(value) + (json.is_object() ? key.size() : 0);
    }
  }
  return total;
}

// The kind that the text's first line names, and the lines after that; any kind for another name.
inline const api::Kind& take_kind(std::string_view& text) {
  const std::string_view name = take(text, "\n");
  const auto& all = api::builtin_kinds().all();
  for (const api::Kind& kind : all) {
    if (kind.kind == name) return kind;
  }
  return all[name.size() % all.size()];
}

}  // namespace virtset::fuzz
