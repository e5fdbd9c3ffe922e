// Objects as they are sent: in the version of the request's path.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/kinds/kind.h"
#include "api/rest/message.h"
#include "api/rest/negotiation.h"
#include "api/rest/scheduler.h"
#include "api/rest/table.h"
#include "store/object.h"

namespace virtset::api {

// How one request wants its objects.
struct Rendering {
  const Kind& kind;
  std::string version;
  Wanted wanted;
  RowObject row_object = RowObject::metadata;
  bool wide = false;

  // Reads what the request says. Throws ApiError 400 for an includeObject that is none.
  static Rendering of(const Request& request, const Kind& kind, const std::string& version);

  // Appends the object's JSON text, without parsing it.
  void append(const store::Object& object, std::string& out) const;
  // The parsed object. The version matters only where the whole object is shown.
  nlohmann::json document(const store::Object& object) const;
  // A table of one object.
  nlohmann::json table(const store::Object& object, Time now) const;
};

// An answer with this one object, which need not be stored.
Response respond_with(const Rendering& rendering, const store::Object& object, int status,
                      Time now);
Response respond_with(const Wanted& wanted, const nlohmann::json& document, int status);

}  // namespace virtset::api
