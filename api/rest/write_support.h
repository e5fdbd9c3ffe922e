// What the writing verbs share.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds/admission.h"
#include "api/rest/rendering.h"
#include "api/rest/writes.h"

namespace virtset::api {

FieldValidation field_validation(const Request& request);

// Whether the request is only to be tried. Throws ApiError 400 for a value other than All.
bool is_dry_run(const Request& request);

// Makes the patch of this request's content type applicable to a document. Throws ApiError 415 for
// types that are not supported, 400 for a body that is no patch.
std::function<nlohmann::json(const nlohmann::json&)> read_patch(const Request& request);

// What a write needs after the request is gone.
struct PendingWrite {
  Rendering rendering;
  Request request;  // for the form of an error
  Respond respond;
  Scheduler& scheduler;
  std::vector<std::string> warnings;
  int success_status = 200;
};

// Runs the write, or tries it for a dry run, and hands what became of it to `answer`; errors are
// answered here.
using Answer = std::function<Response(const store::Object& object)>;
void run_write(const WriteContext& context, const store::Key& key,
               std::shared_ptr<PendingWrite> pending, store::Store::Mutate mutate, Answer answer);

// Answers with the object as it was written.
Answer object_answer(const std::shared_ptr<PendingWrite>& pending);

}  // namespace virtset::api
