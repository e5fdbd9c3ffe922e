#include "api/rest/openapi_schema.h"

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

std::string sentence(const std::string& text) {
  return text.empty() || text.ends_with('.') ? text : text + ".";
}

}  // namespace

std::string definition_schema_name(const std::string& name) {
  return "io.virtset.definitions." + name;
}

std::string kind_schema_name(const Kind& kind, const std::string& version) {
  std::string reversed;
  std::string_view rest = kind.group.empty() ? "core.api.k8s.io" : std::string_view(kind.group);
  while (!rest.empty()) {
    const auto dot = rest.rfind('.');
    reversed += std::string(rest.substr(dot == rest.npos ? 0 : dot + 1)) + ".";
    rest = rest.substr(0, dot == rest.npos ? 0 : dot);
  }
  return reversed + version + "." + kind.kind;
}

Json published_schema(const Json& declared, const Json& definitions) {
  Json schema = Json::object();
  std::string description = text(member(declared, "description"));
  for (const auto& [name, value] : declared.items()) {
    if (name == "$ref" || name == "description") continue;
    if (name == "x-virtset-ignored") {
      description += (description.empty() ? "" : " ") + std::string("Taken with a warning: it ") +
                     sentence(text(value));
    } else if (name == "x-virtset-unsupported") {
      description +=
          (description.empty() ? "" : " ") + std::string("Refused: ") + sentence(text(value));
    } else if (name == "properties") {
      for (const auto& [property, of] : value.items())
        schema[name][property] = published_schema(of, definitions);
    } else if (name == "items" || name == "additionalProperties") {
      schema[name] = published_schema(value, definitions);
    } else if (!name.starts_with("x-virtset-")) {
      schema[name] = value;
    }
  }
  const std::string format = text(member(schema, "format"));
  if (format == "micro-time") schema["format"] = "date-time";
  if (const std::string reference = text(member(declared, "$ref")); !reference.empty()) {
    const std::string name = reference.substr(reference.rfind('/') + 1);
    // What stands beside a reference counts only this way.
    schema["allOf"] = {{{"$ref", "#/components/schemas/" + definition_schema_name(name)}}};
    // kubectl explain does not look for a description behind a reference.
    if (description.empty()) description = text(member(definitions, name.c_str(), "description"));
  }
  if (!description.empty()) schema["description"] = description;
  return schema;
}

}  // namespace virtset::api
