#include "api/rest/apply/apply.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/rest/apply/configuration.h"
#include "api/rest/apply/last_applied.h"
#include "api/rest/apply/managed_fields.h"
#include "api/rest/apply/typed.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Manager = ManagedFields::Manager;
using Operation = ManagedFields::Manager::Operation;

Manager manager_of(const Writer& writer, Operation operation) {
  return {writer.manager.empty() ? "unknown" : writer.manager, operation,
          operation == Operation::update ? writer.api_version : "", writer.subresource};
}

// Nobody owns what says which object it is, and what only the server sets.
// Kubernetes: stripMetaManager.
const FieldSet& unowned() {
  static const FieldSet fields = FieldSet::parse(Json::parse(R"({
    "f:apiVersion": {}, "f:kind": {},
    "f:metadata": {".": {}, "f:creationTimestamp": {}, "f:generation": {}, "f:managedFields": {},
                   "f:name": {}, "f:namespace": {}, "f:resourceVersion": {}, "f:selfLink": {},
                   "f:uid": {}}})"));
  return fields;
}

const Json& managed_fields(const Json& object) {
  return member(object, "metadata", "managedFields");
}

// What is stored was checked; if it cannot be read nevertheless it is as good as none.
ManagedFields stored_managed_fields(const Json& object) {
  try {
    return ManagedFields::parse(managed_fields(object));
  } catch (const ApiError&) {
    return {};
  }
}

Json take_managed_fields(Json& object) {
  if (managed_fields(object).is_null()) return nullptr;
  Json& metadata = object["metadata"];
  Json taken = std::move(metadata["managedFields"]);
  metadata.erase("managedFields");
  return taken;
}

void set_managed_fields(Json& object, const ManagedFields& managed) {
  if (!managed.empty()) object["metadata"]["managedFields"] = managed.to_json();
}

// What is owned in a version that is not served any more cannot be told.
void drop_unserved(const Kind& kind, ManagedFields& managed) {
  std::erase_if(managed.entries, [&](const auto& item) {
    return std::none_of(kind.versions.begin(), kind.versions.end(), [&](const std::string& served) {
      return kind.api_version(served) == item.second.api_version;
    });
  });
}

FieldSet changed_fields(Comparison& comparison) {
  comparison.modified.unite(std::move(comparison.added));
  return std::move(comparison.modified);
}

// What the others own of what is changed.
std::vector<OwnershipConflict> find_conflicts(const ManagedFields& managed, const FieldSet& changed,
                                              const Manager* writer) {
  std::vector<OwnershipConflict> conflicts;
  for (const auto& [manager, entry] : managed.entries) {
    if (writer && manager == *writer) continue;
    FieldSet fields = entry.fields.intersect(changed);
    if (!fields.empty()) conflicts.push_back({manager, std::move(fields)});
  }
  return conflicts;
}

void take_from_others(ManagedFields& managed, const std::vector<OwnershipConflict>& conflicts,
                      const FieldSet& removed, const Manager* writer) {
  for (const OwnershipConflict& conflict : conflicts) {
    managed.entries.at(conflict.manager).fields.subtract(conflict.fields);
  }
  for (auto& [manager, entry] : managed.entries) {
    if (removed.empty() || (writer && manager == *writer)) continue;
    entry.fields.subtract(removed);
  }
  managed.drop_empty();
}

void restrict(const Kind& kind, const std::string& subresource, FieldSet& fields) {
  fields.keep_trees(
      [&](const PathElement& element) { return can_set(kind, subresource, element.content); });
}

// Kubernetes: managedFieldsUpdater.Update.
void record_changes(const Kind& kind, ManagedFields& managed, const Json& from, const Json& to,
                    const Writer& writer, Time now) {
  drop_unserved(kind, managed);
  Comparison comparison = compare(kind.schema.get(), from, to);
  for (FieldSet* fields : {&comparison.removed, &comparison.modified, &comparison.added}) {
    restrict(kind, writer.subresource, *fields);
  }
  FieldSet changed = changed_fields(comparison);
  // Also from the writer itself, which gets it back.
  take_from_others(managed, find_conflicts(managed, changed, nullptr), comparison.removed, nullptr);
  changed.subtract(unowned());
  if (!changed.empty()) {
    ManagedFields::Entry& entry = managed.entries[manager_of(writer, Operation::update)];
    entry.fields.unite(std::move(changed));
    entry.api_version = writer.api_version;
    entry.time = now;
  }
  managed.cap_updates();
}

// Takes away what `last` owned of the merged object, unless somebody owns it now, the writer with
// its new configuration included. Gives whether there may have been something.
// Kubernetes: Updater.prune.
bool prune(const Schema* schema, Json& merged, const ManagedFields& managed, const Manager& me,
           const FieldSet& last) {
  FieldSet omitted = last;
  if (omitted.subtract(managed.entries.at(me).fields).empty()) return false;
  std::vector<FieldSet> sets;
  for (const auto& [manager, entry] : managed.entries) sets.push_back(entry.fields);
  const FieldSet owned = FieldSet::unite_all(std::move(sets));
  if (omitted.subtract(owned).empty()) return false;
  FieldSet before = with_declared_parents(schema, fields_of(schema, merged));
  const FieldSet mine = with_declared_parents(schema, last);
  // First without all that was mine and what hung on it; then what is owned is put back.
  FieldSet kept = before;
  kept.subtract_trees(mine).unite(with_declared_parents(schema, owned));
  FieldSet lost = before;
  lost.subtract(kept);
  FieldSet after = before;
  after.subtract_trees(lost);
  remove_fields(schema, merged, before.subtract(after).intersect(mine));
  return true;
}

// Whether two objects are equal but for the member `name`, of which `same` decides.
template <typename Same>
bool equal_but_for(const Json& a, const Json& b, const char* name, Same same) {
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() - a.count(name) != b.size() - b.count(name)) return false;
  for (const auto& [key, value] : a.items()) {
    if (key == name) continue;
    const auto other = b.find(key);
    if (other == b.end() || *other != value) return false;
  }
  return same(member(a, name), member(b, name));
}

template <typename Same>
bool equal_but_for_managed_fields(const Json& a, const Json& b, Same same) {
  return equal_but_for(a, b, "metadata", [&](const Json& left, const Json& right) {
    return equal_but_for(left, right, "managedFields", same);
  });
}

bool anything(const Json&, const Json&) { return true; }

// Kubernetes: isResetManagedFields.
bool ends_tracking(const Json& list) {
  if (!list.is_array() || list.size() > 1) return false;
  return list.empty() ||
         (list[0].is_object() && std::all_of(list[0].begin(), list[0].end(), [](const Json& value) {
            return value.is_null() || value == "";
          }));
}

// Makes the fields of `me` its own. Throws where others would lose some.
void settle_conflicts(const Kind& kind, ManagedFields& managed, const Json& live, const Json& next,
                      const Manager& me, const Writer& writer, bool force) {
  Comparison comparison = compare(kind.schema.get(), live, next);
  const FieldSet changed = changed_fields(comparison);
  const auto conflicts = find_conflicts(managed, changed, &me);
  if (!force && !conflicts.empty()) {
    auto refused = conflicts;
    // What kubectl applied by itself is its own, whatever name it had then.
    if (writer.manager == kubectl_manager) {
      if (const auto allowed = fields_last_applied(kind, live, writer.api_version)) {
        for (OwnershipConflict& conflict : refused) conflict.fields.subtract(*allowed);
        std::erase_if(refused, [](const auto& conflict) { return conflict.fields.empty(); });
      }
    }
    if (!refused.empty()) throw_conflict(refused);
  }
  take_from_others(managed, conflicts, comparison.removed, &me);
}

}  // namespace

Json apply(const Kind& kind, const Json* current, Json configuration, const Writer& writer,
           bool force, Time now) {
  std::string last_applied;
  if (writer.manager == kubectl_manager &&
      (has_last_applied(configuration) || (current && has_last_applied(*current)))) {
    last_applied = last_applied_text(configuration);
  }
  configuration = read_configuration(kind, std::move(configuration), writer);
  const Schema* schema = kind.schema.get();
  const Json nothing{{"apiVersion", kind.api_version()}, {"kind", kind.kind}};
  const Json& live = current ? *current : nothing;

  ManagedFields managed = stored_managed_fields(live);
  drop_unserved(kind, managed);
  if (managed.empty()) {
    record_changes(kind, managed, nothing, live,
                   {"before-first-apply", writer.api_version, writer.subresource}, now);
  }
  const Manager me = manager_of(writer, Operation::apply);
  const ManagedFields::Entry last = std::exchange(managed.entries[me], {});
  managed.entries[me] = {fields_of(schema, configuration), writer.api_version, last.time};

  Json next = live;
  take_managed_fields(next);
  merge(schema, next, configuration);
  // What became empty went away, but the configuration may have it so.
  if (prune(schema, next, managed, me, last.fields)) merge(schema, next, std::move(configuration));
  settle_conflicts(kind, managed, live, next, me, writer, force);
  drop_nulls(schema, next);

  if (const auto mine = managed.entries.find(me); mine != managed.entries.end()) {
    FieldSet& fields = mine->second.fields;
    fields.subtract(unowned());
    if (fields != last.fields || !equal_but_for_managed_fields(live, next, anything)) {
      mine->second.time = now;
    }
  }
  managed.drop_empty();
  set_managed_fields(next, managed);
  if (!last_applied.empty() && has_last_applied(next)) set_last_applied(next, last_applied);
  return next;
}

void record_update(const Kind& kind, const Json& current, Json& next, const Writer& writer,
                   Time now) {
  const Json sent = take_managed_fields(next);
  const bool may_be_sent = writer.subresource.empty();
  if (may_be_sent && ends_tracking(sent)) return;
  ManagedFields managed;
  try {
    if (may_be_sent) managed = ManagedFields::parse(sent);
  } catch (const ApiError&) {
    // Kubernetes: clients that do not understand managedFields shall not delete them by accident.
  }
  if (managed.empty()) managed = stored_managed_fields(current);
  if (managed.empty()) return;
  record_changes(kind, managed, current, next, writer, now);
  set_managed_fields(next, managed);
}

bool equal_but_for_times(const Json& current, const Json& next) {
  const auto same_owners = [](const Json& a, const Json& b) {
    if (!a.is_array() || !b.is_array()) return a == b;
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Json& x, const Json& y) {
      return equal_but_for(x, y, "time", anything);
    });
  };
  return equal_but_for_managed_fields(current, next, same_owners);
}

}  // namespace virtset::api
