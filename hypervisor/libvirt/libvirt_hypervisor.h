// The hypervisor behind libvirt: the only code, with its neighbours in this folder, that includes
// libvirt's headers.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hypervisor/hypervisor.h"
#include "hypervisor/libvirt/handles.h"
#include "hypervisor/libvirt/process_watch.h"

namespace virtset::hypervisor::libvirt {

struct Options {
  std::string uri = "qemu:///system";
  std::string installation;
  // libvirtd serves five requests of one connection at a time; calls are spread over this many.
  unsigned connections = 2;
  // Where libvirt writes the numbers of QEMU's processes.
  std::string pid_directory = "/run/libvirt/qemu";
};

class LibvirtHypervisor final : public Hypervisor {
 public:
  explicit LibvirtHypervisor(Options options);
  ~LibvirtHypervisor() override;

  void open(Observer observer) override;
  void relist() override;
  Versions versions() override;
  void start(const hypervisor::Domain& domain) override;
  void shut_down(const std::string& uuid, Ask ask) override;
  void destroy(const std::string& uuid) override;
  void save(const std::string& uuid, const std::string& file) override;
  void ensure_network(const hypervisor::Network& network) override;
  void reserve(const std::string& network, const Reservation& reservation) override;

 private:
  class Session;

  void run();
  void serve(Session& session);
  bool list_and_tell(virConnectPtr connection, const std::vector<Connection>& connections);
  void look_at_unknown(virConnectPtr connection, const std::string& uuid);
  Connection connection();
  void deliver(Event event);
  void tell(Event event);
  void on_lifecycle(virDomainPtr domain, int event, int detail);
  void on_agent(virDomainPtr domain, int state);
  void connection_closed(const std::string& why);
  std::vector<DomainInfo> list_ours(virConnectPtr connection);
  std::optional<DomainInfo> inspect(virDomainPtr domain);
  virDomainPtr create(virConnectPtr connection, const hypervisor::Domain& description);
  std::optional<Mark> our_mark(virDomainPtr domain);
  bool is_there_and_ours(virDomainPtr domain);

  const Options options_;
  Observer observer_;

  // Guards what follows. Never held during a libvirt call.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Connection> connections_;  // empty while there is none
  std::size_t next_connection_ = 0;
  bool closed_ = false;
  std::string why_closed_;
  std::set<std::string> ours_;  // UUIDs of domains whose events are told
  bool list_again_ = false;
  bool listing_ = false;  // events are held back while the list is made
  std::vector<Event> held_back_;
  std::deque<std::string> unknown_;  // UUIDs of domains that somebody started

  ProcessWatch processes_;
  std::thread thread_;
};

}  // namespace virtset::hypervisor::libvirt
