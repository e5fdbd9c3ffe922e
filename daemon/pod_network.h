// The network that guests are plugged into: its addresses, and that it exists. Loop thread only.
#pragma once

#include <functional>
#include <string>

#include "api/rest/scheduler.h"
#include "daemon/address_pool.h"
#include "daemon/jobs.h"
#include "hypervisor/hypervisor.h"

namespace virtset {

class PodNetwork {
 public:
  struct Options {
    std::string name = "virtset0";  // of libvirt's network
    std::string bridge = "virtset0";
    std::string cidr = "10.115.0.0/22";
    std::string installation;
  };

  // `changed` is called when ready() or why_not_ready() has changed. Throws
  // AddressPool::BadNetwork.
  PodNetwork(Options options, hypervisor::Hypervisor& hypervisor, Jobs& jobs,
             api::Scheduler& scheduler, std::function<void()> changed);

  // Makes sure that the network exists, again and again until it does. Called after every
  // connection to the hypervisor, and when a domain could not be plugged in.
  void ensure();

  bool ready() const { return ready_; }
  const std::string& why_not_ready() const { return why_not_ready_; }
  const std::string& name() const { return options_.name; }
  const std::string& cidr() const { return options_.cidr; }
  AddressPool& addresses() { return addresses_; }

 private:
  void finished(Result<std::monostate>& result);

  const Options options_;
  hypervisor::Hypervisor& hypervisor_;
  Jobs& jobs_;
  api::Scheduler& scheduler_;
  std::function<void()> changed_;
  AddressPool addresses_;
  bool ready_ = false;
  bool busy_ = false;
  std::string why_not_ready_ = "the network has not been made yet";
  std::unique_ptr<api::Scheduler::Timer> retry_;
};

}  // namespace virtset
