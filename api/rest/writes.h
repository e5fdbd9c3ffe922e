// The verbs that change objects: create, replace, patch, apply, delete, and scale.
//
// Each decides inside Store::write, looking at the object as it is, and answers when that is
// durable.
#pragma once

#include "api/rest/message.h"
#include "api/rest/resource_path.h"
#include "api/rest/scheduler.h"
#include "store/store.h"

namespace virtset::api {

// What the verbs work on, for one request.
struct WriteContext {
  store::Store& store;
  Scheduler& scheduler;
  const ResourcePath& path;
  const Request& request;
  const Respond& respond;
};

// All throw ApiError for a request that is wrong in itself; what is wrong about the object is
// answered.
void create_object(const WriteContext& context);
void replace_object(const WriteContext& context);
void patch_object(const WriteContext& context);
void delete_object(const WriteContext& context);
// All of a collection that the request's selectors match. Answers with the list of them.
void delete_collection(const WriteContext& context);
// A kind whose objects are requests: answers, and stores nothing.
void answer_request(const WriteContext& context);

// autoscaling/v1 Scale.
Response read_scale(const WriteContext& context);
void replace_scale(const WriteContext& context);
void patch_scale(const WriteContext& context);

}  // namespace virtset::api
