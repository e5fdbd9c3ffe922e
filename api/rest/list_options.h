// Which part and which state of a collection a list asks for (Kubernetes: limit, continue,
// resourceVersion and resourceVersionMatch).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/rest/filter.h"
#include "api/rest/message.h"
#include "store/store.h"

namespace virtset::api {

// Where a list that was given in pages goes on. The token is Kubernetes' own; clients hand it back
// as they got it.
struct Continuation {
  // Of the first page, at which all the others are served too; -1 stands for the state as it is.
  store::Revision revision = -1;
  std::string after_ns, after_name;  // the last object of the page before

  std::string token() const;
  // Throws ApiError 400 for what is no such token.
  static Continuation read(std::string_view token);
};

struct ListOptions {
  std::size_t limit = 0;  // 0: no limit
  std::optional<Continuation> continuation;
  std::optional<store::Revision> exactly;

  // Throws ApiError: 400 for what is no number, 422 for combinations that make no sense, and 504
  // for a revision that has not been yet.
  static ListOptions of(const Request& request, store::Revision now);
};

// The objects to choose from, and the revision that they reflect.
struct Snapshot {
  std::vector<store::ObjectPtr> objects;
  store::Revision revision;
};

// Throws ApiError 410 if that state is forgotten; for a continuation it has a token in it with
// which the list can go on from the same place in the present state.
Snapshot take_snapshot(const store::Store& store, const ObjectFilter& filter,
                       const ListOptions& options);

// All objects among which the filter may find some, as they are now.
std::vector<store::ObjectPtr> list_objects(const store::Store& store, const ObjectFilter& filter);

// A number that a parameter gives. Throws ApiError 400 that names the parameter.
std::int64_t read_number(std::string_view text, const char* parameter);

}  // namespace virtset::api
