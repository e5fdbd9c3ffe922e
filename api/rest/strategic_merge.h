// Kubernetes' strategic merge patch: a merge patch that knows which lists have keys.
#pragma once

#include <nlohmann/json.hpp>

#include "api/kinds/schema.h"

namespace virtset::api {

// The document with the patch merged in. Lists that the schema declares to be maps are merged by
// their first key, sets are united, other lists replaced; the directives $patch, $retainKeys,
// $setElementOrder/… and $deleteFromPrimitiveList/… are followed. Throws ApiError 400 for a patch
// that makes no sense.
nlohmann::json strategic_merge(nlohmann::json document, const nlohmann::json& patch,
                               const Schema& schema);

}  // namespace virtset::api
