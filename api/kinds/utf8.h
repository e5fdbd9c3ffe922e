// Text that may not be text.
#pragma once

#include <string>
#include <string_view>

namespace virtset::api {

bool is_utf8(std::string_view text);

// With "?" in place of what is not UTF-8.
std::string to_utf8(std::string_view bytes);

// As much of a text as an error message should repeat, never half a character.
std::string shortened(const std::string& text);

}  // namespace virtset::api
