#include "api/rest/filter.h"

#include <algorithm>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

// Kubernetes: backslash escapes for \ , and = in the values of field selectors.
std::string unescape(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    result += text[i];
  }
  return result;
}

std::vector<std::string_view> split_unescaped(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == separator) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::string selected(const SelectableField& field, const nlohmann::json& document) {
  const auto* found = field.path.find(document);
  if (!found || found->is_null()) return field.absent;
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

ObjectFilter::ObjectFilter(const Kind& kind, std::optional<std::string> ns, const Request& request)
    : kind_(kind), ns_(std::move(ns)) {
  labels_ = LabelSelector::parse(request.parameter("labelSelector").value_or(""));
  const auto fields = request.parameter("fieldSelector").value_or("");
  for (const std::string_view part : split_unescaped(fields, ',')) {
    if (!part.empty()) add_field(part);
  }
}

void ObjectFilter::add_field(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == text.npos || equals == 0) {
    throw BadSelector("invalid selector: '" + std::string(text) + "'; can't understand '" +
                      std::string(text) + "'");
  }
  const bool differs = text[equals - 1] == '!';
  const std::string label(text.substr(0, differs ? equals - 1 : equals));
  std::string_view value = text.substr(equals + 1);
  if (!differs && value.starts_with('=')) value.remove_prefix(1);
  FieldRequirement requirement{FieldRequirement::Field::declared, nullptr, unescape(value),
                               !differs};
  if (label == "metadata.name") {
    requirement.field = FieldRequirement::Field::name;
  } else if (label == "metadata.namespace") {
    requirement.field = FieldRequirement::Field::ns;
  } else {
    const auto& known = kind_.selectable_fields;
    const auto it = std::find_if(known.begin(), known.end(), [&](const SelectableField& field) {
      return field.label == label;
    });
    if (it == known.end()) {
      throw ApiError(400, "BadRequest", "field label not supported: " + label);
    }
    requirement.declared = &*it;
  }
  fields_.push_back(std::move(requirement));
}

bool ObjectFilter::matches(const store::Object& object) const {
  const store::Key& key = object.key();
  if (key.kind != kind_.kind || key.group != kind_.group) return false;
  if (ns_ && key.ns != *ns_) return false;
  for (const FieldRequirement& requirement : fields_) {
    std::string value;
    switch (requirement.field) {
      case FieldRequirement::Field::name:
        value = key.name;
        break;
      case FieldRequirement::Field::ns:
        value = key.ns;
        break;
      case FieldRequirement::Field::declared:
        value = selected(*requirement.declared, *object.document());
        break;
    }
    if ((value == requirement.value) != requirement.equal) return false;
  }
  return labels_.everything() || labels_.matches(member(*object.document(), "metadata", "labels"));
}

}  // namespace virtset::api
