// What a request is about: the path and the parameters of its first line (RFC 9112, 3.2).
#pragma once

#include <string_view>

#include "api/rest/message.h"

namespace virtset::api {

// Sets path and query of the request. Paths are taken as they are: what a client or a proxy might
// resolve before us, such as "..", or what is one segment here and two there, such as "%2f", is
// refused. Throws ApiError.
void set_target(std::string_view target, Request& request);

}  // namespace virtset::api
