// What form a client wants its answer in, and what form its body has.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace virtset::api {

enum class Form {
  json,
  yaml,
  table,  // meta.k8s.io Table, for kubectl
  text    // the same table, aligned, for people
};

struct Wanted {
  Form form = Form::json;
  std::string table_version = "v1";   // or "v1beta1"
  bool aggregated_discovery = false;  // apidiscovery.k8s.io
  std::string discovery_version = "v2";
};

// The first alternative of an Accept header that we can serve; JSON if there is none (Kubernetes'
// clients put protobuf first and take JSON).
Wanted negotiate(std::string_view accept);

// Reads a request body as JSON or YAML. An absent type, and the one that curl -d sends, are decided
// by the body's first character. Throws ApiError 415 for other types and 400 for nesting beyond
// reason; parse errors are the parsers' own.
nlohmann::json parse_body(std::string_view content_type, std::string_view body);

}  // namespace virtset::api
