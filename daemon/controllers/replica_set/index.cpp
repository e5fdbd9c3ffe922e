#include "daemon/controllers/replica_set/index.h"

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/virtualmachineinstance/status.h"

namespace virtset {

namespace {

using nlohmann::json;

Replica read(const store::Object& instance) {
  const auto document = instance.document();
  const json& metadata = (*document)["metadata"];
  const json& status = api::member(*document, "status");
  const json& ready = api::find_condition(status, "Ready");
  Replica replica{.key = instance.key(), .uid = instance.uid()};
  const bool process_gone = api::text(api::member(ready, "reason")) == api::reason_process_gone;
  if (api::is_deleting(*document)) {
    replica.state = Replica::State::deleting;
  } else if (api::is_final(api::phase_of(*document)) || process_gone) {
    replica.state = Replica::State::finished;
  }
  replica.ready = api::text(api::member(ready, "status")) == "True";
  replica.created = api::text(api::member(metadata, "creationTimestamp"));
  replica.running_since = api::phase_entered_at(*document, api::Phase::running);
  replica.label_hash = std::hash<json>()(api::member(metadata, "labels"));
  replica.owner = api::controller_uid(*document);
  return replica;
}

}  // namespace

std::set<std::string> ReplicaIndex::update(const store::Object& instance) {
  std::set<std::string> owners;
  Replica replica = read(instance);
  bool check = true;
  if (const auto known = take_out(replica.key)) {
    const Replica& before = known->replica;
    check = known->unchecked || before.label_hash != replica.label_hash ||
            before.owner != replica.owner;
    if (!before.owner.empty()) owners.insert(before.owner);
  }
  owners_[replica.key] = replica.owner;
  if (replica.owner.empty()) {
    orphans_[replica.key.ns].emplace(replica.key, std::move(replica));
    return owners;
  }
  owners.insert(replica.owner);
  Members& members = members_[replica.owner];
  if (check) members.unchecked.insert(replica.key);
  if (replica.state == Replica::State::finished) members.finished.insert(replica.key);
  if (replica.state == Replica::State::active) {
    ++members.active;
    if (replica.ready) ++members.ready;
  }
  members.all.emplace(replica.key, std::move(replica));
  return owners;
}

std::set<std::string> ReplicaIndex::remove(const store::Object& instance) {
  std::set<std::string> owners;
  const auto known = take_out(instance.key());
  owners_.erase(instance.key());
  if (known && !known->replica.owner.empty()) owners.insert(known->replica.owner);
  return owners;
}

std::optional<ReplicaIndex::Known> ReplicaIndex::take_out(const store::Key& instance) {
  const auto owner = owners_.find(instance);
  if (owner == owners_.end()) return std::nullopt;
  if (owner->second.empty()) {
    auto& orphans = orphans_[instance.ns];
    const auto node = orphans.extract(instance);
    if (orphans.empty()) orphans_.erase(instance.ns);
    return Known{node.mapped(), true};
  }
  Members& members = members_[owner->second];
  const auto node = members.all.extract(instance);
  const Replica& replica = node.mapped();
  const Known known{replica, members.unchecked.erase(instance) > 0};
  members.finished.erase(instance);
  if (replica.state == Replica::State::active) {
    --members.active;
    if (replica.ready) --members.ready;
  }
  if (members.all.empty()) members_.erase(owner->second);
  return known;
}

Members* ReplicaIndex::members(const std::string& set) {
  const auto it = members_.find(set);
  return it == members_.end() ? nullptr : &it->second;
}

const std::map<store::Key, Replica>& ReplicaIndex::orphans(const std::string& ns) const {
  static const std::map<store::Key, Replica> none;
  const auto it = orphans_.find(ns);
  return it == orphans_.end() ? none : it->second;
}

}  // namespace virtset
