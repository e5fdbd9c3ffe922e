// Kubernetes' HTTP conventions over the store: every verb for every kind.
//
// Knows requests and answers, not sockets. Everything on the loop thread.
#pragma once

#include <string>

#include "api/kinds/kind.h"
#include "api/rest/message.h"
#include "api/rest/resource_path.h"
#include "api/rest/scheduler.h"
#include "store/store.h"

namespace virtset::api {

class RestApi {
 public:
  // All must outlive it.
  RestApi(store::Store& store, const Kinds& kinds, Scheduler& scheduler)
      : store_(store), kinds_(kinds), scheduler_(scheduler) {}

  // Answers now or when the change is durable. Never throws.
  void handle(const Request& request, const Respond& respond);

 private:
  bool handle_meta(const Request& request, const std::vector<std::string>& segments,
                   const Respond& respond);
  void handle_resource(const ResourcePath& path, const Request& request, const Respond& respond);
  void handle_collection(const ResourcePath& path, const Request& request, const Respond& respond);
  void handle_object(const ResourcePath& path, const Request& request, const Respond& respond);
  Response read(const ResourcePath& path, const Request& request);

  store::Store& store_;
  const Kinds& kinds_;
  Scheduler& scheduler_;
};

}  // namespace virtset::api
