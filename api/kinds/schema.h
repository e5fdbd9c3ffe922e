// Structural schemas: the OpenAPI v3 subset of CustomResourceDefinitions, read from a kind's
// declaration, and what follows from them: validation, unknown fields, defaults.
//
// Extensions of ours:
//   x-virtset-ignored: <why>       legal in KubeVirt, means nothing on one host; accepted with a
//   warning x-virtset-unsupported: <what>  would change what the guest sees; refused by name
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/field_error.h"

namespace virtset::api {

class Schema;
using SchemaPtr = std::shared_ptr<const Schema>;

// What a look at an object found.
struct SchemaFindings {
  FieldErrorList errors;
  std::vector<std::string> unknown;   // paths of fields that the schema does not have
  std::vector<std::string> warnings;  // ignored fields that were given
};

class Schema {
 public:
  // `declaration` is an OpenAPI schema; {"$ref": "#/definitions/X"} is looked up in `definitions`.
  // Throws std::invalid_argument: declarations are our own.
  static SchemaPtr load(const nlohmann::json& declaration, const nlohmann::json& definitions);

  // Takes unknown and null fields out, fills in static defaults and reports everything that is
  // wrong.
  void apply(nlohmann::json& object, SchemaFindings& findings) const;

 private:
  enum class Type { any, object, array, string, integer, number, boolean };
  enum class Format { none, quantity, date_time };

  struct Place;

  void check(nlohmann::json& value, const Place& at, SchemaFindings& findings) const;
  void check_object(nlohmann::json& value, const Place& at, SchemaFindings& findings) const;
  void check_array(nlohmann::json& value, const Place& at, SchemaFindings& findings) const;
  void check_string(const nlohmann::json& value, const Place& at, FieldErrorList& errors) const;
  void check_number(const nlohmann::json& value, const Place& at, FieldErrorList& errors) const;
  bool has_type(const nlohmann::json& value) const;
  std::string expected() const;

  Type type_ = Type::any;
  Format format_ = Format::none;
  std::map<std::string, SchemaPtr> properties_;
  SchemaPtr items_;
  SchemaPtr additional_;
  std::vector<std::string> required_;
  std::vector<std::string> enum_;
  std::optional<std::int64_t> minimum_, maximum_;
  std::size_t max_items_ = SIZE_MAX;
  std::size_t min_length_ = 0, max_length_ = SIZE_MAX;
  bool int_or_string_ = false;
  bool preserve_unknown_ = false;
  nlohmann::json default_;
  std::string ignored_;
  std::string unsupported_;
};

}  // namespace virtset::api
