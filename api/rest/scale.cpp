#include "api/kinds/admission.h"
#include "api/kinds/json_access.h"
#include "api/rest/status.h"
#include "api/rest/write_support.h"
#include "api/rest/writes.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Mutation = store::Store::Mutation;

Json at(const Json& document, const Json::json_pointer& pointer) {
  return document.contains(pointer) ? document[pointer] : Json();
}

Json to_scale(const Kind& kind, const store::Object& object) {
  const Json& document = *object.document();
  const ScalePaths& paths = *kind.scale;
  Json metadata = Json::object();
  for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (document["metadata"].contains(field)) metadata[field] = document["metadata"][field];
  }
  Json scale{{"kind", "Scale"},
             {"apiVersion", "autoscaling/v1"},
             {"metadata", metadata},
             {"spec", {{"replicas", integer(at(document, paths.spec_replicas), 1)}}},
             {"status", {{"replicas", integer(at(document, paths.status_replicas), 0)}}}};
  const std::string selector = text(at(document, paths.label_selector));
  if (!selector.empty()) scale["status"]["selector"] = selector;
  return scale;
}

// The number of replicas that a Scale asks for. Throws ApiError 400 or 422.
std::int64_t wanted_replicas(const Kind& kind, const std::string& name, const Json& scale) {
  if (!scale.is_object() || scale.value("kind", "Scale") != "Scale") {
    throw bad_request("the body must be a Scale of autoscaling/v1");
  }
  const Json& replicas = member(scale, "spec", "replicas");
  // Kubernetes: an absent number is zero; that would stop everything because of a typo.
  if (!replicas.is_number_integer() || replicas < 0 || replicas > INT32_MAX) {
    ApiError error =
        invalid(kind, name,
                {{replicas.is_null() ? FieldError::Reason::required : FieldError::Reason::invalid,
                  "spec.replicas",
                  (replicas.is_null() ? std::string("Required value")
                                      : "Invalid value: " + replicas.dump()) +
                      ": must be an integer from 0 to 2147483647"}});
    throw error;
  }
  return replicas;
}

void change_scale(const WriteContext& context, std::function<Json(const Json& scale)> next) {
  const ResourcePath path = context.path;
  const FieldValidation validation = field_validation(context.request);
  auto pending = pend(context);
  const Writer who = writer(context.request, path);
  auto mutate = [path, validation, next, who, pending](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    const std::shared_ptr<const Json> old = current->document();
    const Json scale = next(to_scale(*path.kind, *current));
    Json changed = *old;
    changed[path.kind->scale->spec_replicas] = wanted_replicas(*path.kind, path.name, scale);
    // Optimistic concurrency is that of the object.
    for (const char* field : {"resourceVersion", "uid"}) {
      const std::string sent = text(member(scale, "metadata", field));
      if (!sent.empty()) changed["metadata"][field] = sent;
    }
    // Only the number changes: what else may be wrong with the object is not scaling's concern.
    if (changed[path.kind->scale->spec_replicas] == at(*old, path.kind->scale->spec_replicas) &&
        changed == *old) {
      return Mutation::nothing();
    }
    Json admitted =
        admit_change(*path.kind, *old, std::move(changed), Part::all, validation).object;
    record_update(*path.kind, *old, admitted, who, pending->scheduler.now());
    return Mutation::put(std::move(admitted));
  };
  const auto answer = [pending, path](const store::Object& object) {
    return respond_with(pending->rendering.wanted, to_scale(*path.kind, object), 200);
  };
  run_write(context, path.key(), pending, std::move(mutate), answer);
}

}  // namespace

Response read_scale(const WriteContext& context) {
  const store::ObjectPtr object = context.store.get(context.path.key());
  if (!object) throw not_found(*context.path.kind, context.path.name);
  return respond_with(negotiate(context.request.accept), to_scale(*context.path.kind, *object),
                      200);
}

void replace_scale(const WriteContext& context) {
  const Json body = parse_body(context.request.content_type, context.request.body);
  change_scale(context, [body](const Json&) { return body; });
}

void patch_scale(const WriteContext& context) {
  change_scale(context, read_patch(*context.path.kind, context.request));
}

}  // namespace virtset::api
