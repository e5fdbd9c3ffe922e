#include "api/rest/rendering.h"

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/kinds/yaml.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

}  // namespace

Rendering Rendering::of(const Request& request, const Kind& kind, const std::string& version) {
  Rendering rendering{kind, version, negotiate(request.accept)};
  const auto include = request.parameter("includeObject").value_or("Metadata");
  if (include == "Object") {
    rendering.row_object = RowObject::object;
  } else if (include == "None") {
    rendering.row_object = RowObject::none;
  } else if (include != "Metadata" && !include.empty()) {
    throw ApiError(400, "BadRequest", "includeObject must be None, Metadata or Object");
  }
  rendering.wide = request.flag("wide");
  return rendering;
}

void Rendering::append(const store::Object& object, std::string& out) const {
  if (version == kind.versions.front()) {
    out += object.text();
    return;
  }
  // Documents are written with sorted keys, so apiVersion comes first.
  const std::string stored = "{\"apiVersion\":\"" + kind.api_version() + "\"";
  if (!object.text().starts_with(stored)) {
    out += json_text(document(object));
    return;
  }
  out += "{\"apiVersion\":\"" + kind.api_version(version) + "\"";
  out.append(object.text(), stored.size());
}

Json Rendering::document(const store::Object& object) const {
  Json document = *object.document();
  document["apiVersion"] = kind.api_version(version);
  return document;
}

Json Rendering::table(const store::Object& object, Time now) const {
  return {{"kind", "Table"},
          {"apiVersion", "meta.k8s.io/" + wanted.table_version},
          {"metadata", {{"resourceVersion", std::to_string(object.revision())}}},
          {"columnDefinitions", column_definitions(kind)},
          {"rows", Json::array({table_row(kind, document(object), row_object, now)})}};
}

Response respond_with(const Rendering& rendering, const store::Object& object, int status,
                      Time now) {
  Response response;
  response.status = status;
  switch (rendering.wanted.form) {
    case Form::json:
      rendering.append(object, response.body);
      response.body += '\n';
      return response;
    case Form::table:
      response.body = json_text(rendering.table(object, now)) + "\n";
      return response;
    case Form::text: {
      TextTable table(rendering.kind, rendering.wide, false);
      table.add(*object.document(), now);
      response.content_type = "text/plain; charset=utf-8";
      response.body = table.to_string();
      return response;
    }
    case Form::yaml:
      return respond_with(rendering.wanted, rendering.document(object), status);
  }
  return response;
}

Response respond_with(const Wanted& wanted, const Json& document, int status) {
  Response response;
  response.status = status;
  if (wanted.form == Form::yaml) {
    response.content_type = "application/yaml";
    response.body = to_yaml(document);
  } else {
    response.body = json_text(document) + "\n";
  }
  return response;
}

}  // namespace virtset::api
