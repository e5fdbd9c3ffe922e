#include "api/rest/write_support.h"

#include "api/kinds/json_access.h"
#include "api/kinds/utf8.h"
#include "api/rest/json_patch.h"
#include "api/rest/protobuf.h"
#include "api/rest/status.h"
#include "api/rest/strategic_merge.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr const char* apply_type = "application/apply-patch+yaml";

void add_warnings(Response& response, const std::vector<std::string>& warnings) {
  constexpr std::size_t most = 50;
  for (std::size_t i = 0; i < warnings.size() && i < most; ++i) {
    std::string quoted;
    for (const char c : warnings[i]) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
    }
    response.headers.emplace_back("warning", "299 - \"" + quoted + "\"");
  }
}

}  // namespace

FieldValidation field_validation(const Request& request) {
  const auto value = request.parameter("fieldValidation").value_or("");
  if (value == "Ignore") return FieldValidation::ignore;
  if (value == "Warn") return FieldValidation::warn;
  if (value.empty() && request.method == "PATCH") return FieldValidation::warn;
  if (value.empty() || value == "Strict") return FieldValidation::strict;
  throw bad_request("fieldValidation must be Ignore, Warn or Strict");
}

Writer writer(const Request& request, const ResourcePath& path) {
  constexpr std::size_t longest = 128;
  std::string manager(request.parameter("fieldManager").value_or(""));
  const auto refuse = [](const std::string& why) {
    ApiError error(422, "Invalid", "fieldManager: " + why);
    error.causes = {{FieldError::Reason::invalid, "fieldManager", why}};
    throw error;
  };
  if (manager.size() > longest) refuse("Too long: may not be more than 128 bytes");
  for (const char c : manager) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      refuse("Invalid value: should only contain printable characters");
    }
  }
  if (manager.empty() && is_apply(request)) {
    throw invalid_option("PatchOptions", FieldError::Reason::required, "fieldManager",
                         "Required value: is required for apply patch");
  }
  if (manager.empty()) {
    const std::string_view agent = request.user_agent;
    manager = to_utf8(agent.substr(0, std::min(longest, agent.find('/'))));
  }
  if (manager.empty()) manager = "unknown";
  return {manager, path.kind->api_version(path.version), path.subresource};
}

bool is_dry_run(const Request& request) {
  const auto value = request.parameter("dryRun").value_or("");
  if (value.empty()) return false;
  if (value != "All") throw bad_request("dryRun must be All");
  return true;
}

Json read_body(const Request& request, const Schema& schema, std::vector<std::string>& warnings) {
  if (media_type(request.content_type) == protobuf_type) {
    return decode_protobuf(request.body, schema);
  }
  std::vector<std::string> duplicates;
  Json body = parse_body(request.content_type, request.body, &duplicates);
  if (duplicates.empty()) return body;
  const FieldValidation validation = field_validation(request);
  std::string all;
  for (const std::string& path : duplicates) {
    const std::string what = "duplicate field \"" + path + "\"";
    all += (all.empty() ? "" : ", ") + what;
    if (validation == FieldValidation::warn) warnings.push_back(what);
  }
  if (validation == FieldValidation::strict) throw bad_request("strict decoding error: " + all);
  return body;
}

bool is_apply(const Request& request) {
  return request.method == "PATCH" && media_type(request.content_type) == apply_type;
}

std::function<Json(const Json&)> read_patch(const Kind& kind, const Request& request) {
  const std::string type = media_type(request.content_type);
  if (type == "application/json-patch+json") {
    return [patch = parse_body(type, request.body)](const Json& document) {
      return apply_json_patch(document, patch);
    };
  }
  if (type == "application/merge-patch+json") {
    return [patch = parse_body(type, request.body)](const Json& document) {
      Json result = document;
      result.merge_patch(patch);
      return result;
    };
  }
  if (type == "application/strategic-merge-patch+json" && kind.is_built_in()) {
    return [patch = parse_body(type, request.body), &kind](const Json& document) {
      return strategic_merge(document, patch, *kind.schema);
    };
  }
  throw ApiError(
      415, "UnsupportedMediaType",
      "the body of the request was in an unknown format - accepted media types include: "
      "application/json-patch+json, application/merge-patch+json, " +
          std::string(kind.is_built_in() ? "application/strategic-merge-patch+json, " : "") +
          apply_type);
}

std::shared_ptr<PendingWrite> pend(const WriteContext& context) {
  return std::make_shared<PendingWrite>(
      PendingWrite{Rendering::of(context.request, *context.path.kind, context.path.version),
                   context.request,
                   context.respond,
                   context.scheduler,
                   {}});
}

void run_write(const WriteContext& context, const store::Key& key,
               std::shared_ptr<PendingWrite> pending, store::Store::Mutate mutate, Answer answer) {
  const auto finish = [pending, answer](const std::exception_ptr& error,
                                        const store::Object* object) {
    Response response;
    try {
      if (error) std::rethrow_exception(error);
      response = answer(*object);
    } catch (...) {
      response = to_response(to_api_error(std::current_exception()), pending->request);
    }
    add_warnings(response, pending->warnings);
    pending->respond(std::move(response));
  };
  if (!is_dry_run(context.request)) {
    context.store.write(key, std::move(mutate), [finish](const store::Store::Outcome& outcome) {
      finish(outcome.error, outcome.object.get());
    });
    return;
  }
  try {
    const store::ObjectPtr current = context.store.get(key);
    store::Store::Mutation mutation = mutate(current.get());
    const Json document = mutation.type == store::Store::Mutation::Type::put
                              ? std::move(mutation.document)
                              : Json(*current->document());
    // Kubernetes: the answer carries the revision of the live object.
    const store::Object tried(key, document["metadata"].value("uid", ""),
                              current ? current->revision() : 0, json_text(document),
                              std::make_shared<store::RecentDocuments>(1));
    finish(nullptr, &tried);
  } catch (...) {
    finish(std::current_exception(), nullptr);
  }
}

Answer object_answer(const std::shared_ptr<PendingWrite>& pending) {
  return [pending](const store::Object& object) {
    return respond_with(pending->rendering, object, pending->success_status,
                        pending->scheduler.now());
  };
}

}  // namespace virtset::api
