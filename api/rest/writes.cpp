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

std::shared_ptr<PendingWrite> pend(const WriteContext& context) {
  return std::make_shared<PendingWrite>(
      PendingWrite{Rendering::of(context.request, *context.path.kind, context.path.version),
                   context.request,
                   context.respond,
                   context.scheduler,
                   {}});
}

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

// A write that makes `next` out of the current object, admits and stores it.
void change_object(const WriteContext& context,
                   std::function<Json(const store::Object& current)> next) {
  auto pending = pend(context);
  const ResourcePath path = context.path;
  const FieldValidation validation = field_validation(context.request);
  auto mutate = [path, validation, pending, next](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    const std::shared_ptr<const Json> old = current->document();
    Admitted admitted = admit_change(*path.kind, *old, next(*current), part_of(path), validation);
    pending->warnings = std::move(admitted.warnings);
    if (admitted.object == *old) return Mutation::nothing();
    return put_or_finish(std::move(admitted.object));
  };
  run_write(context, path.key(), pending, std::move(mutate), object_answer(pending));
}

struct DeleteOptions {
  std::optional<Propagation> policy;
  std::optional<std::int64_t> grace_period_seconds;
  std::string uid;
  std::string resource_version;
};

Propagation read_policy(const std::string& text) {
  if (text == "Background") return Propagation::background;
  if (text == "Foreground") return Propagation::foreground;
  if (text == "Orphan") return Propagation::orphan;
  throw bad_request("propagationPolicy must be Background, Foreground or Orphan, not \"" + text +
                    "\"");
}

// Kubernetes: the options come as a body, or as parameters.
DeleteOptions read_delete_options(const Request& request, bool& dry_run) {
  Json body = Json::object();
  if (!request.body.empty()) body = parse_body(request.content_type, request.body);
  if (!body.is_object()) throw bad_request("the body of a deletion must be DeleteOptions");
  const auto value = [&](const char* name) -> Json {
    if (!member(body, name).is_null()) return body[name];
    const auto parameter = request.parameter(name);
    return parameter ? Json(*parameter) : Json();
  };
  DeleteOptions options;
  if (const Json policy = value("propagationPolicy"); policy.is_string()) {
    options.policy = read_policy(text(policy));
  }
  if (const Json orphan = value("orphanDependents"); !orphan.is_null()) {
    if (options.policy) {
      throw bad_request("orphanDependents and propagationPolicy cannot be given together");
    }
    options.policy =
        orphan == true || orphan == "true" ? Propagation::orphan : Propagation::background;
  }
  if (const Json grace = value("gracePeriodSeconds"); !grace.is_null()) {
    const std::string digits = grace.is_string() ? text(grace) : grace.dump();
    char* end = nullptr;
    options.grace_period_seconds = std::strtoll(digits.c_str(), &end, 10);
    if (digits.empty() || *end != '\0') throw bad_request("gracePeriodSeconds must be an integer");
  }
  options.uid = text(member(body, "preconditions", "uid"));
  options.resource_version = text(member(body, "preconditions", "resourceVersion"));
  const Json& in_body = member(body, "dryRun");
  dry_run = is_dry_run(request) || (in_body.is_array() && !in_body.empty());
  return options;
}

Response deleted_answer(const Kind& kind, const store::Object& object) {
  Json details{{"name", object.key().name}, {"kind", kind.plural}, {"uid", object.uid()}};
  if (!kind.group.empty()) details["group"] = kind.group;
  Response response;
  response.body = Json{{"kind", "Status"},
                       {"apiVersion", "v1"},
                       {"metadata", Json::object()},
                       {"status", "Success"},
                       {"details", details}}
                      .dump() +
                  "\n";
  return response;
}

}  // namespace

void create_object(const WriteContext& context) {
  const ResourcePath& path = context.path;
  auto pending = pend(context);
  pending->success_status = 201;
  Json body = parse_body(context.request.content_type, context.request.body);
  // kubectl puts the namespace into the path; who uses curl may put it into the object alone.
  require_namespace(context.store, path);
  const Destination destination{path.ns.value_or(""), [&](const std::string& name) {
                                  ResourcePath taken = path;
                                  taken.name = name;
                                  return context.store.get(taken.key()) ||
                                         context.store.busy(taken.key());
                                }};
  Admitted admitted = admit_new(*path.kind, std::move(body), destination,
                                field_validation(context.request), context.scheduler.now());
  pending->warnings = std::move(admitted.warnings);
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
  const Json body = parse_body(context.request.content_type, context.request.body);
  const Kind& kind = *context.path.kind;
  // Kubernetes: an unconditional update is refused for custom resources; it loses what others
  // wrote.
  if (!kind.group.empty() && text(member(body, "metadata", "resourceVersion")).empty() &&
      context.store.get(context.path.key())) {
    throw invalid(kind, context.path.name,
                  {{FieldError::Reason::invalid, "metadata.resourceVersion",
                    "Invalid value: \"\": must be specified for an update"}});
  }
  change_object(context, [body](const store::Object&) { return body; });
}

void patch_object(const WriteContext& context) {
  change_object(context, [patch = read_patch(context.request)](const store::Object& current) {
    return patch(*current.document());
  });
}

void delete_object(const WriteContext& context) {
  bool dry_run = false;
  const DeleteOptions options = read_delete_options(context.request, dry_run);
  const ResourcePath path = context.path;
  auto pending = pend(context);
  const auto removes = std::make_shared<bool>(false);
  auto mutate = [path, options, removes,
                 now = context.scheduler.now()](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    const Json& document = *current->document();
    if (const auto why = path.kind->rules->refuses_deletion(document)) {
      throw ApiError(403, "Forbidden",
                     path.kind->resource() + " \"" + path.name + "\" is forbidden: " + *why);
    }
    if (!options.uid.empty() && options.uid != current->uid()) {
      throw conflict(*path.kind, path.name,
                     "the UID in the precondition (" + options.uid +
                         ") does not match the UID in record (" + current->uid() + ")");
    }
    if (!options.resource_version.empty() &&
        options.resource_version != std::to_string(current->revision())) {
      throw conflict(*path.kind, path.name,
                     "the ResourceVersion in the precondition (" + options.resource_version +
                         ") does not match the ResourceVersion in record (" +
                         std::to_string(current->revision()) + ")");
    }
    Mutation mutation = begin_deletion(document, options.policy, options.grace_period_seconds, now);
    *removes = mutation.type == Mutation::Type::remove;
    return mutation;
  };
  const Answer still_there = object_answer(pending);
  const auto answer = [path, removes, still_there](const store::Object& object) {
    return *removes ? deleted_answer(*path.kind, object) : still_there(object);
  };
  Request request = context.request;
  if (dry_run) request.query.emplace_back("dryRun", "All");
  run_write({context.store, context.scheduler, context.path, request, context.respond}, path.key(),
            pending, std::move(mutate), answer);
}

}  // namespace virtset::api
