// What /version says.
#pragma once

#include <nlohmann/json.hpp>

namespace virtset::api {

// Kubernetes' version.Info. The minor version is the one whose conventions are served; kubectl
// chooses its own behaviour by it.
nlohmann::json version_document();

}  // namespace virtset::api
