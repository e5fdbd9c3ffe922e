#include "api/rest/rest_api.h"

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

// gnostic's Document with nothing but swagger "2.0": enough for every kubectl to leave validation
// to us (fieldValidation), and all it needs for lists.
Response openapi_v2(const Request& request) {
  Response response;
  if (request.accept.find("protobuf") != std::string::npos) {
    response.content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    response.body =
        "\x0a\x03"
        "2.0";
  } else {
    response.body =
        R"({"swagger":"2.0","info":{"title":"virtset","version":"v1"},"paths":{},"definitions":{}})";
  }
  return response;
}

constexpr const char* welcome =
    "This is virtset, which keeps sets of virtual machines running on this host.\n"
    "\n"
    "  /apis/kubevirt.io/v1/virtualmachineinstancereplicasets   the sets\n"
    "  /apis/kubevirt.io/v1/virtualmachineinstances             the virtual machines\n"
    "  /api/v1/events                                           what happened\n"
    "\n"
    "Ask with 'Accept: text/plain' for a table, 'Accept: application/yaml' for YAML, or point "
    "kubectl\n"
    "at the kubeconfig that virtsetd has written.\n";

}  // namespace

void RestApi::handle(const Request& request, const Respond& respond) {
  try {
    const std::vector<std::string> segments = split_path(request.path);
    if (handle_meta(request, segments, respond)) return;
    const auto path = parse_resource_path(kinds_, segments);
    if (!path) throw no_such_path();
    handle_resource(*path, request, respond);
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
    response = plain(welcome);
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
  } else if (segments.size() == 2 && first == "openapi" && segments[1] == "v2") {
    response = openapi_v2(request);
  } else {
    response = discovery_response(kinds_, request, segments);
  }
  if (!response) return false;
  if (!reads) throw method_not_allowed();
  respond(std::move(*response));
  return true;
}

void RestApi::handle_resource(const ResourcePath& path, const Request& request,
                              const Respond& respond) {
  if (path.name.empty()) {
    handle_collection(path, request, respond);
    return;
  }
  const WriteContext context{store_, scheduler_, path, request, respond};
  if (path.subresource == "scale" && path.kind->scale) {
    if (request.method == "GET") {
      respond(read_scale(context));
    } else if (request.method == "PUT") {
      replace_scale(context);
    } else if (request.method == "PATCH") {
      patch_scale(context);
    } else {
      throw method_not_allowed();
    }
    return;
  }
  const bool status = path.subresource == "status" && path.kind->has_status;
  if (!path.subresource.empty() && !status) throw no_such_path();
  handle_object(path, request, respond);
}

void RestApi::handle_collection(const ResourcePath& path, const Request& request,
                                const Respond& respond) {
  if (request.method == "POST") {
    if (path.kind->namespaced && !path.ns) {
      throw bad_request("the path must name a namespace: …/namespaces/{namespace}/" +
                        path.kind->plural);
    }
    create_object({store_, scheduler_, path, request, respond});
    return;
  }
  if (request.method != "GET") throw method_not_allowed();
  ObjectFilter filter(*path.kind, path.ns, request);
  Rendering rendering = Rendering::of(request, *path.kind, path.version);
  if (request.flag("watch")) {
    respond(watch_response(store_, scheduler_, std::move(filter), std::move(rendering), request));
  } else {
    respond(list_response(store_, scheduler_, std::move(filter), std::move(rendering)));
  }
}

void RestApi::handle_object(const ResourcePath& path, const Request& request,
                            const Respond& respond) {
  const WriteContext context{store_, scheduler_, path, request, respond};
  if (request.method == "GET") {
    respond(read(path, request));
  } else if (request.method == "PUT") {
    replace_object(context);
  } else if (request.method == "PATCH") {
    patch_object(context);
  } else if (request.method == "DELETE" && path.subresource.empty()) {
    delete_object(context);
  } else {
    throw method_not_allowed();
  }
}

Response RestApi::read(const ResourcePath& path, const Request& request) {
  const store::ObjectPtr object = store_.get(path.key());
  if (!object) throw not_found(*path.kind, path.name);
  return respond_with(Rendering::of(request, *path.kind, path.version), *object, 200,
                      scheduler_.now());
}

}  // namespace virtset::api
