// What the writing verbs share.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds/admission.h"
#include "api/rest/apply/apply.h"
#include "api/rest/rendering.h"
#include "api/rest/writes.h"

namespace virtset::api {

// What to do about unknown fields. Kubernetes only warns unless asked otherwise; that stays so for
// patches, but an object that is sent whole with a typo in it would lose what was meant, so there
// the default is to refuse it.
FieldValidation field_validation(const Request& request);

// Who writes, as the fields that it sets remember it: the parameter fieldManager, or what the user
// agent begins with. Throws ApiError 422 for a name that is none.
Writer writer(const Request& request, const ResourcePath& path);

// Whether the request is only to be tried. Throws ApiError 400 for a value other than All.
bool is_dry_run(const Request& request);

// The object in the body of a request: JSON, YAML, or the protobuf form of this schema. Throws
// ApiError 400 and 415. Keys that come twice are refused like unknown fields, or warned of in
// `warnings`.
nlohmann::json read_body(const Request& request, const Schema& schema,
                         std::vector<std::string>& warnings);

// Makes the patch of this request's content type applicable to a document of this kind. Throws
// ApiError 415 for types that are not supported, 400 for a body that is no patch.
std::function<nlohmann::json(const nlohmann::json&)> read_patch(const Kind& kind,
                                                                const Request& request);
// Whether the body is a configuration for server-side apply.
bool is_apply(const Request& request);

// What a write needs after the request is gone.
struct PendingWrite {
  Rendering rendering;
  Request request;  // for the form of an error
  Respond respond;
  Scheduler& scheduler;
  std::vector<std::string> warnings;
  int success_status = 200;

  void warn(const Admitted& admitted) {
    warnings.insert(warnings.end(), admitted.warnings.begin(), admitted.warnings.end());
  }
};

std::shared_ptr<PendingWrite> pend(const WriteContext& context);

// Runs the write, or tries it for a dry run, and hands what became of it to `answer`; errors are
// answered here.
using Answer = std::function<Response(const store::Object& object)>;
void run_write(const WriteContext& context, const store::Key& key,
               std::shared_ptr<PendingWrite> pending, store::Store::Mutate mutate, Answer answer);

// Answers with the object as it was written.
Answer object_answer(const std::shared_ptr<PendingWrite>& pending);

}  // namespace virtset::api
