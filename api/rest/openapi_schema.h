// Declared schemas as OpenAPI documents show them.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

// Names of schemas in a document. Kubernetes names them after Go packages; only the last part is
// ever shown.
std::string definition_schema_name(const std::string& definition);
std::string kind_schema_name(const Kind& kind, const std::string& version);

// A declared schema in the words of OpenAPI 3.0: references to components, which `definitions` are
// what they refer to, and our extensions as part of the description.
nlohmann::json published_schema(const nlohmann::json& declared, const nlohmann::json& definitions);

}  // namespace virtset::api
