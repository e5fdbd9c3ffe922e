// A hypervisor of one map, for tests of the controllers. It promises what the real one does: events
// in order, a start that may come through although its caller was told nothing, domains that
// outlive the daemon. Its own tests are in tests/unit/fakes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hypervisor/hypervisor.h"

namespace virtset::test {

// The domains of a host. Outlives the hypervisor's client, as libvirt does.
struct FakeHost {
  struct Domain {
    hypervisor::Domain description;
    bool process_alive = true;
    bool shutting_down = false;
    bool agent_connected = false;
    std::optional<hypervisor::PauseReason> paused;
  };
  std::map<std::string, Domain> domains;  // by UUID
  int starts = 0;
  std::map<std::string, int> starts_of;      // by UID of the instance
  std::map<std::string, std::string> saved;  // files, and the UUIDs of the domains in them
  std::vector<std::string> asked_to_shut_down;
  std::vector<hypervisor::Reservation> reservations;

  // Called after each start.
  std::function<void(const Domain&)> on_start;

  // Domains whose process runs: what may never exceed the replicas of a set.
  std::size_t alive() const;
  std::size_t alive_of(const std::string& name_prefix) const;
};

class FakeHypervisor final : public hypervisor::Hypervisor {
 public:
  FakeHypervisor(FakeHost& host, std::string installation)
      : host_(host), installation_(std::move(installation)) {}

  void open(hypervisor::Observer observer) override;
  void relist() override;
  hypervisor::Versions versions() override;
  void start(const hypervisor::Domain& domain) override;
  void shut_down(const std::string& uuid, Ask ask) override;
  void destroy(const std::string& uuid) override;
  void save(const std::string& uuid, const std::string& file) override;
  void ensure_network(const hypervisor::Network& network) override;
  void reserve(const std::string& network, const hypervisor::Reservation& reservation) override;

  // What may happen to it.
  void disconnect(const std::string& why = "libvirt closed the connection");
  void connect();
  bool connected() const { return connected_; }
  hypervisor::Versions runs{"9.0.0", "qemu", "7.2.0"};
  // The next starts are refused with this message; empty: none.
  std::string refuse_starts;
  // The next start comes through, but its caller only sees the connection break.
  bool lose_next_answer = false;
  std::string refuse_save;
  std::string refuse_network;
  // Guests that are asked to power off do so at once.
  bool guests_obey = true;

  // What may happen to domains. Events are told as libvirt tells them.
  void kill_process(const std::string& uuid);  // the pidfd sees it at once …
  void notice_death(const std::string& uuid);  // … and libvirt later
  void power_off_guest(const std::string& uuid);
  void pause(const std::string& uuid, hypervisor::PauseReason reason);
  void resume(const std::string& uuid);
  void connect_agent(const std::string& uuid);
  // From outside, as virsh destroy does.
  void destroy_from_outside(const std::string& uuid);

 private:
  void tell(hypervisor::Event event);
  void stopped(const std::string& uuid, hypervisor::StopReason reason);
  std::vector<hypervisor::DomainInfo> list() const;
  void require_connection() const;

  FakeHost& host_;
  const std::string installation_;
  hypervisor::Observer observer_;
  bool connected_ = false;
};

}  // namespace virtset::test
