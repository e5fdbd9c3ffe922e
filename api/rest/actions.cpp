#include "api/rest/actions.h"

#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/rest/status.h"
#include "api/rest/version.h"
#include "api/rest/write_support.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Mutation = store::Store::Mutation;

// Most clients send none.
Json read_options(const Request& request) {
  if (request.body.empty()) return nullptr;
  return parse_body(request.content_type, request.body);
}

// As for errors: people get a sentence, who asks for JSON a Status.
Response accepted(const Request& request, const ResourcePath& path) {
  const std::string message =
      path.kind->singular + " " + path.name + ": " + path.subresource + " was accepted";
  const Wanted wanted = negotiate(request.accept);
  if (wanted.any || wanted.form == Form::text) {
    Response response;
    response.status = 202;
    response.content_type = "text/plain; charset=utf-8";
    response.body = message + "\n";
    return response;
  }
  return respond_with(wanted,
                      {{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"metadata", Json::object()},
                       {"status", "Success"},
                       {"code", 202},
                       {"message", message}},
                      202);
}

}  // namespace

void act(const WriteContext& context) {
  if (context.request.method != "PUT") {
    throw ApiError(405, "MethodNotAllowed", "actions are requested with PUT");
  }
  ResourcePath path = context.path;
  path.version = path.kind->versions.front();  // that of the actions is not the object's
  const Json options = read_options(context.request);
  Request request = context.request;
  // KubeVirt: the wish to only try it is in the body.
  if (!member(options, "dryRun").empty()) request.query.emplace_back("dryRun", "All");
  const WriteContext with_options{context.store, context.scheduler, path, request, context.respond};
  auto pending = pend(with_options);
  const Writer who = writer(request, path);
  auto mutate = [&store = context.store, path, options, who,
                 pending](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    const std::shared_ptr<const Json> old = current->document();
    const store::ObjectPtr instance =
        store.get({kubevirt_group, instance_kind, path.ns.value_or(""), path.name});
    Json next = path.kind->rules->act(path.subresource, *old,
                                      instance ? *instance->document() : Json(), options);
    Json status = std::move(next["status"]);
    Json admitted =
        admit_change(*path.kind, *old, std::move(next), Part::all, FieldValidation::ignore).object;
    admitted["status"] = std::move(status);
    record_update(*path.kind, *old, admitted, who, pending->scheduler.now());
    return Mutation::put(std::move(admitted));
  };
  run_write(with_options, path.key(), pending, std::move(mutate),
            [pending, path](const store::Object&) { return accepted(pending->request, path); });
}

std::optional<Response> action_group_response(const Kinds& kinds,
                                              const std::vector<std::string>& segments) {
  if (segments.size() != 4 || segments[0] != "apis") return std::nullopt;
  for (const Kind& kind : kinds.all()) {
    if (!kind.actions.serve(segments[1], segments[2])) continue;
    Response response;
    if (segments[3] == "version") {
      response.body = version_document().dump();
      return response;
    }
    if (segments[3] == "healthz") {
      response.body = R"("ok")";
      return response;
    }
  }
  return std::nullopt;
}

}  // namespace virtset::api
