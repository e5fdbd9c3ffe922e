#include "api/rest/apply/configuration.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/rest/apply/list_items.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

ApiError bad_configuration(const std::string& message) {
  return ApiError(400, "BadRequest", message);
}

// Kubernetes: GroupVersionKind.String().
std::string described(const std::string& api_version, const std::string& kind) {
  return (api_version.find('/') == std::string::npos ? "/" : "") + api_version + ", Kind=" + kind;
}

// Errors become paths only where there are some: their beginnings are put before them on the way
// up.
template <typename Check, typename Place>
void check_below(std::vector<std::string>& errors, Check check, Place place) {
  const std::size_t before = errors.size();
  check();
  for (std::size_t i = before; i < errors.size(); ++i) errors[i] = place() + errors[i];
}

// Kubernetes: validatingObjectWalker; the rest of its checks is for admission, whose messages say
// more.
void check_lists(const Schema* schema, const Json& value, std::vector<std::string>& errors) {
  if (!schema) return;
  if (value.is_object()) {
    for (const auto& field : value.get_ref<const Json::object_t&>()) {
      check_below(
          errors, [&] { check_lists(schema->field(field.first), field.second, errors); },
          [&] { return "." + field.first; });
    }
    return;
  }
  if (!value.is_array()) return;
  std::optional<ListItems> list;
  if (has_elements(schema)) {
    std::string error;
    list = ListItems::index(schema, value.get_ref<const Json::array_t&>(), &error);
    if (!list) {
      errors.push_back(": " + error);
      return;
    }
    list->visit([&](const PathElement& element, ListItems::Group group) {
      if (group.size() > 1) errors.push_back(": duplicate entries for key " + element.text());
    });
  }
  if (!schema->items()) return;
  for (std::size_t i = 0; i < value.size(); ++i) {
    check_below(
        errors, [&] { check_lists(schema->items(), value[i], errors); },
        [&] { return list ? list->element(i).text() : "[" + std::to_string(i) + "]"; });
  }
}

void check_lists(const Kind& kind, const Json& configuration, const Writer& writer) {
  std::vector<std::string> errors;
  check_lists(kind.schema.get(), configuration, errors);
  if (errors.empty()) return;
  std::string text = errors.size() == 1 ? errors[0] : "errors:";
  constexpr std::size_t most = 10;
  for (std::size_t i = 0; errors.size() > 1 && i < errors.size() && i < most; ++i) {
    text += "\n  " + errors[i];
  }
  const Json& metadata = member(configuration, "metadata");
  throw bad_configuration("failed to create typed patch object (" +
                          api::text(member(metadata, "namespace")) + "/" +
                          api::text(member(metadata, "name")) + "; " +
                          described(writer.api_version, kind.kind) + "): " + text);
}

void leave_out_what_is_ours(Json& metadata, bool can_set_metadata) {
  if (!metadata.is_object()) return;
  // These say which object is meant, and in which state it is expected.
  constexpr std::array<std::string_view, 4> names = {"name", "namespace", "uid", "resourceVersion"};
  std::erase_if(metadata.get_ref<Json::object_t&>(), [&](const auto& field) {
    if (!can_set_metadata) return std::find(names.begin(), names.end(), field.first) == names.end();
    return field.first == "creationTimestamp" || field.first == "generation" ||
           field.first == "selfLink" || field.first == "managedFields";
  });
}

}  // namespace

bool can_set(const Kind& kind, const std::string& subresource, const std::string& field) {
  if (subresource == "status") return field == "status";
  return field != "status" || !kind.has_status;
}

Json read_configuration(const Kind& kind, Json configuration, const Writer& writer) {
  if (!configuration.is_object()) {
    throw bad_configuration("the body must be one object of kind " + kind.kind);
  }
  const std::string version = text(member(configuration, "apiVersion"));
  const std::string name = text(member(configuration, "kind"));
  if (version != writer.api_version || name != kind.kind) {
    throw bad_configuration("invalid object type: " + described(version, name));
  }
  const Json& sent_metadata = member(configuration, "metadata");
  if (!sent_metadata.is_object() && !sent_metadata.is_null()) {
    throw bad_configuration("metadata must be an object");
  }
  if (!member(sent_metadata, "managedFields").is_null()) {
    throw bad_configuration("metadata.managedFields must be nil");
  }
  auto& fields = configuration.get_ref<Json::object_t&>();
  std::erase_if(fields, [&](const auto& field) {
    const bool names =
        field.first == "apiVersion" || field.first == "kind" || field.first == "metadata";
    return !names && !can_set(kind, writer.subresource, field.first);
  });
  configuration["apiVersion"] = kind.api_version();
  if (const auto metadata = configuration.find("metadata"); metadata != configuration.end()) {
    leave_out_what_is_ours(*metadata, can_set(kind, writer.subresource, "metadata"));
  }
  check_lists(kind, configuration, writer);
  return configuration;
}

}  // namespace virtset::api
