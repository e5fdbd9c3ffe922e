// Structural schemas: the OpenAPI v3 subset of CustomResourceDefinitions, read from a kind's
// declaration, and what follows from them: validation, unknown fields, defaults.
//
// Extensions of ours:
//   x-virtset-ignored: <why>       legal in KubeVirt, means nothing on one host; accepted with a
//                                  warning
//   x-virtset-unsupported: <what>  would change what the guest sees; refused by name
//   x-virtset-protobuf: <number>   the field's number where Kubernetes has a protobuf form
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

  enum class Type { any, object, array, string, integer, number, boolean };
  enum class Format { none, quantity, date_time, micro_time, byte };
  // Kubernetes: x-kubernetes-list-type, how patches and server-side apply merge a list. Lists are
  // replaced as a whole unless declared otherwise.
  enum class ListType { atomic, set, map };

  Type type() const { return type_; }
  Format format() const { return format_; }
  bool int_or_string() const { return int_or_string_; }
  // What describes the member `name` of an object, be it declared or an entry of a map; null where
  // nothing does.
  const Schema* field(std::string_view name) const;
  const Schema* items() const { return items_.get(); }
  ListType list_type() const { return list_type_; }
  // By which the items of a list of type map are told apart; the first is the one that strategic
  // merge patches use.
  const std::vector<std::string>& list_keys() const { return list_keys_; }
  // Kubernetes: x-kubernetes-map-type: atomic, an object that is set as a whole.
  bool is_atomic() const { return atomic_; }
  // Null if there is none.
  const nlohmann::json& default_value() const { return default_; }
  // The member of this protobuf field number, if there is one, and the description of the values of
  // a map.
  using Properties = std::map<std::string, SchemaPtr, std::less<>>;
  const Properties::value_type* field_number(std::uint32_t number) const;
  const Schema* values() const { return additional_.get(); }

 private:
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
  Properties properties_;
  std::map<std::uint32_t, Properties::const_iterator> numbers_;
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
  ListType list_type_ = ListType::atomic;
  std::vector<std::string> list_keys_;
  bool atomic_ = false;
};

}  // namespace virtset::api
