// Server-side apply and the ownership of fields that it rests on.
//
// Kubernetes: k8s.io/apimachinery/pkg/util/managedfields and structured-merge-diff v6.
//
// Unlike there an object is tracked from its first apply on, not from its creation: until then
// writes cost nothing here, and what is there when the first apply comes belongs to
// "before-first-apply".
//
// All functions are free of state and may be called from any thread; their cost is proportional to
// the size of the objects (n log n in the items of a list).
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/kinds/kind.h"
#include "api/kinds/times.h"

namespace virtset::api {

// Who writes, as managedFields tells writers apart.
struct Writer {
  std::string manager;      // the parameter fieldManager, else what the user agent begins with
  std::string api_version;  // of the request's path, e.g. "kubevirt.io/v1"
  std::string subresource;  // "status", "scale", or empty
};

// What becomes of `current`, or of nothing where it is null, by applying `configuration`: the
// object for admission, with metadata.managedFields set. Equal to `current` if the application
// changes nothing. Takes from `configuration` only what the subresource can set. Name and namespace
// are taken as they are: that they fit the path is for the caller to see to, as is the validity of
// the manager's name.
//
// Throws ApiError: 400 for what is no configuration of this kind, 409 with a cause for each field
// that another manager owns and would lose, unless `force` takes it from him.
nlohmann::json apply(const Kind& kind, const nlohmann::json* current, nlohmann::json configuration,
                     const Writer& writer, bool force, Time now);

// Called with an object as it was admitted, before it is stored, for a write that is no apply: what
// it changes and adds becomes the writer's, what it takes away nobody's. Does nothing to an object
// that is not tracked.
//
// `next` may carry managedFields as the user sent them, unless the write is one of a subresource:
// lists that are well-formed are taken for the state before the write, [] and [{}] end the
// tracking, anything else is ignored. Never throws for what is wrong with them.
void record_update(const Kind& kind, const nlohmann::json& current, nlohmann::json& next,
                   const Writer& writer, Time now);

// Whether nothing differs but times in metadata.managedFields: then there is nothing to store.
// Admission may have undone what was the reason for a new time.
// Kubernetes: IgnoreManagedFieldsTimestampsTransformer.
bool equal_but_for_times(const nlohmann::json& current, const nlohmann::json& next);

}  // namespace virtset::api
