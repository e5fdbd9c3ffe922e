#include "daemon/domains.h"

#include <set>
#include <utility>

namespace virtset {

using hypervisor::DomainInfo;
using hypervisor::Event;

const DomainRecord* Domains::find(const std::string& uuid) const {
  const auto it = records_.find(uuid);
  return it == records_.end() ? nullptr : &it->second;
}

std::optional<DomainEnd> Domains::end_of(const std::string& uuid) const {
  const auto it = ends_.find(uuid);
  if (it == ends_.end()) return std::nullopt;
  return it->second;
}

void Domains::expect(const std::string& uuid, const hypervisor::Mark& mark,
                     const std::string& name) {
  ends_.erase(uuid);
  expected_[uuid] = DomainInfo{.name = name, .uuid = uuid, .mark = mark};
}

void Domains::on_connected(const std::vector<DomainInfo>& domains) {
  // After a disconnection all are told of: they wait for it.
  const bool again = std::exchange(synced_, true);
  ++generation_;
  std::set<std::string> changed;
  std::set<std::string> present;
  for (const DomainInfo& domain : domains) present.insert(domain.uuid);
  for (auto it = records_.begin(); it != records_.end();) {
    const auto current = it++;
    if (!present.contains(current->first)) {
      changed.insert(current->first);
      end(current->first, {.unseen = true});
    }
  }
  for (const DomainInfo& domain : domains) {
    const auto [it, is_new] = records_.try_emplace(domain.uuid);
    if (!is_new && again && it->second.info == domain) continue;
    it->second.info = domain;
    changed.insert(domain.uuid);
  }
  // Starts that were under way when the connection broke: if they came through they are in the
  // list.
  for (const auto& [uuid, info] : expected_) changed.insert(uuid);
  for (const std::string& uuid : changed) changed_(uuid);
}

void Domains::on_found(const DomainInfo& domain) {
  records_[domain.uuid].info = domain;
  changed_(domain.uuid);
}

void Domains::on_disconnected(const std::string& why) {
  synced_ = false;
  why_not_synced_ = why;
}

// By value: the UUID may be the key of the record that goes.
void Domains::end(std::string uuid, DomainEnd how) {
  const auto it = records_.find(uuid);
  // A process that was seen to end on its own has crashed, whoever says nothing about it.
  if (it != records_.end() && it->second.process_exited && how.unseen) {
    how.reason = it->second.info.shutting_down ? hypervisor::StopReason::shutdown
                                               : hypervisor::StopReason::crashed;
  }
  if (it != records_.end()) records_.erase(it);
  expected_.erase(uuid);
  ends_[uuid] = how;
}

void Domains::on_event(const Event& event) {
  auto it = records_.find(event.uuid);
  if (event.type == Event::Type::started) {
    const auto expected = expected_.find(event.uuid);
    if (expected != expected_.end() && it == records_.end()) {
      records_[event.uuid] = {.info = expected->second};
    }
    expected_.erase(event.uuid);
    changed_(event.uuid);
    return;
  }
  if (event.type == Event::Type::stopped) {
    end(event.uuid, {.reason = event.stop_reason});
    changed_(event.uuid);
    return;
  }
  if (it == records_.end()) return;
  DomainRecord& record = it->second;
  switch (event.type) {
    case Event::Type::paused:
      record.info.paused = event.pause_reason;
      break;
    case Event::Type::resumed:
      record.info.paused.reset();
      break;
    case Event::Type::shutting_down:
      record.info.shutting_down = true;
      break;
    case Event::Type::process_exited:
      record.process_exited = true;
      break;
    case Event::Type::agent_connected:
      record.info.agent_connected = true;
      break;
    case Event::Type::agent_disconnected:
      record.info.agent_connected = false;
      break;
    default:
      return;
  }
  changed_(event.uuid);
}

}  // namespace virtset
