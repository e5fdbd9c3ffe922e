// The one place where errors become Kubernetes' Status.
#pragma once

#include <nlohmann/json.hpp>

#include <exception>
#include <string>

#include "api/kinds/errors.h"
#include "api/kinds/kind.h"
#include "api/rest/message.h"

namespace virtset::api {

ApiError not_found(const Kind& kind, const std::string& name);
ApiError already_exists(const Kind& kind, const std::string& name, bool being_deleted);
ApiError conflict(const Kind& kind, const std::string& name, const std::string& why);
ApiError bad_request(const std::string& message);
ApiError expired(const std::string& message);
// A parameter that cannot be given so. `options` is Kubernetes' name of all of them: "ListOptions".
ApiError invalid_option(const std::string& options, FieldError::Reason reason,
                        const std::string& parameter, const std::string& why);

nlohmann::json to_status(const ApiError& error);

// Any exception that a verb may end with, as an ApiError: errors of the store become 503 and 507,
// what nobody expected 500.
ApiError to_api_error(const std::exception_ptr& error);

// The answer. A client that asked for text/plain, or for nothing in particular as curl does, gets
// the message as a line.
Response to_response(const ApiError& error, const Request& request);

}  // namespace virtset::api
