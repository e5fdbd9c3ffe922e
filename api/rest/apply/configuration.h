// What a client sends to be applied.
#pragma once

#include <nlohmann/json.hpp>

#include "api/kinds/kind.h"
#include "api/rest/apply/apply.h"

namespace virtset::api {

// Whether a write of this subresource, or of the object where that is empty, can set the top-level
// field. Kubernetes: GetResetFields.
bool can_set(const Kind& kind, const std::string& subresource, const std::string& field);

// Checks a configuration and leaves out of it what it cannot set; its version becomes the stored
// one. Throws ApiError 400.
nlohmann::json read_configuration(const Kind& kind, nlohmann::json configuration,
                                  const Writer& writer);

}  // namespace virtset::api
