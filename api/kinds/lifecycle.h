// How objects end: deletion marks, finalizers and owner references (Kubernetes: garbage
// collection).
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "api/kinds/times.h"
#include "store/store.h"

namespace virtset::api {

inline constexpr const char* orphan_finalizer = "orphan";
inline constexpr const char* foreground_finalizer = "foregroundDeletion";

enum class Propagation { background, foreground, orphan };

bool is_deleting(const nlohmann::json& object);
bool has_finalizer(const nlohmann::json& object, const std::string& finalizer);
void remove_finalizer(nlohmann::json& object, const std::string& finalizer);
// Whether somebody still has to clean up; for namespaces also the kind they keep in their spec.
bool has_finalizers(const nlohmann::json& object);

// The write that a change amounts to: an object that is being deleted goes with its last finalizer.
store::Store::Mutation put_or_finish(nlohmann::json object);

// Takes a finalizer off the object of this uid, if it has that; another one of its name is left
// alone.
store::Store::Mutate release(std::string uid, std::string finalizer);

// Gives the object of this uid another status.
store::Store::Mutate replace_status(std::string uid, nlohmann::json status);

// What deleting an object amounts to. `policy` is what was asked for explicitly. A grace period
// only ever becomes shorter.
store::Store::Mutation begin_deletion(nlohmann::json object, std::optional<Propagation> policy,
                                      std::optional<std::int64_t> grace_period_seconds, Time now);

// The owner that manages the object, or null.
const nlohmann::json& controller_of(const nlohmann::json& object);
// Its uid, or empty.
std::string controller_uid(const nlohmann::json& object);
// A reference to a stored object as the owner that manages another, and that others wait for
// (blockOwnerDeletion).
nlohmann::json controller_reference(const nlohmann::json& owner);
// Whether the object of this uid is there and not on its way out, so that it may have dependents.
bool may_own(const store::Store& store, const store::Key& owner, const std::string& uid);
// Whether nobody manages the object and it is not on its way out, so that somebody may.
bool is_adoptable(const nlohmann::json& object);
// Takes the references to these owners away.
void remove_owners(nlohmann::json& object, const std::set<std::string>& uids);

}  // namespace virtset::api
