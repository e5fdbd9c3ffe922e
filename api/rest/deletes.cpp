// The verbs that end objects: delete, and deletecollection.

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/rest/list.h"
#include "api/rest/status.h"
#include "api/rest/write_support.h"
#include "api/rest/writes.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Mutation = store::Store::Mutation;

struct DeleteOptions {
  std::optional<Propagation> policy;
  std::optional<std::int64_t> grace_period_seconds;
  std::string uid;
  std::string resource_version;
  bool dry_run = false;
};

Propagation read_policy(const std::string& text) {
  if (text == "Background") return Propagation::background;
  if (text == "Foreground") return Propagation::foreground;
  if (text == "Orphan") return Propagation::orphan;
  throw bad_request("propagationPolicy must be Background, Foreground or Orphan, not \"" + text +
                    "\"");
}

std::int64_t read_grace_period(const Json& value) {
  const std::string digits = value.is_string() ? text(value) : value.dump();
  char* end = nullptr;
  const std::int64_t seconds = std::strtoll(digits.c_str(), &end, 10);
  if (digits.empty() || *end != '\0') throw bad_request("gracePeriodSeconds must be an integer");
  return seconds;
}

// Kubernetes: the options come as a body, or as parameters.
DeleteOptions read_delete_options(const Request& request) {
  static const SchemaPtr schema =
      Schema::load({{"$ref", "#/definitions/DeleteOptions"}}, builtin_kinds().definitions());
  Json body = Json::object();
  std::vector<std::string> warnings;
  if (!request.body.empty()) body = read_body(request, *schema, warnings);
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
    options.grace_period_seconds = read_grace_period(grace);
  }
  options.uid = text(member(body, "preconditions", "uid"));
  options.resource_version = text(member(body, "preconditions", "resourceVersion"));
  const Json& dry_run = member(body, "dryRun");
  options.dry_run = is_dry_run(request) || (dry_run.is_array() && !dry_run.empty());
  return options;
}

void check_preconditions(const Kind& kind, const DeleteOptions& options,
                         const store::Object& current) {
  if (!options.uid.empty() && options.uid != current.uid()) {
    throw conflict(kind, current.key().name,
                   "the UID in the precondition (" + options.uid +
                       ") does not match the UID in record (" + current.uid() + ")");
  }
  const std::string revision = std::to_string(current.revision());
  if (!options.resource_version.empty() && options.resource_version != revision) {
    throw conflict(kind, current.key().name,
                   "the ResourceVersion in the precondition (" + options.resource_version +
                       ") does not match the ResourceVersion in record (" + revision + ")");
  }
}

Mutation deletion(const Kind& kind, const DeleteOptions& options, const store::Object& current,
                  Time now) {
  const Json& document = *current.document();
  if (const auto why = kind.rules->refuses_deletion(document)) {
    throw ApiError(403, "Forbidden",
                   kind.resource() + " \"" + current.key().name + "\" is forbidden: " + *why);
  }
  check_preconditions(kind, options, current);
  return begin_deletion(document, options.policy, options.grace_period_seconds, now);
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

// Deletes one object after the other, some of them in a turn of the loop, and answers with the list
// of what they were. Keeps itself alive until then.
class CollectionDeletion : public std::enable_shared_from_this<CollectionDeletion> {
 public:
  CollectionDeletion(const WriteContext& context, ObjectFilter filter, DeleteOptions options)
      : store_(context.store),
        scheduler_(context.scheduler),
        filter_(std::move(filter)),
        rendering_(Rendering::of(context.request, *context.path.kind, context.path.version)),
        options_(std::move(options)),
        request_(context.request),
        respond_(context.respond) {
    for (store::ObjectPtr& object : list_objects(store_, filter_)) {
      if (filter_.matches(*object)) objects_.push_back(std::move(object));
    }
  }

  void step() {
    constexpr std::size_t per_turn = 100;
    const std::size_t end = std::min(objects_.size(), next_ + per_turn);
    for (; next_ < end; ++next_) begin(objects_[next_]);
    if (next_ < objects_.size()) {
      scheduler_.post([self = shared_from_this()] { self->step(); });
    } else if (under_way_ == 0) {
      finish();
    }
  }

 private:
  void begin(store::ObjectPtr& object) {
    if (options_.dry_run) return;
    ++under_way_;
    const auto done = [self = shared_from_this(), &object](const store::Store::Outcome& outcome) {
      if (outcome.error) {
        self->error_ = outcome.error;
      } else if (outcome.object) {
        object = outcome.object;
      }
      if (--self->under_way_ == 0 && self->next_ == self->objects_.size()) self->finish();
    };
    try {
      store_.write(
          object->key(),
          [self = shared_from_this(), uid = object->uid()](const store::Object* current) {
            // Gone meanwhile, or another of its name.
            if (!current || current->uid() != uid) return Mutation::nothing();
            return deletion(self->filter_.kind(), self->options_, *current, self->scheduler_.now());
          },
          done);
    } catch (const std::exception&) {
      --under_way_;
      error_ = std::current_exception();
    }
  }

  void finish() {
    if (error_) {
      respond_(to_response(to_api_error(error_), request_));
      return;
    }
    respond_(list_response({std::move(objects_), store_.revision()}, 0, std::move(filter_),
                           std::move(rendering_), scheduler_.now()));
  }

  store::Store& store_;
  Scheduler& scheduler_;
  ObjectFilter filter_;
  Rendering rendering_;
  DeleteOptions options_;
  Request request_;
  Respond respond_;
  std::vector<store::ObjectPtr> objects_;
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void delete_object(const WriteContext& context) {
  const DeleteOptions options = read_delete_options(context.request);
  const ResourcePath path = context.path;
  auto pending = pend(context);
  const auto removes = std::make_shared<bool>(false);
  auto mutate = [path, options, removes,
                 now = context.scheduler.now()](const store::Object* current) {
    if (!current) throw not_found(*path.kind, path.name);
    Mutation mutation = deletion(*path.kind, options, *current, now);
    *removes = mutation.type == Mutation::Type::remove;
    return mutation;
  };
  const Answer still_there = object_answer(pending);
  const auto answer = [path, removes, still_there](const store::Object& object) {
    return *removes ? deleted_answer(*path.kind, object) : still_there(object);
  };
  Request request = context.request;
  if (options.dry_run) request.query.emplace_back("dryRun", "All");
  run_write({context.store, context.scheduler, context.path, request, context.respond}, path.key(),
            pending, std::move(mutate), answer);
}

void delete_collection(const WriteContext& context) {
  ObjectFilter filter(*context.path.kind, context.path.ns, context.request);
  std::make_shared<CollectionDeletion>(context, std::move(filter),
                                       read_delete_options(context.request))
      ->step();
}

}  // namespace virtset::api
