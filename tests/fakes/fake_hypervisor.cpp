#include "tests/fakes/fake_hypervisor.h"

#include <algorithm>
#include <utility>

namespace virtset::test {

using hypervisor::DomainInfo;
using hypervisor::Event;
using hypervisor::StopReason;

std::size_t FakeHost::alive() const { return alive_of(""); }

std::size_t FakeHost::alive_of(const std::string& name_prefix) const {
  return static_cast<std::size_t>(
      std::count_if(domains.begin(), domains.end(), [&](const auto& item) {
        return item.second.process_alive && item.second.description.name.starts_with(name_prefix);
      }));
}

void FakeHypervisor::open(hypervisor::Observer observer) {
  observer_ = std::move(observer);
  connect();
}

void FakeHypervisor::connect() {
  connected_ = true;
  // What died while nobody listened is not in the list.
  std::erase_if(host_.domains, [](const auto& item) { return !item.second.process_alive; });
  observer_.connected(list());
}

void FakeHypervisor::disconnect(const std::string& why) {
  connected_ = false;
  observer_.disconnected(why);
}

void FakeHypervisor::relist() {
  if (connected_) observer_.connected(list());
}

hypervisor::Versions FakeHypervisor::versions() {
  require_connection();
  return runs;
}

std::vector<DomainInfo> FakeHypervisor::list() const {
  std::vector<DomainInfo> infos;
  for (const auto& [uuid, domain] : host_.domains) {
    if (domain.description.mark.installation != installation_) continue;
    infos.push_back({.name = domain.description.name,
                     .uuid = uuid,
                     .mark = domain.description.mark,
                     .paused = domain.paused,
                     .shutting_down = domain.shutting_down,
                     .agent_connected = domain.agent_connected});
  }
  return infos;
}

void FakeHypervisor::require_connection() const {
  if (!connected_) throw hypervisor::Unavailable("not connected");
}

void FakeHypervisor::tell(Event event) {
  // The pidfd needs no libvirt.
  if (connected_ || event.type == Event::Type::process_exited) observer_.event(std::move(event));
}

void FakeHypervisor::start(const hypervisor::Domain& domain) {
  require_connection();
  if (!refuse_starts.empty()) throw hypervisor::Refused(refuse_starts);
  const auto existing = host_.domains.find(domain.uuid);
  if (existing != host_.domains.end()) {
    if (existing->second.description.mark.uid != domain.mark.uid) {
      throw hypervisor::Refused("domain already exists with uuid " + domain.uuid);
    }
    tell({.type = Event::Type::started, .uuid = domain.uuid});
    return;
  }
  for (const auto& [uuid, other] : host_.domains) {
    if (other.description.name == domain.name) {
      throw hypervisor::Refused("domain '" + domain.name + "' already exists with uuid " + uuid);
    }
  }
  ++host_.starts;
  ++host_.starts_of[domain.mark.uid];
  host_.domains[domain.uuid] = {.description = domain};
  if (host_.on_start) host_.on_start(host_.domains[domain.uuid]);
  if (std::exchange(lose_next_answer, false)) {
    connected_ = false;
    observer_.disconnected("libvirt closed the connection");
    throw hypervisor::Unavailable("libvirt closed the connection");
  }
  tell({.type = Event::Type::started, .uuid = domain.uuid});
}

void FakeHypervisor::shut_down(const std::string& uuid, Ask) {
  require_connection();
  if (!host_.domains.contains(uuid)) throw hypervisor::Refused("no such domain");
  host_.asked_to_shut_down.push_back(uuid);
  if (guests_obey) power_off_guest(uuid);
}

void FakeHypervisor::destroy(const std::string& uuid) {
  require_connection();
  const auto it = host_.domains.find(uuid);
  if (it == host_.domains.end()) return;
  if (it->second.description.mark.installation != installation_) {
    throw hypervisor::NotOurs("domain " + uuid + " is not ours");
  }
  destroy_from_outside(uuid);
}

void FakeHypervisor::destroy_from_outside(const std::string& uuid) {
  tell({.type = Event::Type::process_exited, .uuid = uuid});
  stopped(uuid, StopReason::destroyed);
}

void FakeHypervisor::stopped(const std::string& uuid, StopReason reason) {
  host_.domains.erase(uuid);
  tell({.type = Event::Type::stopped, .uuid = uuid, .stop_reason = reason});
}

void FakeHypervisor::save(const std::string& uuid, const std::string& file) {
  require_connection();
  if (!refuse_save.empty()) throw hypervisor::Refused(refuse_save);
  if (!host_.domains.contains(uuid)) throw hypervisor::Refused("no such domain");
  host_.saved[file] = uuid;
  tell({.type = Event::Type::process_exited, .uuid = uuid});
  stopped(uuid, StopReason::saved);
}

void FakeHypervisor::ensure_network(const hypervisor::Network& network) {
  require_connection();
  if (!refuse_network.empty()) throw hypervisor::NotOurs(refuse_network);
  host_.reservations = network.reservations;
}

void FakeHypervisor::reserve(const std::string&, const hypervisor::Reservation& reservation) {
  require_connection();
  std::erase_if(host_.reservations, [&](const hypervisor::Reservation& other) {
    return other.mac == reservation.mac || other.address == reservation.address;
  });
  host_.reservations.push_back(reservation);
}

void FakeHypervisor::kill_process(const std::string& uuid) {
  host_.domains.at(uuid).process_alive = false;
  tell({.type = Event::Type::process_exited, .uuid = uuid});
}

void FakeHypervisor::notice_death(const std::string& uuid) { stopped(uuid, StopReason::crashed); }

void FakeHypervisor::power_off_guest(const std::string& uuid) {
  host_.domains.at(uuid).shutting_down = true;
  tell({.type = Event::Type::shutting_down, .uuid = uuid});
  host_.domains.at(uuid).process_alive = false;
  tell({.type = Event::Type::process_exited, .uuid = uuid});
  stopped(uuid, StopReason::shutdown);
}

void FakeHypervisor::pause(const std::string& uuid, hypervisor::PauseReason reason) {
  host_.domains.at(uuid).paused = reason;
  tell({.type = Event::Type::paused, .uuid = uuid, .pause_reason = reason});
}

void FakeHypervisor::resume(const std::string& uuid) {
  host_.domains.at(uuid).paused.reset();
  tell({.type = Event::Type::resumed, .uuid = uuid});
}

void FakeHypervisor::connect_agent(const std::string& uuid) {
  host_.domains.at(uuid).agent_connected = true;
  tell({.type = Event::Type::agent_connected, .uuid = uuid});
}

}  // namespace virtset::test
