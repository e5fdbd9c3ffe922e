// What KubeVirt's admission says about virtual machines beyond their schema.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <string>

#include "api/kinds/field_error.h"
#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> machine_rules();

// KubeVirt: keeps a deleted virtual machine until its instance is gone.
inline constexpr const char* machine_finalizer = "kubevirt.io/virtualMachineControllerFinalize";

// Checks the spec at `path`, of a virtual machine or inside the template of a pool. The causes and
// their paths are KubeVirt's.
void validate_machine_spec(const nlohmann::json& spec, const std::string& path,
                           FieldErrorList& errors);

// KubeVirt: a virtual machine keeps its identity over the runs of its instance. Gives the spec a
// firmware UUID and serial number, unless it has them.
void complete_machine_spec(nlohmann::json& spec);

// Tells what an instance was started from: with this annotation it carries the hash of the
// template's spec, so that a later change of the template is seen.
inline constexpr const char* template_annotation = "virtset.io/template-hash";
std::string template_hash(const nlohmann::json& machine_spec);

}  // namespace virtset::api
