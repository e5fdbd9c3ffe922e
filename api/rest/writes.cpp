#include "api/rest/writes.h"

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/names.h"
#include "api/rest/status.h"
#include "api/rest/write_support.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Mutation = store::Store::Mutation;

void require_namespace(const store::Store& store, const ResourcePath& path) {
  if (!path.ns) return;
  const store::ObjectPtr ns = store.get({core_group, namespace_kind, "", *path.ns});
  if (!ns) {
    throw not_found(*builtin_kinds().find(core_group, namespace_kind), *path.ns);
  }
  if (is_deleting(*ns->document())) {
    ApiError error(403, "Forbidden",
                   "unable to create new content in namespace " + *path.ns +
                       " because it is being terminated");
    throw error;
  }
}

Part part_of(const ResourcePath& path) {
  return path.subresource == "status" ? Part::status : Part::all;
}

// The write that an admitted change of `current` amounts to.
Mutation settle(const Json& current, Admitted admitted) {
  if (equal_but_for_times(current, admitted.object)) return Mutation::nothing();
  return put_or_finish(std::move(admitted.object));
}

// A write that makes `next` out of the current object, admits and stores it.
void change_object(const WriteContext& context, std::shared_ptr<PendingWrite> pending,
                   std::function<Json(const store::Object& current)> next) {
  const ResourcePath path = context.path;
  const FieldValidation validation = field_validation(context.request);
  const Writer who = writer(context.request, path);
  auto mutate = [path, validation, who, pending, next](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    const std::shared_ptr<const Json> old = current->document();
    Admitted admitted = admit_change(*path.kind, *old, next(*current), part_of(path), validation);
    record_update(*path.kind, *old, admitted.object, who, pending->scheduler.now());
    pending->warn(admitted);
    return settle(*old, std::move(admitted));
  };
  run_write(context, path.key(), pending, std::move(mutate), object_answer(pending));
}

// Kubernetes: a configuration says which object it is for, and cannot ask for one that is gone.
void check_identity(const ResourcePath& path, const Json& configuration, bool exists) {
  const std::string name = text(member(configuration, "metadata", "name"));
  if (name != path.name && !(exists && name.empty())) {
    throw bad_request(name.empty()
                          ? "name must be provided"
                          : "the name of the object (" + name +
                                ") does not match the name on the URL (" + path.name + ")");
  }
  if (!exists && !text(member(configuration, "metadata", "uid")).empty()) {
    throw conflict(*path.kind, path.name,
                   "uid mismatch: the provided object specified a uid, and "
                   "no existing object was found");
  }
}

void apply_object(const WriteContext& context) {
  const ResourcePath path = context.path;
  Json configuration = parse_body(context.request.content_type, context.request.body);
  const Writer who = writer(context.request, path);
  const bool force = context.request.flag("force");
  const FieldValidation validation = field_validation(context.request);
  auto pending = pend(context);
  auto mutate = [&store = context.store, path, pending, configuration = std::move(configuration),
                 who, force, validation](const store::Object* current) mutable {
    const Time now = pending->scheduler.now();
    const std::shared_ptr<const Json> old = current ? current->document() : nullptr;
    if (!current && !path.subresource.empty()) throw not_found(*path.kind, path.name);
    check_identity(path, configuration, current != nullptr);
    Json next = apply(*path.kind, old.get(), std::move(configuration), who, force, now);
    if (current) {
      Admitted changed = admit_change(*path.kind, *old, std::move(next), part_of(path), validation);
      pending->warn(changed);
      return settle(*old, std::move(changed));
    }
    require_namespace(store, path);
    pending->success_status = 201;
    Admitted admitted =
        admit_new(*path.kind, std::move(next), {path.ns.value_or(""), nullptr}, validation, now);
    pending->warn(admitted);
    return Mutation::put(std::move(admitted.object));
  };
  run_write(context, path.key(), pending, std::move(mutate), object_answer(pending));
}

}  // namespace

void answer_request(const WriteContext& context) {
  const Kind& kind = *context.path.kind;
  std::vector<std::string> warnings;
  Admitted admitted = admit_request(kind, read_body(context.request, *kind.schema, warnings),
                                    field_validation(context.request));
  kind.rules->answer(admitted.object);
  admitted.object["apiVersion"] = kind.api_version(context.path.version);
  context.respond(respond_with(negotiate(context.request.accept), admitted.object, 201));
}

void create_object(const WriteContext& context) {
  const ResourcePath& path = context.path;
  auto pending = pend(context);
  pending->success_status = 201;
  Json body = read_body(context.request, *path.kind->schema, pending->warnings);
  if (body.is_object() && body["metadata"].is_object()) body["metadata"].erase("managedFields");
  if (!text(member(body, "metadata", "resourceVersion")).empty()) {
    throw bad_request("metadata.resourceVersion should not be set on objects to be created");
  }
  require_namespace(context.store, path);
  const Destination destination{path.ns.value_or(""), [&](const std::string& name) {
                                  ResourcePath taken = path;
                                  taken.name = name;
                                  return context.store.get(taken.key()) ||
                                         context.store.busy(taken.key());
                                }};
  Admitted admitted = admit_new(*path.kind, std::move(body), destination,
                                field_validation(context.request), context.scheduler.now());
  pending->warn(admitted);
  ResourcePath target = path;
  target.name = admitted.object["metadata"]["name"];
  auto mutate = [&store = context.store, target,
                 object = std::move(admitted.object)](const store::Object* current) mutable {
    if (current) throw already_exists(*target.kind, target.name, is_deleting(*current->document()));
    // Again, because an earlier write may have had to be waited for.
    require_namespace(store, target);
    return Mutation::put(std::move(object));
  };
  run_write(context, target.key(), pending, std::move(mutate), object_answer(pending));
}

void replace_object(const WriteContext& context) {
  auto pending = pend(context);
  const Json body = read_body(context.request, *context.path.kind->schema, pending->warnings);
  const Kind& kind = *context.path.kind;
  // Kubernetes: an unconditional update is refused for custom resources; it loses what others
  // wrote.
  if (!kind.is_built_in() && text(member(body, "metadata", "resourceVersion")).empty() &&
      context.store.get(context.path.key())) {
    throw invalid(kind, context.path.name,
                  {{FieldError::Reason::invalid, "metadata.resourceVersion",
                    "Invalid value: \"\": must be specified for an update"}});
  }
  change_object(context, pending, [body](const store::Object&) { return body; });
}

void patch_object(const WriteContext& context) {
  if (is_apply(context.request)) {
    apply_object(context);
    return;
  }
  if (context.request.parameter("force")) {
    throw invalid_option("PatchOptions", FieldError::Reason::forbidden, "force",
                         "Forbidden: may not be specified for non-apply patch");
  }
  change_object(context, pend(context),
                [patch = read_patch(*context.path.kind, context.request)](
                    const store::Object& current) { return patch(*current.document()); });
}

}  // namespace virtset::api
