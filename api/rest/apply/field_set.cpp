#include "api/rest/apply/field_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Entry = FieldSet::Entry;
using Entries = std::vector<Entry>;

// More than any object has that gets through the parsers of bodies.
constexpr int deepest = 256;

ApiError malformed(const std::string& what) {
  return ApiError(400, "BadRequest", "metadata.managedFields: fieldsV1: " + what);
}

// Of a key or a value: what items of lists are told apart by are scalars, so there is no depth.
std::optional<Json> parse_shallow(std::string_view text) {
  const auto refuse_depth = [](int depth, Json::parse_event_t event, Json&) {
    const bool deeper =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (deeper && depth > 0) throw std::invalid_argument("nested");
    return true;
  };
  try {
    return Json::parse(text, refuse_depth);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Where the element is, or would be.
template <typename Entries>
auto position(Entries& entries, const PathElement& element) {
  return std::lower_bound(
      entries.begin(), entries.end(), element,
      [](const Entry& entry, const PathElement& wanted) { return entry.element < wanted; });
}

// Calls `change` with each entry whose element is also in the other set, and drops those that are
// empty then.
template <typename Change>
void change_common(Entries& entries, const Entries& others, Change change) {
  bool has_empty = false;
  auto entry = entries.begin();
  for (const Entry& other : others) {
    // Mostly the next one.
    if (entry != entries.end() && entry->element < other.element) {
      entry = position(entries, other.element);
    }
    if (entry == entries.end()) break;
    if (entry->element != other.element) continue;
    change(*entry, other);
    has_empty |= !entry->is_member && entry->below.empty();
    ++entry;
  }
  if (!has_empty) return;
  std::erase_if(entries, [](const Entry& one) { return !one.is_member && one.below.empty(); });
}

// What the content of a key or value is.
Json parsed(const PathElement& element) {
  return element.type == PathElement::Type::field ? Json(element.content)
                                                  : Json::parse(element.content, nullptr, false);
}

}  // namespace

void append_canonical(std::string& text, const Json& scalar) {
  if (scalar.is_string()) {
    const auto& content = scalar.get_ref<const std::string&>();
    const bool is_plain = std::all_of(content.begin(), content.end(), [](char c) {
      return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    });
    if (is_plain) {
      text.append("\"").append(content).append("\"");
      return;
    }
  }
  if (scalar.is_number_float()) {
    const double number = scalar.get<double>();
    constexpr double most = 1e15;
    if (number == std::floor(number) && std::abs(number) < most) {
      text += std::to_string(static_cast<std::int64_t>(number));
      return;
    }
  }
  text += json_text(scalar);
}

std::optional<PathElement> PathElement::parse(std::string_view text) {
  if (text.size() < 2 || text[1] != ':') return std::nullopt;
  const std::string_view rest = text.substr(2);
  if (text[0] == 'f') return field(std::string(rest));
  const std::optional<Json> json = parse_shallow(rest);
  if (!json) return std::nullopt;
  PathElement element;
  if (text[0] == 'k' && json->is_object()) {
    element.type = Type::key;
    for (const auto& [name, value] : json->items()) {
      element.content += element.content.empty() ? '{' : ',';
      append_canonical(element.content, name);
      element.content += ':';
      append_canonical(element.content, value);
    }
    element.content += element.content.empty() ? "{}" : "}";
    return element;
  }
  const bool is_index = text[0] == 'i' && json->is_number_integer();
  if (!is_index && (text[0] != 'v' || json->is_structured())) return std::nullopt;
  element.type = is_index ? Type::index : Type::value;
  append_canonical(element.content, *json);
  return element;
}

std::string PathElement::encode() const {
  constexpr std::array<const char*, 4> prefixes = {"f:", "k:", "v:", "i:"};
  return prefixes[static_cast<std::size_t>(type)] + content;
}

std::string PathElement::text() const {
  switch (type) {
    case Type::field:
      return "." + content;
    case Type::key: {
      std::string keys;
      const Json key = parsed(*this);
      for (const auto& [name, value] : key.items()) {
        keys += (keys.empty() ? "" : ",") + name + "=" + json_text(value);
      }
      return "[" + keys + "]";
    }
    case Type::value:
      return "[=" + content + "]";
    case Type::index:
      return "[" + content + "]";
  }
  return "";
}

FieldSet FieldSet::parse(const Json& fields_v1) {
  FieldSet set;
  parse_into(fields_v1, 0, set);
  return set;
}

// Gives whether what contains the set is a member itself.
bool FieldSet::parse_into(const Json& json, int depth, FieldSet& set) {
  if (depth > deepest) throw malformed("nested too deeply");
  if (json.is_null()) return true;
  if (!json.is_object()) throw malformed("expected an object");
  bool is_member = false;
  for (const auto& [name, content] : json.items()) {
    if (name == ".") {
      is_member = true;
      continue;
    }
    if (name.size() < 2 || name[1] != ':') throw malformed(json_text(name) + " has no type");
    if (std::string_view("fkvi").find(name[0]) == std::string_view::npos) continue;
    std::optional<PathElement> element = PathElement::parse(name);
    if (!element) throw malformed(json_text(name) + " cannot be read");
    Entry entry{std::move(*element), false, {}};
    entry.is_member = parse_into(content, depth + 1, entry.below);
    set.entries_.push_back(std::move(entry));
  }
  std::sort(set.entries_.begin(), set.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.element < b.element; });
  // The same key can be written in several ways.
  const auto again = [](const Entry& a, const Entry& b) { return a.element == b.element; };
  set.entries_.erase(std::unique(set.entries_.begin(), set.entries_.end(), again),
                     set.entries_.end());
  return is_member || set.entries_.empty();
}

Json FieldSet::to_json() const { return to_json(false); }

Json FieldSet::to_json(bool is_member) const {
  Json json = Json::object();
  for (const Entry& entry : entries_) {
    json[entry.element.encode()] = entry.below.to_json(entry.is_member);
  }
  if (is_member && !entries_.empty()) json["."] = Json::object();
  return json;
}

const Entry* FieldSet::find(const PathElement& element) const {
  const auto found = position(entries_, element);
  return found != entries_.end() && found->element == element ? &*found : nullptr;
}

std::size_t FieldSet::size() const {
  std::size_t count = 0;
  for (const Entry& entry : entries_) count += (entry.is_member ? 1 : 0) + entry.below.size();
  return count;
}

void FieldSet::append(PathElement element, bool is_member, FieldSet below) {
  if (is_member || !below.empty()) {
    entries_.push_back({std::move(element), is_member, std::move(below)});
  }
}

void FieldSet::keep_trees(const std::function<bool(const PathElement&)>& which) {
  std::erase_if(entries_, [&](const Entry& entry) { return !which(entry.element); });
}

FieldSet& FieldSet::unite(FieldSet other) {
  if (entries_.empty()) {
    entries_ = std::move(other.entries_);
    return *this;
  }
  Entries added;
  auto entry = entries_.begin();
  for (Entry& theirs : other.entries_) {
    if (entry != entries_.end() && entry->element < theirs.element) {
      entry = position(entries_, theirs.element);
    }
    if (entry == entries_.end() || entry->element != theirs.element) {
      added.push_back(std::move(theirs));
    } else {
      entry->is_member |= theirs.is_member;
      entry->below.unite(std::move(theirs.below));
    }
  }
  if (added.empty()) return *this;
  const auto middle = static_cast<std::ptrdiff_t>(entries_.size());
  entries_.insert(entries_.end(), std::move_iterator(added.begin()),
                  std::move_iterator(added.end()));
  std::inplace_merge(entries_.begin(), entries_.begin() + middle, entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.element < b.element; });
  return *this;
}

FieldSet FieldSet::unite_all(std::vector<FieldSet> sets) {
  // Of neighbours first, so that none is moved more than log n times.
  for (std::size_t step = 1; step < sets.size(); step *= 2) {
    for (std::size_t i = 0; i + step < sets.size(); i += 2 * step) {
      sets[i].unite(std::move(sets[i + step]));
    }
  }
  return sets.empty() ? FieldSet() : std::move(sets.front());
}

FieldSet& FieldSet::subtract(const FieldSet& other) {
  change_common(entries_, other.entries_, [](Entry& entry, const Entry& theirs) {
    entry.is_member &= !theirs.is_member;
    entry.below.subtract(theirs.below);
  });
  return *this;
}

FieldSet& FieldSet::subtract_trees(const FieldSet& other) {
  change_common(entries_, other.entries_, [](Entry& entry, const Entry& theirs) {
    if (theirs.is_member) {
      entry.is_member = false;
      entry.below = {};
    } else {
      entry.below.subtract_trees(theirs.below);
    }
  });
  return *this;
}

FieldSet FieldSet::intersect(const FieldSet& other) const {
  if (other.entries_.size() < entries_.size()) return other.intersect(*this);
  FieldSet result;
  for (const Entry& entry : entries_) {
    const Entry* same = other.find(entry.element);
    if (!same) continue;
    result.append(entry.element, entry.is_member && same->is_member,
                  entry.below.intersect(same->below));
  }
  return result;
}

bool FieldSet::operator==(const FieldSet& other) const { return entries_ == other.entries_; }

std::vector<std::string> FieldSet::paths() const {
  std::vector<std::string> paths;
  append_paths("", paths);
  return paths;
}

void FieldSet::append_paths(const std::string& prefix, std::vector<std::string>& paths) const {
  std::vector<std::pair<Json, const Entry*>> sorted;
  for (const Entry& entry : entries_) sorted.emplace_back(parsed(entry.element), &entry);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second->element.type == b.second->element.type && a.first < b.first;
  });
  for (const auto& [content, entry] : sorted) {
    if (entry->is_member) paths.push_back(prefix + entry->element.text());
  }
  for (const auto& [content, entry] : sorted) {
    if (!entry->below.empty()) entry->below.append_paths(prefix + entry->element.text(), paths);
  }
}

}  // namespace virtset::api
