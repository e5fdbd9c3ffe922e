// The old OpenAPI document, in the protobuf form that kubectl reads.
#pragma once

#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

// gnostic's openapi.v2.Document. It says of each kind that the server tries writes (dryRun) and
// checks their fields (fieldValidation), which is all that any kubectl needs of it; `kubectl
// explain` from 1.27 on reads the third version.
std::string openapi_v2_protobuf(const Kinds& kinds);

}  // namespace virtset::api
