// Sets of fields of an object, as metadata.managedFields writes them.
//
// Kubernetes: structured-merge-diff/fieldpath; metav1.FieldsV1.
#pragma once

#include <nlohmann/json.hpp>

#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace virtset::api {

// One step from an object or list to what it contains.
struct PathElement {
  // In their order in a set.
  enum class Type {
    field,  // a member of an object, by its name
    key,    // an item of a list of type map, by the values of its keys
    value,  // an item of a list of type set
    index   // an item of another list; nobody owns these, but old clients may write them
  };
  Type type = Type::field;
  std::string content;  // the name of a field, else compact JSON with the members sorted

  static PathElement field(std::string name) { return {Type::field, std::move(name)}; }

  // Reads "f:name", "k:{"name":"value"}", "v:value" or "i:0"; nothing if it is none of them.
  static std::optional<PathElement> parse(std::string_view text);
  std::string encode() const;
  // As messages show it: .name, [name="value"], [="value"], [0].
  std::string text() const;

  auto operator<=>(const PathElement&) const = default;
};

// Appends what tells items with this key or value apart, however the number is written.
void append_canonical(std::string& text, const nlohmann::json& scalar);

// A set of paths. That a path is in it says nothing of the paths above or below.
class FieldSet {
 public:
  struct Entry;

  // Reads a fieldsV1. What begins with an unknown letter is left out, as later versions may have
  // others. Throws ApiError 400 for anything else that is no such set, or is nested too deeply.
  static FieldSet parse(const nlohmann::json& fields_v1);
  nlohmann::json to_json() const;

  bool empty() const;
  // Sorted, and none of them without a path.
  const std::vector<Entry>& entries() const { return entries_; }
  // Null if there is neither the element nor anything below it.
  const Entry* find(const PathElement& element) const;
  // How many paths there are.
  std::size_t size() const;

  // Adds the element itself, if it `is_member`, and what is below it. Elements must come in their
  // order, each of them once.
  void append(PathElement element, bool is_member, FieldSet below);
  void reserve(std::size_t elements);
  // Keeps what begins with such an element.
  void keep_trees(const std::function<bool(const PathElement&)>& which);

  FieldSet& unite(FieldSet other);
  FieldSet& subtract(const FieldSet& other);
  // Also what is below the paths in `other`.
  FieldSet& subtract_trees(const FieldSet& other);
  FieldSet intersect(const FieldSet& other) const;
  // All of many sets; cheaper than one after the other.
  static FieldSet unite_all(std::vector<FieldSet> sets);

  bool operator==(const FieldSet& other) const;

  // Each path as messages show it, ".spec.disks[name="a"].size", those of an element before those
  // below it, and numbers in their order.
  std::vector<std::string> paths() const;

 private:
  static bool parse_into(const nlohmann::json& json, int depth, FieldSet& set);
  nlohmann::json to_json(bool is_member) const;
  void append_paths(const std::string& prefix, std::vector<std::string>& paths) const;

  std::vector<Entry> entries_;
};

struct FieldSet::Entry {
  PathElement element;
  bool is_member = false;
  FieldSet below;

  bool operator==(const Entry&) const = default;
};

// Here because an entry must be known for it.
inline bool FieldSet::empty() const { return entries_.empty(); }
inline void FieldSet::reserve(std::size_t elements) { entries_.reserve(elements); }

}  // namespace virtset::api
