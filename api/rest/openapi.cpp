#include "api/rest/openapi.h"

#include <functional>

#include "api/kinds/json_access.h"
#include "api/rest/openapi_schema.h"
#include "api/rest/openapi_v2.h"
#include "api/rest/version.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

void collect_references(const Json& declared, const Json& definitions, Json& components) {
  if (declared.is_structured()) {
    for (const Json& item : declared) collect_references(item, definitions, components);
  }
  const std::string reference = text(member(declared, "$ref"));
  if (reference.empty()) return;
  const std::string name = reference.substr(reference.rfind('/') + 1);
  if (components.contains(definition_schema_name(name))) return;
  components[definition_schema_name(name)] = published_schema(definitions[name], definitions);
  collect_references(definitions[name], definitions, components);
}

Json group_version_kind(const Kind& kind, const std::string& version) {
  return {{"group", kind.group}, {"version", version}, {"kind", kind.kind}};
}

Json parameter(const char* name, const char* where, const char* type, const char* description) {
  return {{"name", name},
          {"in", where},
          {"description", description},
          {"required", std::string_view(where) == "path"},
          {"schema", {{"type", type}}}};
}

Json write_parameters() {
  return Json::array({parameter("dryRun", "query", "string", "All: only try it."),
                      parameter("fieldManager", "query", "string", "Who writes."),
                      // kubectl leaves checking to servers that say they do it.
                      parameter("fieldValidation", "query", "string",
                                "What to do about unknown fields: Ignore, Warn or Strict.")});
}

Json list_parameters() {
  return Json::array(
      {parameter("labelSelector", "query", "string", "Only objects with these labels."),
       parameter("fieldSelector", "query", "string", "Only objects with these fields."),
       parameter("limit", "query", "integer", "At most so many; metadata.continue has the rest."),
       parameter("continue", "query", "string", "Where an earlier page ended."),
       parameter("resourceVersion", "query", "string", "The state, or where a watch begins."),
       parameter("resourceVersionMatch", "query", "string", "Exact or NotOlderThan."),
       parameter("timeoutSeconds", "query", "integer", "When a watch ends."),
       parameter("allowWatchBookmarks", "query", "boolean", "Bookmarks in a watch."),
       parameter("sendInitialEvents", "query", "boolean", "A watch that begins with a list."),
       parameter("watch", "query", "boolean", "A stream of changes instead of a list.")});
}

Json response_of(const std::string& schema) {
  const Json content{{"schema", {{"$ref", "#/components/schemas/" + schema}}}};
  return {{"200",
           {{"description", "OK"},
            {"content", {{"application/json", content}, {"application/yaml", content}}}}}};
}

class DocumentBuilder {
 public:
  DocumentBuilder(const Kinds& kinds, const std::string& group_version)
      : kinds_(kinds), group_version_(group_version) {}

  Json build() {
    for (const Kind& kind : kinds_.all()) {
      for (const std::string& version : kind.versions) {
        if (kind.api_version(version) == group_version_) add(kind, version);
      }
    }
    return {{"openapi", "3.0.0"},
            {"info", {{"title", "virtset"}, {"version", version_document()["gitVersion"]}}},
            {"paths", paths_},
            {"components", {{"schemas", components_}}}};
  }

 private:
  void add(const Kind& kind, const std::string& version) {
    const std::string name = kind_schema_name(kind, version);
    Json schema = published_schema(kind.schema_document, kinds_.definitions());
    schema["x-kubernetes-group-version-kind"] = Json::array({group_version_kind(kind, version)});
    components_[name] = std::move(schema);
    collect_references(kind.schema_document, kinds_.definitions(), components_);
    add_paths(kind, version, name);
  }

  void add_paths(const Kind& kind, const std::string& version, const std::string& schema) {
    const std::string root =
        (kind.group.empty() ? "/api/" : "/apis/") + kind.api_version(version) + "/";
    const std::string collection =
        root + (kind.namespaced ? "namespaces/{namespace}/" : "") + kind.plural;
    const auto operation = [&](const char* verb, const char* action, Json parameters) {
      Json answer{{"description", std::string(action) + " " + kind.plural},
                  {"x-kubernetes-action", verb},
                  {"x-kubernetes-group-version-kind", group_version_kind(kind, version)},
                  {"parameters", std::move(parameters)},
                  {"responses", response_of(schema)}};
      return answer;
    };
    const auto put = [&](const std::string& path, const char* method, const char* verb,
                         const char* action, Json parameters) {
      if (!kind.allows(verb)) return;
      Json& entry = paths_[path];
      if (entry.is_null()) entry["parameters"] = path_parameters(path);
      // kubectl computes patches from our schema where a PATCH names its media types; without them
      // it uses what it knows of built-in kinds.
      entry[method] = operation(verb, action, std::move(parameters));
    };
    const std::string object = collection + "/{name}";
    put(collection, "get", "list", "list or watch", list_parameters());
    put(collection, "post", "create", "create", write_parameters());
    put(collection, "delete", "deletecollection", "delete all of", list_parameters());
    put(object, "get", "get", "read one of", Json::array());
    put(object, "put", "update", "replace one of", write_parameters());
    put(object, "patch", "patch", "change one of", write_parameters());
    put(object, "delete", "delete", "delete one of", Json::array());
    if (kind.namespaced) {
      put(root + kind.plural, "get", "list", "list or watch, in all namespaces,",
          list_parameters());
    }
  }

  static Json path_parameters(const std::string& path) {
    Json list = Json::array();
    if (path.find("{namespace}") != path.npos) {
      list.push_back(parameter("namespace", "path", "string", "Of the objects."));
    }
    if (path.find("{name}") != path.npos) {
      list.push_back(parameter("name", "path", "string", "Of the object."));
    }
    return list;
  }

  const Kinds& kinds_;
  const std::string group_version_;
  Json paths_ = Json::object();
  Json components_ = Json::object();
};

std::string path_of(const std::string& group_version) {
  return (group_version.find('/') == std::string::npos ? "api/" : "apis/") + group_version;
}

Response version_two(const std::string& protobuf, const Request& request) {
  Response response;
  if (request.accept.find("protobuf") != std::string::npos) {
    response.content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    response.body = protobuf;
  } else {
    response.body =
        R"({"swagger":"2.0","info":{"title":"virtset","version":"v1"},"paths":{},"definitions":{}})";
  }
  return response;
}

}  // namespace

// Documents change with the declarations, all of which are part of the binary.
const std::string& OpenApi::hash() {
  if (hash_.empty()) {
    std::string declared =
        version_document()["gitVersion"].get<std::string>() + kinds_.definitions().dump();
    for (const Kind& kind : kinds_.all()) declared += kind.schema_document.dump();
    hash_ = std::to_string(std::hash<std::string>()(declared));
  }
  return hash_;
}

std::optional<Response> OpenApi::respond(const Request& request,
                                         const std::vector<std::string>& segments) {
  if (segments.size() == 2 && segments[1] == "v2") {
    if (version_two_.empty()) version_two_ = openapi_v2_protobuf(kinds_);
    return version_two(version_two_, request);
  }
  if (segments.size() < 2 || segments[1] != "v3") return std::nullopt;
  if (segments.size() == 2) return index();
  const bool core = segments.size() == 4 && segments[2] == "api";
  if (!core && (segments.size() != 5 || segments[2] != "apis")) return std::nullopt;
  const std::string wanted = core ? segments[3] : segments[3] + "/" + segments[4];
  for (const Kind& kind : kinds_.all()) {
    for (const std::string& version : kind.versions) {
      if (kind.api_version(version) != wanted) continue;
      Response response;
      response.body = document(wanted);
      response.headers.emplace_back("etag", "\"" + hash() + "\"");
      return response;
    }
  }
  return std::nullopt;
}

const std::string& OpenApi::document(const std::string& group_version) {
  const auto [entry, is_new] = documents_.try_emplace(group_version);
  if (is_new) entry->second = DocumentBuilder(kinds_, group_version).build().dump();
  return entry->second;
}

Response OpenApi::index() {
  Json paths = Json::object();
  for (const Kind& kind : kinds_.all()) {
    for (const std::string& version : kind.versions) {
      const std::string group_version = kind.api_version(version);
      const std::string path = path_of(group_version);
      paths[path] = {{"serverRelativeURL", "/openapi/v3/" + path + "?hash=" + hash()}};
    }
  }
  Response response;
  response.body = Json{{"paths", paths}}.dump();
  return response;
}

}  // namespace virtset::api
