#include "api/kinds/lifecycle.h"

#include <algorithm>

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using Mutation = store::Store::Mutation;

}  // namespace

bool is_deleting(const Json& object) {
  return member(object, "metadata", "deletionTimestamp").is_string();
}

bool has_finalizer(const Json& object, const std::string& finalizer) {
  const Json& all = member(object, "metadata", "finalizers");
  return std::find(all.begin(), all.end(), finalizer) != all.end();
}

void remove_finalizer(Json& object, const std::string& finalizer) {
  Json& metadata = object["metadata"];
  if (!metadata.contains("finalizers")) return;
  Json kept = Json::array();
  for (Json& item : metadata["finalizers"]) {
    if (item != finalizer) kept.push_back(std::move(item));
  }
  if (kept.empty()) {
    metadata.erase("finalizers");
  } else {
    metadata["finalizers"] = std::move(kept);
  }
}

bool has_finalizers(const Json& object) {
  return !member(object, "metadata", "finalizers").empty() ||
         (object.value("kind", "") == "Namespace" && !member(object, "spec", "finalizers").empty());
}

Mutation put_or_finish(Json object) {
  if (is_deleting(object) && !has_finalizers(object)) return Mutation::remove();
  return Mutation::put(std::move(object));
}

store::Store::Mutate release(std::string uid, std::string finalizer) {
  return [uid = std::move(uid), finalizer = std::move(finalizer)](const store::Object* current) {
    if (!current || current->uid() != uid) return Mutation::nothing();
    Json document = *current->document();
    if (!has_finalizer(document, finalizer)) return Mutation::nothing();
    remove_finalizer(document, finalizer);
    return put_or_finish(std::move(document));
  };
}

store::Store::Mutate replace_status(std::string uid, Json status) {
  return [uid = std::move(uid), status = std::move(status)](const store::Object* current) mutable {
    if (!current || current->uid() != uid) return Mutation::nothing();
    Json document = *current->document();
    document["status"] = std::move(status);
    return put_or_finish(std::move(document));
  };
}

Mutation begin_deletion(Json object, std::optional<Propagation> policy,
                        std::optional<std::int64_t> grace_period_seconds, Time now) {
  Json& metadata = object["metadata"];
  // Kubernetes: a negative grace period means one second.
  if (grace_period_seconds && *grace_period_seconds < 0) grace_period_seconds = 1;
  if (is_deleting(object)) {
    const auto current = integer(member(metadata, "deletionGracePeriodSeconds"), INT64_MAX);
    if (!grace_period_seconds || *grace_period_seconds >= current) return Mutation::nothing();
    metadata["deletionGracePeriodSeconds"] = *grace_period_seconds;
    return Mutation::put(std::move(object));
  }
  if (policy) {
    remove_finalizer(object, orphan_finalizer);
    remove_finalizer(object, foreground_finalizer);
    if (*policy == Propagation::orphan) metadata["finalizers"].push_back(orphan_finalizer);
    if (*policy == Propagation::foreground) metadata["finalizers"].push_back(foreground_finalizer);
  }
  if (!has_finalizers(object)) return Mutation::remove();
  metadata["deletionTimestamp"] = format_time(now);
  if (grace_period_seconds) metadata["deletionGracePeriodSeconds"] = *grace_period_seconds;
  if (const auto generation = integer(member(metadata, "generation"), 0)) {
    metadata["generation"] = generation + 1;
  }
  return Mutation::put(std::move(object));
}

const Json& controller_of(const Json& object) {
  static const Json none;
  for (const Json& owner : member(object, "metadata", "ownerReferences")) {
    if (truth(member(owner, "controller"))) return owner;
  }
  return none;
}

std::string controller_uid(const Json& object) {
  return text(member(controller_of(object), "uid"));
}

Json controller_reference(const Json& owner) {
  const Json& metadata = member(owner, "metadata");
  return {{"apiVersion", member(owner, "apiVersion")},
          {"kind", member(owner, "kind")},
          {"name", member(metadata, "name")},
          {"uid", member(metadata, "uid")},
          {"controller", true},
          {"blockOwnerDeletion", true}};
}

bool may_own(const store::Store& store, const store::Key& owner, const std::string& uid) {
  const auto object = store.get(owner);
  return object && object->uid() == uid && !is_deleting(*object->document());
}

bool is_adoptable(const Json& object) {
  return controller_of(object).is_null() && !is_deleting(object);
}

void remove_owners(Json& object, const std::set<std::string>& uids) {
  Json kept = Json::array();
  for (const Json& owner : member(object, "metadata", "ownerReferences")) {
    if (!uids.contains(text(member(owner, "uid")))) kept.push_back(owner);
  }
  if (kept.empty()) {
    object["metadata"].erase("ownerReferences");
  } else {
    object["metadata"]["ownerReferences"] = std::move(kept);
  }
}

}  // namespace virtset::api
