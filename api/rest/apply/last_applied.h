// Objects that kubectl applied by itself, with the configuration in an annotation, before it let
// the server do it.
//
// Kubernetes: lastAppliedManager, lastAppliedUpdater.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "api/kinds/kind.h"
#include "api/rest/apply/field_set.h"

namespace virtset::api {

// The manager for which the annotation means something.
inline constexpr const char* kubectl_manager = "kubectl";

// What kubectl applied by itself and nobody changed since: it conflicts with nobody else. Nothing
// without a valid annotation for this version.
std::optional<FieldSet> fields_last_applied(const Kind& kind, const nlohmann::json& object,
                                            const std::string& api_version);

bool has_last_applied(const nlohmann::json& object);
// The annotation that fits a configuration as it was sent.
std::string last_applied_text(nlohmann::json configuration);
// Takes the annotation away instead if it would be too long.
void set_last_applied(nlohmann::json& object, std::string text);

}  // namespace virtset::api
