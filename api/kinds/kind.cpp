#include "api/kinds/kind.h"

#include <algorithm>
#include <stdexcept>

#include "api/kinds/yaml.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// ".spec.replicas" as "/spec/replicas".
Json::json_pointer pointer(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return Json::json_pointer(path);
}

Column load_column(const Json& json) {
  Column column;
  column.name = json.at("name");
  column.type = json.at("type");
  column.format = json.value("format", "");
  column.description = json.value("description", "");
  column.priority = json.value("priority", 0);
  column.is_age = column.type == "date" || json.value("render", "") == "age";
  column.path = JsonPath(json.at("jsonPath").get<std::string>());
  return column;
}

Column name_column() {
  Column column;
  column.name = "Name";
  column.type = "string";
  column.format = "name";  // kubectl: prints kind/ before it where needed
  column.description =
      "Name must be unique within a namespace. Is required when creating resources.";
  column.path = JsonPath(".metadata.name");
  return column;
}

}  // namespace

Kind Kind::load(std::string_view declaration, const Json& definitions,
                std::shared_ptr<const KindRules> rules) {
  const Json json = parse_yaml(declaration);
  Kind kind;
  kind.group = json.at("group");
  kind.versions = json.at("versions").get<std::vector<std::string>>();
  kind.kind = json.at("kind");
  kind.plural = json.at("plural");
  kind.singular = json.at("singular");
  kind.short_names = json.value("shortNames", std::vector<std::string>());
  kind.categories = json.value("categories", std::vector<std::string>());
  static const std::vector<std::string> all_verbs = {
      "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
  kind.verbs = json.value("verbs", all_verbs);
  kind.names_are_labels = json.value("namesAreLabels", false);
  kind.stored = json.value("stored", true);
  kind.namespaced = json.at("scope") == "Namespaced";
  const Json subresources = json.value("subresources", Json::object());
  kind.has_status = subresources.contains("status");
  if (subresources.contains("scale")) {
    const Json& scale = subresources["scale"];
    kind.scale =
        ScalePaths{pointer(scale.at("specReplicasPath")), pointer(scale.at("statusReplicasPath")),
                   pointer(scale.at("labelSelectorPath"))};
  }
  if (const Json actions = json.value("actions", Json()); !actions.is_null()) {
    kind.actions = {actions.at("group"), actions.at("versions"), actions.at("names")};
  }
  for (const Json& field : json.value("selectableFields", Json::array())) {
    const std::string path = field.at("jsonPath");
    kind.selectable_fields.push_back(
        {field.value("label", path.substr(1)), JsonPath(path), field.value("absent", "")});
  }
  for (const Json& column : json.value("additionalPrinterColumns", Json::array())) {
    kind.columns.push_back(load_column(column));
  }
  const bool has_name = std::any_of(kind.columns.begin(), kind.columns.end(),
                                    [](const Column& column) { return column.format == "name"; });
  if (!has_name) kind.columns.insert(kind.columns.begin(), name_column());
  kind.schema = Schema::load(json.at("schema"), definitions);
  kind.schema_document = json.at("schema");
  kind.has_generation = !kind.group.empty() && kind.schema->field("spec");
  kind.rules = std::move(rules);
  return kind;
}

bool Actions::serve(std::string_view in_group, std::string_view version) const {
  return group == in_group && contains(versions, version) && !names.empty();
}

bool Kind::has_action(std::string_view name) const { return contains(actions.names, name); }

bool Kind::serves(std::string_view version) const { return contains(versions, version); }

bool Kind::allows(std::string_view verb) const { return contains(verbs, verb); }

bool Kind::is_built_in() const {
  // CustomResourceDefinitions cannot be in groups like these.
  return group.find('.') == std::string::npos || group.ends_with(".k8s.io");
}

const Kind* Kinds::find(std::string_view group, std::string_view kind) const {
  const auto it = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& candidate) {
    return candidate.group == group && candidate.kind == kind;
  });
  return it == kinds_.end() ? nullptr : &*it;
}

const Kind* Kinds::find_resource(std::string_view group, std::string_view plural) const {
  const auto it = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& candidate) {
    return candidate.group == group && candidate.plural == plural;
  });
  return it == kinds_.end() ? nullptr : &*it;
}

}  // namespace virtset::api
