// What a path of the API names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kind.h"
#include "store/object.h"

namespace virtset::api {

// /apis/{group}/{version}[/namespaces/{ns}]/{plural}[/{name}[/{subresource}]], /api/v1/… alike. An
// action of the kind is found as a subresource both there and under the group of the actions.
struct ResourcePath {
  const Kind* kind;
  std::string version;
  std::optional<std::string> ns;
  std::string name;         // empty: the collection
  std::string subresource;  // "status", "scale", an action, or empty

  store::Key key() const { return {kind->group, kind->kind, ns.value_or(""), name}; }
};

// The non-empty segments of a path.
std::vector<std::string> split_path(std::string_view path);

// Nothing if the path names no resource that is served.
std::optional<ResourcePath> parse_resource_path(const Kinds& kinds,
                                                const std::vector<std::string>& segments);

}  // namespace virtset::api
