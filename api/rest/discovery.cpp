#include "api/rest/discovery.h"

#include <algorithm>

#include "api/rest/rendering.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

const std::vector<std::string> subresource_verbs = {"get", "patch", "update"};

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (!contains(list, item)) list.push_back(item);
}

// In the order of the kinds, each once; those of their actions last.
std::vector<std::string> groups(const Kinds& kinds) {
  std::vector<std::string> result;
  for (const Kind& kind : kinds.all()) add_once(result, kind.group);
  for (const Kind& kind : kinds.all()) {
    if (!kind.actions.names.empty()) add_once(result, kind.actions.group);
  }
  return result;
}

// Preferred first.
std::vector<std::string> versions(const Kinds& kinds, const std::string& group) {
  std::vector<std::string> result;
  for (const Kind& kind : kinds.all()) {
    if (kind.group == group) {
      for (const std::string& version : kind.versions) add_once(result, version);
    }
    if (kind.actions.group == group) {
      for (const std::string& version : kind.actions.versions) add_once(result, version);
    }
  }
  return result;
}

// ---- aggregated: apidiscovery.k8s.io ----

Json kind_reference(const std::string& group, const std::string& version, const std::string& kind) {
  return {{"group", group}, {"version", version}, {"kind", kind}};
}

Json aggregated_resource(const Kind& kind, const std::string& version) {
  Json resource{{"resource", kind.plural},
                {"responseKind", kind_reference(kind.group, version, kind.kind)},
                {"scope", kind.namespaced ? "Namespaced" : "Cluster"},
                {"singularResource", kind.singular},
                {"verbs", kind.verbs},
                {"shortNames", kind.short_names}};
  if (!kind.categories.empty()) resource["categories"] = kind.categories;
  Json subresources = Json::array();
  if (kind.has_status) {
    subresources.push_back({{"subresource", "status"},
                            {"responseKind", kind_reference(kind.group, version, kind.kind)},
                            {"verbs", subresource_verbs}});
  }
  if (kind.scale) {
    subresources.push_back({{"subresource", "scale"},
                            {"responseKind", kind_reference("autoscaling", "v1", "Scale")},
                            {"verbs", subresource_verbs}});
  }
  if (!subresources.empty()) resource["subresources"] = subresources;
  return resource;
}

// Kubernetes: what has subresources and is no resource itself has an empty kind, and clients pass
// it over.
Json aggregated_actions(const Kind& kind) {
  Json subresources = Json::array();
  for (const std::string& action : kind.actions.names) {
    subresources.push_back({{"subresource", action},
                            {"responseKind", kind_reference("", "v1", "Status")},
                            {"verbs", {"update"}}});
  }
  return {{"resource", kind.plural}, {"responseKind", kind_reference("", "", "")},
          {"scope", "Namespaced"},   {"singularResource", ""},
          {"verbs", Json::array()},  {"subresources", subresources}};
}

Json aggregated_group(const Kinds& kinds, const std::string& group) {
  Json list = Json::array();
  for (const std::string& version : versions(kinds, group)) {
    Json resources = Json::array();
    for (const Kind& kind : kinds.all()) {
      if (kind.group == group && kind.serves(version)) {
        resources.push_back(aggregated_resource(kind, version));
      }
      if (kind.actions.serve(group, version)) {
        resources.push_back(aggregated_actions(kind));
      }
    }
    list.push_back({{"version", version}, {"freshness", "Current"}, {"resources", resources}});
  }
  Json metadata{{"creationTimestamp", nullptr}};
  if (!group.empty()) metadata["name"] = group;
  return {{"metadata", metadata}, {"versions", list}};
}

Response aggregated(const Kinds& kinds, bool core, const std::string& version) {
  Json items = Json::array();
  for (const std::string& group : groups(kinds)) {
    if (group.empty() == core) items.push_back(aggregated_group(kinds, group));
  }
  Response response;
  // With plain application/json kubectl would take it for the legacy form.
  response.content_type =
      "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList";
  response.body = Json{
      {"kind", "APIGroupDiscoveryList"},
      {"apiVersion", "apidiscovery.k8s.io/" + version},
      {"metadata", Json::object()},
      {"items",
       items}}.dump();
  return response;
}

// ---- legacy ----

Json api_group(const Kinds& kinds, const std::string& group) {
  Json list = Json::array();
  for (const std::string& version : versions(kinds, group)) {
    list.push_back({{"groupVersion", group + "/" + version}, {"version", version}});
  }
  return {{"kind", "APIGroup"},
          {"apiVersion", "v1"},
          {"name", group},
          {"versions", list},
          {"preferredVersion", list[0]}};
}

Json api_group_list(const Kinds& kinds) {
  Json list = Json::array();
  for (const std::string& group : groups(kinds)) {
    if (!group.empty()) list.push_back(api_group(kinds, group));
  }
  return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", list}};
}

Json resource_list(const Kinds& kinds, const std::string& group, const std::string& version) {
  Json list = Json::array();
  for (const Kind& kind : kinds.all()) {
    if (kind.actions.serve(group, version)) {
      for (const std::string& action : kind.actions.names) {
        list.push_back({{"name", kind.plural + "/" + action},
                        {"singularName", ""},
                        {"namespaced", true},
                        {"kind", "Status"},
                        {"verbs", {"update"}}});
      }
    }
    if (kind.group != group || !kind.serves(version)) continue;
    Json resource{{"name", kind.plural},           {"singularName", kind.singular},
                  {"namespaced", kind.namespaced}, {"kind", kind.kind},
                  {"verbs", kind.verbs},           {"shortNames", kind.short_names}};
    if (!kind.categories.empty()) resource["categories"] = kind.categories;
    list.push_back(std::move(resource));
    if (kind.has_status) {
      list.push_back({{"name", kind.plural + "/status"},
                      {"singularName", ""},
                      {"namespaced", kind.namespaced},
                      {"kind", kind.kind},
                      {"verbs", subresource_verbs}});
    }
    if (kind.scale) {
      list.push_back({{"name", kind.plural + "/scale"},
                      {"singularName", ""},
                      {"namespaced", kind.namespaced},
                      {"group", "autoscaling"},
                      {"version", "v1"},
                      {"kind", "Scale"},
                      {"verbs", subresource_verbs}});
    }
  }
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group.empty() ? version : group + "/" + version},
          {"resources", list}};
}

}  // namespace

std::optional<Response> discovery_response(const Kinds& kinds, const Request& request,
                                           const std::vector<std::string>& segments) {
  if (segments.empty() || (segments[0] != "api" && segments[0] != "apis")) return std::nullopt;
  const bool core = segments[0] == "api";
  const Wanted wanted = negotiate(request.accept);
  if (segments.size() == 1) {
    if (wanted.aggregated_discovery) return aggregated(kinds, core, wanted.discovery_version);
    if (!core) return respond_with(wanted, api_group_list(kinds), 200);
    return respond_with(wanted,
                        {{"kind", "APIVersions"},
                         {"versions", versions(kinds, "")},
                         {"serverAddressByClientCIDRs", Json::array()}},
                        200);
  }
  const std::string group = core ? "" : segments[1];
  const auto served = versions(kinds, group);
  const std::size_t version_at = core ? 1 : 2;
  if (served.empty()) return std::nullopt;
  if (segments.size() == version_at) return respond_with(wanted, api_group(kinds, group), 200);
  if (segments.size() == version_at + 1 && contains(served, segments[version_at])) {
    return respond_with(wanted, resource_list(kinds, group, segments[version_at]), 200);
  }
  return std::nullopt;
}

}  // namespace virtset::api
