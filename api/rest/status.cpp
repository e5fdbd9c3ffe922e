#include "api/rest/status.h"

#include <spdlog/spdlog.h>

#include "api/kinds/json_access.h"
#include "api/kinds/label_selector.h"
#include "api/kinds/utf8.h"
#include "api/kinds/yaml.h"
#include "api/rest/negotiation.h"
#include "store/errors.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

ApiError about(ApiError error, const Kind& kind, const std::string& name) {
  error.subject = ApiError::Subject{kind.group, kind.plural, name, ""};
  return error;
}

}  // namespace

ApiError not_found(const Kind& kind, const std::string& name) {
  return about(ApiError(404, "NotFound", kind.resource() + " \"" + name + "\" not found"), kind,
               name);
}

ApiError already_exists(const Kind& kind, const std::string& name, bool being_deleted) {
  const std::string prefix = being_deleted ? "object is being deleted: " : "";
  return about(
      ApiError(409, "AlreadyExists", prefix + kind.resource() + " \"" + name + "\" already exists"),
      kind, name);
}

ApiError conflict(const Kind& kind, const std::string& name, const std::string& why) {
  return about(
      ApiError(409, "Conflict",
               "Operation cannot be fulfilled on " + kind.resource() + " \"" + name + "\": " + why),
      kind, name);
}

ApiError bad_request(const std::string& message) { return ApiError(400, "BadRequest", message); }

ApiError expired(const std::string& message) { return ApiError(410, "Expired", message); }

ApiError invalid_option(const std::string& options, FieldError::Reason reason,
                        const std::string& parameter, const std::string& why) {
  ApiError error(422, "Invalid",
                 options + ".meta.k8s.io \"\" is invalid: " + parameter + ": " + why);
  error.causes = {{reason, parameter, why}};
  return error;
}

Json to_status(const ApiError& error) {
  Json status{{"kind", "Status"},    {"apiVersion", "v1"},      {"metadata", Json::object()},
              {"status", "Failure"}, {"message", error.what()}, {"reason", error.reason()},
              {"code", error.code()}};
  if (!error.continue_token.empty()) status["metadata"]["continue"] = error.continue_token;
  Json details = Json::object();
  if (error.subject) {
    details["name"] = error.subject->name;
    if (!error.subject->group.empty()) details["group"] = error.subject->group;
    details["kind"] = error.subject->kind;
  }
  for (const FieldError& cause : error.causes) {
    details["causes"].push_back(
        {{"reason", to_string(cause.reason)}, {"message", cause.message}, {"field", cause.field}});
  }
  if (error.retry_after_seconds > 0) details["retryAfterSeconds"] = error.retry_after_seconds;
  if (!details.empty()) status["details"] = std::move(details);
  return status;
}

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& known) {
    return known;
  } catch (const BadSelector& bad) {
    return bad_request(bad.what());
  } catch (const BadYaml& bad) {
    return bad_request(std::string("the body is not valid YAML: ") + bad.what());
  } catch (const Json::exception& bad) {
    // "[json.exception.parse_error.101] parse error at …"
    std::string what = bad.what();
    if (const auto end = what.find("] "); end != what.npos) what.erase(0, end + 2);
    return bad_request("the body is not valid JSON: " + what);
  } catch (const store::Overloaded& overload) {
    ApiError busy(429, "TooManyRequests", overload.what());
    busy.retry_after_seconds = 1;
    return busy;
  } catch (const store::TooLarge& large) {
    return ApiError(413, "RequestEntityTooLarge", large.what());
  } catch (const store::CommitFailed& failed) {
    return ApiError(failed.disk_full() ? 507 : 503,
                    failed.disk_full() ? "InsufficientStorage" : "ServiceUnavailable",
                    failed.what());
  } catch (const std::exception& unexpected) {
    spdlog::error("a request failed unexpectedly: {}", unexpected.what());
    return ApiError(500, "InternalError", std::string("internal error: ") + unexpected.what());
  }
}

Response to_response(const ApiError& error, const Request& request) {
  Response response;
  response.status = error.code();
  if (error.retry_after_seconds > 0) {
    response.headers.emplace_back("retry-after", std::to_string(error.retry_after_seconds));
  }
  const Wanted wanted = negotiate(request.accept);
  switch (wanted.any ? Form::text : wanted.form) {
    case Form::text:
      response.content_type = "text/plain; charset=utf-8";
      response.body = to_utf8(error.what()) + "\n";
      break;
    case Form::yaml:
      response.content_type = "application/yaml";
      response.body = to_yaml(to_status(error));
      break;
    default:
      response.body = json_text(to_status(error)) + "\n";
  }
  return response;
}

}  // namespace virtset::api
