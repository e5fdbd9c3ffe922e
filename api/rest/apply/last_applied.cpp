#include "api/rest/apply/last_applied.h"

#include <stdexcept>

#include "api/kinds/json_access.h"
#include "api/rest/apply/typed.h"
#include "api/rest/negotiation.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr const char* annotation_name = "kubectl.kubernetes.io/last-applied-configuration";

// Anybody may have written it.
std::optional<Json> parse(const std::string& text) {
  try {
    return parse_body("application/json", text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// encoding/json of Go escapes what HTML would take for its own.
std::string escaped_for_html(const std::string& json) {
  std::string result;
  for (const char c : json) {
    switch (c) {
      case '<':
        result += "\\u003c";
        break;
      case '>':
        result += "\\u003e";
        break;
      case '&':
        result += "\\u0026";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

std::optional<FieldSet> fields_last_applied(const Kind& kind, const Json& object,
                                            const std::string& api_version) {
  std::optional<Json> last = parse(annotation(object, annotation_name));
  if (!last || !last->is_object() || text(member(*last, "apiVersion")) != api_version) {
    return std::nullopt;
  }
  (*last)["apiVersion"] = kind.api_version();
  const Schema* schema = kind.schema.get();
  const Comparison since = compare(schema, *last, object);
  FieldSet fields = fields_of(schema, *last);
  fields.subtract(since.modified).subtract(since.added).subtract(since.removed);
  return fields;
}

bool has_last_applied(const Json& object) { return !annotation(object, annotation_name).empty(); }

std::string last_applied_text(Json configuration) {
  const Json::json_pointer path("/metadata/annotations");
  if (configuration.contains(path) && configuration[path].is_object()) {
    configuration[path].erase(annotation_name);
  }
  return escaped_for_html(json_text(configuration)) + "\n";
}

void set_last_applied(Json& object, std::string text) {
  // Kubernetes: TotalAnnotationSizeLimitB.
  constexpr std::size_t most_annotation_bytes = 256 << 10;
  Json& annotations = object["metadata"]["annotations"];
  annotations[annotation_name] = std::move(text);
  std::size_t bytes = 0;
  for (const auto& [name, value] : annotations.items()) {
    bytes += name.size() + api::text(value).size();
  }
  if (bytes > most_annotation_bytes) annotations.erase(annotation_name);
}

}  // namespace virtset::api
