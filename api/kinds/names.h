// Kubernetes' rules for names, labels and annotations. Each check gives nothing if the text is
// fine, and otherwise what is expected, in Kubernetes' words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace virtset::api {

using Complaint = std::optional<std::string>;

// DNS-1123 label: at most 63 of [a-z0-9-], beginning and ending with an alphanumeric.
Complaint check_label_name(std::string_view name);
// DNS-1123 subdomain: labels joined by dots, at most 253.
Complaint check_subdomain(std::string_view name);
// "[prefix/]name" of labels, annotations and finalizers.
Complaint check_label_key(std::string_view key);
Complaint check_label_value(std::string_view value);

// Kubernetes: names.SimpleNameGenerator, base truncated to 58 and 5 random characters.
std::string generate_name(std::string_view base);

// A random UUID, version 4.
std::string new_uuid();

}  // namespace virtset::api
