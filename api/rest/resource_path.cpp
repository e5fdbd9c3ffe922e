#include "api/rest/resource_path.h"

namespace virtset::api {

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) segments.emplace_back(path.substr(0, slash));
    if (slash == path.npos) break;
    path.remove_prefix(slash + 1);
  }
  return segments;
}

namespace {

// Null if there is none there.
const Kind* find_kind(const Kinds& kinds, const std::string& group, const std::string& version,
                      const std::string& plural, const std::string& subresource) {
  if (const Kind* kind = kinds.find_resource(group, plural)) {
    return kind->serves(version) ? kind : nullptr;
  }
  for (const Kind& kind : kinds.all()) {
    if (kind.plural == plural && kind.actions.serve(group, version) &&
        kind.has_action(subresource)) {
      return &kind;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<ResourcePath> parse_resource_path(const Kinds& kinds,
                                                const std::vector<std::string>& segments) {
  std::size_t at = 0;
  const auto next = [&] { return at < segments.size() ? segments[at++] : std::string(); };
  const std::string root = next();
  std::string group;
  if (root == "apis") {
    group = next();
    if (group.empty()) return std::nullopt;
  } else if (root != "api") {
    return std::nullopt;
  }
  ResourcePath path{};
  path.version = next();
  // "namespaces" is a resource too: /namespaces/x[/status] is one, /namespaces/x/events is in one.
  const std::size_t left = segments.size() - at;
  const bool in_namespace = left >= 3 && segments[at] == "namespaces" &&
                            !(group.empty() && left == 3 &&
                              (segments[at + 2] == "status" || segments[at + 2] == "finalize"));
  if (in_namespace) {
    path.ns = segments[at + 1];
    at += 2;
  }
  const std::string plural = next();
  path.name = next();
  path.subresource = next();
  path.kind = find_kind(kinds, group, path.version, plural, path.subresource);
  if (!path.kind || at < segments.size()) return std::nullopt;
  if (path.ns && !path.kind->namespaced) return std::nullopt;
  // Without a namespace only the collection of all namespaces makes sense.
  if (!path.ns && path.kind->namespaced && !path.name.empty()) return std::nullopt;
  return path;
}

}  // namespace virtset::api
