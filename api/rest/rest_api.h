// Kubernetes' HTTP conventions over the store: every verb for every kind.
//
// Knows requests and answers, not sockets. Everything on the loop thread.
#pragma once

#include <string>

#include "api/kinds/kind.h"
#include "api/rest/message.h"
#include "api/rest/openapi.h"
#include "api/rest/resource_path.h"
#include "api/rest/scheduler.h"
#include "api/rest/writes.h"
#include "store/store.h"

namespace virtset::api {

class RestApi {
 public:
  // All must outlive it.
  RestApi(store::Store& store, const Kinds& kinds, Scheduler& scheduler)
      : store_(store), kinds_(kinds), scheduler_(scheduler), openapi_(kinds) {}

  // Answers now or when the change is durable. Never throws.
  void handle(const Request& request, const Respond& respond);

 private:
  bool handle_meta(const Request& request, const std::vector<std::string>& segments,
                   const Respond& respond);
  void handle_resource(const ResourcePath& path, const Request& request, const Respond& respond);
  void handle_collection(const WriteContext& context, const std::string& verb);
  void handle_scale(const WriteContext& context, const std::string& verb);
  Response read(const ResourcePath& path, const Request& request);

  store::Store& store_;
  const Kinds& kinds_;
  Scheduler& scheduler_;
  OpenApi openapi_;
};

}  // namespace virtset::api
