// What form a client wants its answer in, and what form its body has.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

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
  // Whether any of what was asked for is among these.
  bool possible = true;
  // Whether no form was asked for by name. Documents are JSON then, but errors a sentence.
  bool any = true;
};

// The first alternative of an Accept header that we can serve; JSON if there is none (Kubernetes'
// clients put protobuf first and take JSON).
Wanted negotiate(std::string_view accept);

// "application/json" of "Application/JSON; charset=utf-8".
std::string media_type(std::string_view content_type);

// Reads a request body as JSON or YAML. An absent type, and the one that curl -d sends, are decided
// by the body's first character. Throws ApiError 415 for other types and 400 for nesting beyond
// reason; parse errors are the parsers' own.
// The paths of JSON keys that come twice in an object, of which the last counts, are added to
// `duplicates` if that is given; YAML with such keys is not valid.
nlohmann::json parse_body(std::string_view content_type, std::string_view body,
                          std::vector<std::string>* duplicates = nullptr);

}  // namespace virtset::api
