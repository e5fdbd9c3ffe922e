// JSON patches (RFC 6902) as they may come from anybody.
#pragma once

#include <nlohmann/json.hpp>

namespace virtset::api {

// The document with all operations done, or ApiError: 400 for what is no patch, 422 that names the
// operation which cannot be done, or would make the document larger or deeper than is reasonable
// (Kubernetes: 10,000 operations and 3 MiB of copies).
nlohmann::json apply_json_patch(nlohmann::json document, const nlohmann::json& patch);

}  // namespace virtset::api
