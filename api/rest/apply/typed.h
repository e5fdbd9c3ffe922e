// Objects as their schemas mean them: which of their parts have an owner, what differs, how they
// merge. Where there is no schema, members of objects count for themselves and lists as a whole.
//
// Kubernetes: structured-merge-diff/typed.
//
// Schemas may be null. No object here may be nested more deeply than the parsers of bodies allow.
#pragma once

#include <nlohmann/json.hpp>

#include "api/kinds/schema.h"
#include "api/rest/apply/field_set.h"

namespace virtset::api {

// What there is to own: values, lists and objects that are set as a whole, entries of maps and
// items of lists.
FieldSet fields_of(const Schema* schema, const nlohmann::json& object);

// What leads from an object to another, in terms of what there is to own. No path is in two of
// them.
struct Comparison {
  FieldSet removed, modified, added;
};
Comparison compare(const Schema* schema, const nlohmann::json& from, const nlohmann::json& to);

// Merges what is applied into an object. The items of lists keep their order as far as the order of
// those that are applied allows. An explicit null stays one, unless it stands for an object or a
// list with content.
void merge(const Schema* schema, nlohmann::json& into, nlohmann::json applied);

// Takes the fields with all below them from an object, and what is left empty by that. What tells
// an item of a list apart goes only with the item.
void remove_fields(const Schema* schema, nlohmann::json& from, const FieldSet& fields);

// Also with the declared fields that contain those in the set: they have no owner of their own.
FieldSet with_declared_parents(const Schema* schema, const FieldSet& fields);

// Takes out null members, where they mean that there is no such field.
void drop_nulls(const Schema* schema, nlohmann::json& object);

}  // namespace virtset::api
