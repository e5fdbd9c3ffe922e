// The old OpenAPI document, in the protobuf form that kubectl reads.
#pragma once

#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

// gnostic's openapi.v2.Document: the schemas of all kinds, for `kubectl explain` before 1.27, and
// that the server tries writes (dryRun) and checks their fields (fieldValidation).
std::string openapi_v2_protobuf(const Kinds& kinds);

}  // namespace virtset::api
