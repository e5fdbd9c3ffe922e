// Base64 of manifests, which comes with line breaks or without.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace virtset::api {

// Nothing if it is not base64.
std::optional<std::string> decode_base64(std::string_view encoded);

// In one line.
std::string encode_base64(std::string_view bytes);

}  // namespace virtset::api
