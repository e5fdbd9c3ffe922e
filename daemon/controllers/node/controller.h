// The node: keeps the object that describes this host as the host is. It is written when something
// has changed and never only to say that nothing has. Users' labels, annotations, taints and
// spec.unschedulable are theirs; the last is heeded by the instance controller. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/controller.h"
#include "daemon/controllers/node/status.h"
#include "daemon/domains.h"
#include "daemon/event_recorder.h"
#include "daemon/jobs.h"
#include "daemon/pod_network.h"
#include "daemon/work_queue.h"

namespace virtset {

class NodeController final : public Controller {
 public:
  struct Options {
    std::string node_name;
    bool emulate = false;
    std::uint64_t guest_memory = 0;  // see memory_for_guests
    unsigned disk_high_water = 85;   // see ImageCache
    unsigned disk_low_water = 80;
    // Called at start, and from then on in jobs.
    std::function<HostState()> look_at_host;
    // Nothing tells of memory or a disk that fills up, nor of another address.
    std::chrono::seconds look_interval{60};
  };
  struct Parts {
    store::Store& store;
    api::Scheduler& scheduler;
    Jobs& jobs;
    hypervisor::Hypervisor& hypervisor;
    EventRecorder& events;
    Domains& domains;
    PodNetwork& network;
  };

  NodeController(Parts parts, Options options);

  // Makes the node, and ends those of other names, which the host had once.
  void start() override;
  void observe(const store::Change& change) override;

  // The connection to the hypervisor, or the pod network, has come or gone.
  void hypervisor_changed();
  void network_changed();

 private:
  struct Found {
    HostState host;
    std::optional<hypervisor::Versions> versions;
  };

  void look();
  void looked(Result<Found>& result);
  void reconcile(const store::Key& key);
  void write(const store::Key& key);
  void end_former(const store::Object& node);
  void tell_changes(const store::Object& node);

  Parts parts_;
  const Options options_;
  const store::Key key_;
  WorkQueue queue_;
  NodeFacts facts_;
  std::unique_ptr<api::Scheduler::Timer> timer_;
  bool looking_ = false;
  bool look_again_ = false;
  // By condition: the status that was told last. Empty while there was none.
  std::map<std::string, std::string> told_;
};

}  // namespace virtset
