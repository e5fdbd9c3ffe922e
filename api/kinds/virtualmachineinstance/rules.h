// What KubeVirt's admission says about virtual machine instances beyond their schema.
#pragma once

#include <nlohmann/json.hpp>

#include <memory>
#include <set>
#include <string>

#include "api/kinds/field_error.h"
#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> instance_rules();

// KubeVirt: keeps a deleted instance until its domain is gone and its disks are.
inline constexpr const char* instance_finalizer = "kubevirt.io/foregroundDeleteVirtualMachine";

// Fills in the defaults that depend on other fields (facts: KubeVirt's defaulting of a VMI on
// create).
void complete_instance_spec(nlohmann::json& spec);

// Checks the spec at `path`, of an instance or inside a template; a template is checked without
// defaults, as KubeVirt does. The causes and their paths are KubeVirt's.
void validate_instance_spec(const nlohmann::json& spec, const std::string& path,
                            FieldErrorList& errors);

// Checks the labels at `path` that an instance is to have.
void validate_instance_labels(const nlohmann::json& labels, const std::string& path,
                              FieldErrorList& errors);

// Parts of it, in files of their own.
void validate_disks(const nlohmann::json& spec, const std::string& path, FieldErrorList& errors);
void validate_volumes(const nlohmann::json& spec, const std::string& path, FieldErrorList& errors);
void validate_networks(const nlohmann::json& spec, const std::string& path, FieldErrorList& errors);
void validate_boot_orders(const nlohmann::json& spec, const std::string& path,
                          FieldErrorList& errors);

// By which other parts of a spec refer to the items of a list.
std::set<std::string> names_of(const nlohmann::json& list);

}  // namespace virtset::api
