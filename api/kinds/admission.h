// The one way by which an object gets into the store, whoever sends it: HTTP or a controller.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

#include "api/kinds/errors.h"
#include "api/kinds/kind.h"
#include "api/kinds/times.h"

namespace virtset::api {

// Kubernetes: the fieldValidation parameter. What is not known is refused unless asked otherwise.
enum class FieldValidation { strict, warn, ignore };

struct Admitted {
  nlohmann::json object;
  std::vector<std::string> warnings;
};

// Where a new object goes.
struct Destination {
  std::string ns;  // empty for kinds without
  // Whether an object of this name is there, or on its way; for generated names.
  std::function<bool(const std::string& name)> is_taken;
};

// A new object: completed, checked and given its uid, generation 1 and creation time. Throws
// ApiError: 400 for what is no such object or has unknown fields, 422 with causes for what is wrong
// with it.
Admitted admit_new(const Kind& kind, nlohmann::json object, const Destination& destination,
                   FieldValidation validation, Time now);

// An object that is a request, such as an access review: only checked, not given an identity.
Admitted admit_request(const Kind& kind, nlohmann::json object, FieldValidation validation);

// What a user may write of an object.
enum class Part {
  all,    // everything; but the status only where it is no subresource
  status  // the status alone
};

// A changed object. What the server owns is taken from `current`; the generation counts on if the
// desired state changed; managedFields are left as `next` has them, see rest/apply. Equal to
// `current` if nothing did. Throws ApiError as above, and 409 if `next` carries another
// resourceVersion or uid.
Admitted admit_change(const Kind& kind, const nlohmann::json& current, nlohmann::json next,
                      Part part, FieldValidation validation);

// What admission checks of a controller's or a user's object, apart from identity and concurrency.
ApiError invalid(const Kind& kind, const std::string& name, FieldErrors causes);

}  // namespace virtset::api
