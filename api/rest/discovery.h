// What kubectl asks before it does anything: groups, versions, resources.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kind.h"
#include "api/rest/message.h"

namespace virtset::api {

// Answers /api, /apis and what is right below them; nothing for other paths.
std::optional<Response> discovery_response(const Kinds& kinds, const Request& request,
                                           const std::vector<std::string>& segments);

}  // namespace virtset::api
