#include "api/rest/rest_api.h"

#include <algorithm>

#include "api/kinds/utf8.h"
#include "api/rest/actions.h"
#include "api/rest/discovery.h"
#include "api/rest/list.h"
#include "api/rest/status.h"
#include "api/rest/version.h"
#include "api/rest/watch.h"
#include "api/rest/writes.h"

namespace virtset::api {

namespace {

ApiError no_such_path() {
  return ApiError(404, "NotFound", "the server could not find the requested resource");
}

ApiError method_not_allowed() {
  return ApiError(405, "MethodNotAllowed",
                  "the server does not allow this method on the requested resource");
}

Response plain(const std::string& text) {
  Response response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = text;
  return response;
}

constexpr const char* welcome =
    "This is virtset, which keeps sets of virtual machines running on this host.\n"
    "\n"
    "  /apis/kubevirt.io/v1/virtualmachineinstancereplicasets   the sets\n"
    "  /apis/kubevirt.io/v1/virtualmachines                     virtual machines that stay\n"
    "  /apis/kubevirt.io/v1/virtualmachineinstances             those that run\n"
    "  /api/v1/events                                           what happened\n"
    "  /api/v1/nodes                                            this host\n"
    "  /apis, /openapi/v3                                       all that there is, for programs\n"
    "\n"
    "curl -H 'Accept: text/plain' shows tables, and with ?watch=1 each change as a line;\n"
    "'Accept: application/yaml' gives YAML. kubectl works with the kubeconfig that virtsetd has\n"
    "written. docs/api.md is a tour.\n";

// People get a text, programs what Kubernetes gives them.
Response front_page(const Kinds& kinds, const Request& request) {
  const Wanted wanted = negotiate(request.accept);
  if (wanted.any || wanted.form == Form::text) return plain(welcome);
  std::vector<std::string> paths = {"/api",        "/api/v1",     "/apis",   "/healthz", "/livez",
                                    "/openapi/v2", "/openapi/v3", "/readyz", "/version"};
  for (const Kind& kind : kinds.all()) {
    if (kind.group.empty()) continue;
    paths.push_back("/apis/" + kind.group);
    for (const std::string& version : kind.versions) {
      paths.push_back("/apis/" + kind.api_version(version));
    }
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return respond_with(wanted, {{"paths", paths}}, 200);
}

// What comes in a path or a parameter may be any bytes, and may get into answers and objects.
void check_text(const Request& request) {
  bool valid = is_utf8(request.path);
  for (const auto& [name, value] : request.query) valid = valid && is_utf8(name) && is_utf8(value);
  if (!valid) throw bad_request("the path and its parameters must be UTF-8");
}

// What a request to a resource is, in the words of discovery.
std::string verb_of(const Request& request, bool collection) {
  if (request.method == "GET") {
    if (!collection) return "get";
    return request.flag("watch") ? "watch" : "list";
  }
  if (request.method == "POST") return collection ? "create" : "";
  if (request.method == "DELETE") return collection ? "deletecollection" : "delete";
  if (collection) return "";
  if (request.method == "PUT") return "update";
  return request.method == "PATCH" ? "patch" : "";
}

}  // namespace

void RestApi::handle(const Request& request, const Respond& respond) {
  try {
    check_text(request);
    const std::vector<std::string> segments = split_path(request.path);
    if (handle_meta(request, segments, respond)) return;
    const auto path = parse_resource_path(kinds_, segments);
    if (!path) throw no_such_path();
    if (path->kind->has_action(path->subresource)) {
      act({store_, scheduler_, *path, request, respond});
    } else {
      handle_resource(*path, request, respond);
    }
  } catch (...) {
    respond(to_response(to_api_error(std::current_exception()), request));
  }
}

bool RestApi::handle_meta(const Request& request, const std::vector<std::string>& segments,
                          const Respond& respond) {
  const bool reads = request.method == "GET";
  const std::string first = segments.empty() ? "" : segments[0];
  std::optional<Response> response;
  if (segments.empty()) {
    response = front_page(kinds_, request);
  } else if (segments.size() == 1 &&
             (first == "healthz" || first == "readyz" || first == "livez")) {
    response = plain("ok");
    // At the very first start it is on its way to the disk.
    if (first == "readyz" && !store_.get({core_group, namespace_kind, "", "default"})) {
      response = plain("the namespace default is not there yet");
      response->status = 503;
    }
  } else if (segments.size() == 1 && first == "version") {
    Response version;
    version.body = version_document().dump();
    response = std::move(version);
  } else if (first == "openapi") {
    response = openapi_.respond(request, segments);
  } else {
    response = discovery_response(kinds_, request, segments);
    if (!response) response = action_group_response(kinds_, segments);
  }
  if (!response) return false;
  if (!reads) throw method_not_allowed();
  respond(std::move(*response));
  return true;
}

void RestApi::handle_resource(const ResourcePath& path, const Request& request,
                              const Respond& respond) {
  const WriteContext context{store_, scheduler_, path, request, respond};
  if (!negotiate(request.accept).possible) {
    throw ApiError(406, "NotAcceptable",
                   "only the following media types are accepted: application/json, "
                   "application/yaml, text/plain");
  }
  const bool scale = path.subresource == "scale" && path.kind->scale;
  const bool status = path.subresource == "status" && path.kind->has_status;
  if (!path.subresource.empty() && !scale && !status) throw no_such_path();
  const std::string verb = verb_of(request, path.name.empty());
  if (verb.empty() || !path.kind->allows(verb) || (!path.subresource.empty() && verb == "delete")) {
    throw method_not_allowed();
  }
  if (path.name.empty()) {
    handle_collection(context, verb);
  } else if (scale) {
    handle_scale(context, verb);
  } else if (verb == "get") {
    respond(read(path, request));
  } else if (verb == "update") {
    replace_object(context);
  } else if (verb == "patch") {
    patch_object(context);
  } else {
    delete_object(context);
  }
}

void RestApi::handle_scale(const WriteContext& context, const std::string& verb) {
  if (verb == "get") {
    context.respond(read_scale(context));
  } else if (verb == "update") {
    replace_scale(context);
  } else {
    patch_scale(context);
  }
}

void RestApi::handle_collection(const WriteContext& context, const std::string& verb) {
  const auto& [store, scheduler, path, request, respond] = context;
  if (path.kind->namespaced && !path.ns && (verb == "create" || verb == "deletecollection")) {
    throw bad_request("the path must name a namespace: …/namespaces/{namespace}/" +
                      path.kind->plural);
  }
  if (verb == "create") {
    path.kind->stored ? create_object(context) : answer_request(context);
    return;
  }
  if (verb == "deletecollection") {
    delete_collection(context);
    return;
  }
  ObjectFilter filter(*path.kind, path.ns, request);
  Rendering rendering = Rendering::of(request, *path.kind, path.version);
  if (verb == "watch") {
    respond(watch_response(store_, scheduler_, std::move(filter), std::move(rendering), request));
  } else {
    respond(list_response(store_, scheduler_, std::move(filter), std::move(rendering), request));
  }
}

Response RestApi::read(const ResourcePath& path, const Request& request) {
  const store::ObjectPtr object = store_.get(path.key());
  if (!object) throw not_found(*path.kind, path.name);
  return respond_with(Rendering::of(request, *path.kind, path.version), *object, 200,
                      scheduler_.now());
}

}  // namespace virtset::api
