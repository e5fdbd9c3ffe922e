// What ConfigMaps and Secrets have in common: data under keys.
#pragma once

#include <nlohmann/json.hpp>

#include <initializer_list>

#include "api/kinds/field_error.h"

namespace virtset::api {

// Kubernetes: keys of up to 253 letters, digits, "-", "_" and ".", none of them in two of the
// fields, and at most 1 MiB in all.
void check_keyed_data(const nlohmann::json& object, std::initializer_list<const char*> fields,
                      FieldErrorList& errors);

// Kubernetes: once `immutable` is true, neither it nor the fields can be changed.
void check_immutable(const nlohmann::json& from, const nlohmann::json& to,
                     std::initializer_list<const char*> fields, FieldErrorList& errors);

// The number of keys in all of the fields, as the table's column shows it.
std::size_t count_keys(const nlohmann::json& object, std::initializer_list<const char*> fields);

}  // namespace virtset::api
