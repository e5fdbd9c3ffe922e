// A daemon of real controllers and a real store on a fake host, which can be killed and started
// again at any moment. The disk, the host's domains and the disks of VMs live on.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/rest/rest_api.h"
#include "daemon/claim_users.h"
#include "daemon/controllers/claim/controller.h"
#include "daemon/controllers/data_volume_controller.h"
#include "daemon/controllers/garbage_collector.h"
#include "daemon/controllers/instance/controller.h"
#include "daemon/controllers/machine/controller.h"
#include "daemon/controllers/namespace_controller.h"
#include "daemon/controllers/node/controller.h"
#include "daemon/controllers/pool/controller.h"
#include "daemon/controllers/replica_set/controller.h"
#include "daemon/controllers/saved_machine_controller.h"
#include "daemon/controllers/strays.h"
#include "tests/fakes/fake_hypervisor.h"
#include "tests/fakes/fake_images.h"
#include "tests/fakes/fake_probes.h"
#include "tests/fakes/fake_volumes.h"
#include "tests/fakes/manual_jobs.h"
#include "tests/fakes/manual_scheduler.h"
#include "tests/fakes/memory_committer.h"

namespace virtset::test {

class World {
 public:
  struct Options {
    std::size_t burst = 250;
    std::uint64_t guest_memory = 0;
    std::string network = "10.88.0.0/22";
    std::chrono::seconds crash_back_off{10};
  };

  World() : World(Options{}) {}
  explicit World(Options options);
  ~World();

  // Runs the loop and the jobs until nothing is left to do now.
  void settle();
  void advance(std::chrono::milliseconds duration);

  // kill -9, and a start. What was only in memory is gone.
  void crash();
  void boot();

  // The API, as a client has it. The answers are parsed; `status` gets the code if it is not null.
  store::Json request(const std::string& method, const std::string& path,
                      const store::Json& body = nullptr, int* status = nullptr,
                      const std::string& content_type = "application/json");
  // A set of this template, which has the label app=<name>.
  void create_set(const std::string& name, int replicas, const store::Json& spec_patch = nullptr);
  // A virtual machine of this spec on top of machine()'s.
  void create_machine(const std::string& name, const store::Json& spec_patch = nullptr);
  // A pool of this spec on top of pool()'s.
  void create_pool(const std::string& name, int replicas, const store::Json& spec_patch = nullptr);
  // A merge patch of any object; throws if it is refused.
  void patch(const std::string& kind, const std::string& name, const store::Json& patch);
  // start, stop or restart; the status of the answer.
  int act(const std::string& machine, const std::string& action,
          const store::Json& options = nullptr);
  void scale(const std::string& set, int replicas);
  void remove(const std::string& kind, const std::string& name, const std::string& policy = "");

  std::vector<store::Json> instances(const std::string& ns = "default") const;
  std::vector<std::string> instance_names() const;
  store::Json get(const std::string& kind, const std::string& name) const;
  store::Json pool(const std::string& name) const { return get(api::pool_kind, name); }
  std::vector<std::string> machine_names(const std::string& ns = "default") const;
  store::Json set(const std::string& name) const { return get(api::replica_set_kind, name); }
  // "reason: message" of the events about objects of this kind.
  std::vector<std::string> events(const std::string& kind) const;
  std::string uuid_of(const std::string& instance) const;
  // The node of this name, null if there is none.
  store::Json node(const std::string& name = "host") const;
  // As kubectl cordon and uncordon do.
  void cordon(bool cordoned = true);

  // May be changed between a crash and a boot.
  std::string node_name = "host";
  HostState host_state;
  std::set<int> silent_ports;  // on which no guest answers; taken over at a boot
  ManualScheduler scheduler;
  Disk disk;
  FakeHost host;
  FakeImages images;
  FakeVolumes volumes;

  // Parts of the daemon that runs; null while none does.
  MemoryCommitter* committer = nullptr;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<ManualJobs> jobs;
  std::unique_ptr<FakeHypervisor> hypervisor;
  std::unique_ptr<FakeProbes> probes;
  std::unique_ptr<EventRecorder> recorder;
  std::unique_ptr<Domains> domains;
  std::unique_ptr<ClaimUsers> claims;
  std::unique_ptr<PodNetwork> network;
  std::vector<std::unique_ptr<Controller>> controllers;
  InstanceController* instance_controller = nullptr;
  NodeController* node_controller = nullptr;
  std::unique_ptr<api::RestApi> rest;

 private:
  void observe_hypervisor();

  const Options options_;
  store::WatchFeed::Subscription subscription_;
  // Guards what a killed daemon has posted.
  std::shared_ptr<bool> alive_;
};

// A replica set named `name`: template without disks, networks or probes.
store::Json replica_set(const std::string& name, int replicas);
// A virtual machine of the same template, with the run strategy Always.
store::Json machine(const std::string& name);
// A pool of such virtual machines, which have the label app=<name>.
store::Json pool(const std::string& name, int replicas);
// An instance of the same kind on its own.
store::Json instance(const std::string& name);

}  // namespace virtset::test
