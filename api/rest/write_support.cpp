#include "api/rest/write_support.h"

#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

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
  if (value.empty() || value == "Strict") return FieldValidation::strict;
  throw bad_request("fieldValidation must be Ignore, Warn or Strict");
}

bool is_dry_run(const Request& request) {
  const auto value = request.parameter("dryRun").value_or("");
  if (value.empty()) return false;
  if (value != "All") throw bad_request("dryRun must be All");
  return true;
}

std::function<Json(const Json&)> read_patch(const Request& request) {
  const std::string type = request.content_type.substr(0, request.content_type.find(';'));
  if (type == "application/merge-patch+json") {
    return [patch = parse_body(type, request.body)](const Json& document) {
      Json result = document;
      result.merge_patch(patch);
      return result;
    };
  }
  if (type == "application/json-patch+json") {
    const Json patch = parse_body(type, request.body);
    constexpr std::size_t most_operations = 10'000;
    if (!patch.is_array() || patch.size() > most_operations) {
      throw bad_request("a JSON patch must be a list of at most 10000 operations");
    }
    return [patch](const Json& document) {
      try {
        return document.patch(patch);
      } catch (const Json::exception& error) {
        throw ApiError(422, "Invalid", std::string("the patch cannot be applied: ") + error.what());
      }
    };
  }
  throw ApiError(415, "UnsupportedMediaType",
                 "the body of the request was in an unknown format - accepted media types include: "
                 "application/json-patch+json, application/merge-patch+json");
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
                              current ? current->revision() : 0,
                              document.dump(-1, ' ', false, Json::error_handler_t::replace),
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
