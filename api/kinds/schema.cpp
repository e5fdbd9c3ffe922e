#include "api/kinds/schema.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/kinds/quantity.h"
#include "api/kinds/times.h"
#include "api/kinds/utf8.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

std::string shown(const Json& value) { return shortened(json_text(value)); }

}  // namespace

// Where in the object a look is. It becomes text only for what is wrong: most objects are right.
struct Schema::Place {
  enum class Step { none, field, entry, item };
  const Place* parent = nullptr;
  Step step = Step::none;
  std::string_view name = {};  // of the field, or the key of the entry of a map
  std::size_t index = 0;       // of the item of a list

  Place field(std::string_view of) const { return {this, Step::field, of}; }
  Place entry(std::string_view key) const { return {this, Step::entry, key}; }
  Place item(std::size_t at) const { return {this, Step::item, {}, at}; }

  std::string path() const {
    if (step == Step::none) return "";
    std::string text = parent->path();
    if (step == Step::item) return item_path(text, index);
    if (step == Step::entry) return text.append("[").append(name).append("]");
    return text.append(text.empty() ? "" : ".").append(name);
  }
};

SchemaPtr Schema::load(const Json& declaration, const Json& definitions) {
  if (declaration.contains("$ref")) {
    const auto name = declaration["$ref"].get<std::string>().substr(sizeof("#/definitions/") - 1);
    if (!definitions.contains(name)) throw std::invalid_argument("no definition of " + name);
    // What stands beside a reference adds to it, a description above all.
    Json merged = definitions[name];
    for (const auto& [key, value] : declaration.items()) {
      if (key != "$ref") merged[key] = value;
    }
    return load(merged, definitions);
  }
  static const std::map<std::string, Type> types = {
      {"", Type::any},           {"object", Type::object},   {"array", Type::array},
      {"string", Type::string},  {"integer", Type::integer}, {"number", Type::number},
      {"boolean", Type::boolean}};
  auto schema = std::make_shared<Schema>();
  schema->type_ = types.at(declaration.value("type", ""));
  const std::string format = declaration.value("format", "");
  if (format == "quantity") schema->format_ = Format::quantity;
  if (format == "date-time") schema->format_ = Format::date_time;
  if (format == "micro-time") schema->format_ = Format::micro_time;
  if (format == "byte") schema->format_ = Format::byte;
  for (const auto& [name, property] : member(declaration, "properties").items()) {
    const auto added = schema->properties_.emplace(name, load(property, definitions)).first;
    if (const auto number = integer(member(property, "x-virtset-protobuf"), 0)) {
      schema->numbers_[static_cast<std::uint32_t>(number)] = added;
    }
  }
  if (declaration.contains("items")) schema->items_ = load(declaration["items"], definitions);
  if (declaration.contains("additionalProperties")) {
    schema->additional_ = load(declaration["additionalProperties"], definitions);
  }
  schema->required_ = declaration.value("required", std::vector<std::string>());
  schema->enum_ = declaration.value("enum", std::vector<std::string>());
  if (declaration.contains("minimum")) schema->minimum_ = declaration["minimum"];
  if (declaration.contains("maximum")) schema->maximum_ = declaration["maximum"];
  schema->max_items_ = declaration.value("maxItems", SIZE_MAX);
  schema->min_length_ = declaration.value("minLength", std::size_t{0});
  schema->max_length_ = declaration.value("maxLength", SIZE_MAX);
  schema->int_or_string_ = declaration.value("x-kubernetes-int-or-string", false);
  schema->preserve_unknown_ = declaration.value("x-kubernetes-preserve-unknown-fields", false);
  schema->default_ = declaration.value("default", Json());
  schema->ignored_ = declaration.value("x-virtset-ignored", "");
  schema->unsupported_ = declaration.value("x-virtset-unsupported", "");
  static const std::map<std::string, ListType> list_types = {
      {"atomic", ListType::atomic}, {"set", ListType::set}, {"map", ListType::map}};
  schema->list_type_ = list_types.at(declaration.value("x-kubernetes-list-type", "atomic"));
  schema->list_keys_ = declaration.value("x-kubernetes-list-map-keys", std::vector<std::string>());
  schema->atomic_ = declaration.value("x-kubernetes-map-type", "") == "atomic";
  return schema;
}

const Schema* Schema::field(std::string_view name) const {
  const auto property = properties_.find(name);
  return property != properties_.end() ? property->second.get() : additional_.get();
}

const Schema::Properties::value_type* Schema::field_number(std::uint32_t number) const {
  const auto found = numbers_.find(number);
  return found == numbers_.end() ? nullptr : &*found->second;
}

void Schema::apply(Json& object, SchemaFindings& findings) const {
  check(object, Place{}, findings);
}

void Schema::check(Json& value, const Place& at, SchemaFindings& findings) const {
  if (!unsupported_.empty()) {
    findings.errors.not_supported(at.path(), unsupported_);
    return;
  }
  if (!ignored_.empty()) {
    findings.warnings.push_back(at.path() + ": " + ignored_);
    return;
  }
  if (!has_type(value)) {
    findings.errors.invalid(at.path(),
                            "Invalid value: " + shown(value) + ": must be " + expected());
    return;
  }
  if (value.is_object()) {
    check_object(value, at, findings);
  } else if (value.is_array()) {
    check_array(value, at, findings);
  } else if (value.is_string()) {
    check_string(value, at, findings.errors);
  } else if (value.is_number()) {
    check_number(value, at, findings.errors);
  }
}

bool Schema::has_type(const Json& value) const {
  if (int_or_string_ || format_ == Format::quantity) {
    return value.is_string() || value.is_number();
  }
  switch (type_) {
    case Type::any:
      return true;
    case Type::object:
      return value.is_object();
    case Type::array:
      return value.is_array();
    case Type::string:
      return value.is_string();
    case Type::integer:
      return value.is_number_integer();
    case Type::number:
      return value.is_number();
    case Type::boolean:
      return value.is_boolean();
  }
  return false;
}

std::string Schema::expected() const {
  if (format_ == Format::quantity) return "a quantity such as \"128Mi\" or \"500m\"";
  if (int_or_string_) return "an integer or a string";
  switch (type_) {
    case Type::object:
      return "an object";
    case Type::array:
      return "a list";
    case Type::string:
      return "a string (quote it if it looks like something else)";
    case Type::integer:
      return "an integer";
    case Type::number:
      return "a number";
    case Type::boolean:
      return "true or false";
    default:
      return "something else";
  }
}

void Schema::check_object(Json& value, const Place& at, SchemaFindings& findings) const {
  for (auto it = value.begin(); it != value.end();) {
    const auto property = properties_.find(it.key());
    const Schema* schema = property != properties_.end() ? property->second.get()
                           : additional_                 ? additional_.get()
                                                         : nullptr;
    if (!schema && !preserve_unknown_ && type_ != Type::any) {
      findings.unknown.push_back(at.field(it.key()).path());
      it = value.erase(it);
    } else if (it->is_null()) {
      it = value.erase(it);  // Kubernetes: null is the same as absent
    } else {
      if (schema) {
        const bool map_entry = property == properties_.end();
        schema->check(*it, map_entry ? at.entry(it.key()) : at.field(it.key()), findings);
      }
      ++it;
    }
  }
  for (const auto& [name, property] : properties_) {
    if (!property->default_.is_null() && !value.contains(name)) value[name] = property->default_;
  }
  for (const std::string& name : required_) {
    if (!value.contains(name)) findings.errors.required(at.field(name).path(), "Required value");
  }
}

void Schema::check_array(Json& value, const Place& at, SchemaFindings& findings) const {
  if (value.size() > max_items_) {
    findings.errors.invalid(at.path(), "Too many: " + std::to_string(value.size()) +
                                           ": must have at most " + std::to_string(max_items_) +
                                           " items");
    return;
  }
  if (!items_) return;
  for (std::size_t i = 0; i < value.size(); ++i) {
    items_->check(value[i], at.item(i), findings);
  }
}

void Schema::check_string(const Json& value, const Place& at, FieldErrorList& errors) const {
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() < min_length_) errors.required(at.path(), "Required value: must not be empty");
  if (text.size() > max_length_) {
    errors.invalid(at.path(), "Invalid value: must have at most " + std::to_string(max_length_) +
                                  " characters");
  }
  if (format_ == Format::quantity && !Quantity::parse(text)) {
    errors.invalid(at.path(), "Invalid value: " + shown(value) + ": must be " + expected());
  }
  if (format_ == Format::date_time && !parse_time(text)) {
    errors.invalid(at.path(), "Invalid value: " + shown(value) +
                                  ": must be a time such as \"2026-01-02T15:04:05Z\"");
  }
  if (format_ == Format::micro_time && !is_micro_time(text)) {
    errors.invalid(at.path(), "Invalid value: " + shown(value) +
                                  ": must be a time such as \"2026-01-02T15:04:05.123456Z\"");
  }
  if (format_ == Format::byte && !decode_base64(text)) {
    errors.invalid(at.path(), "Invalid value: must be encoded in base64");
  }
  if (!enum_.empty() && std::find(enum_.begin(), enum_.end(), text) == enum_.end()) {
    std::string allowed;
    for (const std::string& item : enum_) {
      allowed += (allowed.empty() ? "\"" : ", \"") + item + "\"";
    }
    errors.not_supported(at.path(),
                         "Unsupported value: " + shown(value) + ": supported values: " + allowed);
  }
}

void Schema::check_number(const Json& value, const Place& at, FieldErrorList& errors) const {
  if (!value.is_number_integer()) return;
  const bool too_large_for_any =
      value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  const auto number = too_large_for_any ? INT64_MAX : value.get<std::int64_t>();
  if (minimum_ && number < *minimum_) {
    errors.invalid(at.path(), "Invalid value: " + shown(value) +
                                  ": must be greater than or equal to " +
                                  std::to_string(*minimum_));
  }
  if (maximum_ && number > *maximum_) {
    errors.invalid(at.path(), "Invalid value: " + shown(value) +
                                  ": must be less than or equal to " + std::to_string(*maximum_));
  }
}

}  // namespace virtset::api
