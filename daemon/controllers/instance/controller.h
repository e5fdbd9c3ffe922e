// Runs virtual machine instances: Pending -> Scheduling -> Scheduled -> Running -> Succeeded |
// Failed, and deletion backwards. Loop thread only.
//
//   Pending     it has no slot yet: its set is at count, the host is full, or the node is cordoned;
//               or what its volumes refer to is not there, or in use
//   Scheduling  its images are being got
//   Scheduled   its disks and addresses are there; this is durable before its domain is started
//   Running     its domain is there
//
// Where an instance is found after a crash follows from its phase and from what is there: before
// Scheduled no start was ever ordered; at Scheduled one may have been, and the hypervisor's list
// says whether it came through; at Running an absent domain has died.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "api/kinds/conditions.h"
#include "api/kinds/virtualmachineinstance/spec.h"
#include "api/kinds/virtualmachineinstance/status.h"
#include "daemon/claim_users.h"
#include "daemon/controller.h"
#include "daemon/domains.h"
#include "daemon/event_recorder.h"
#include "daemon/image_puller.h"
#include "daemon/jobs.h"
#include "daemon/pod_network.h"
#include "daemon/probe.h"
#include "daemon/slots.h"
#include "daemon/turns.h"
#include "daemon/volume_plan.h"
#include "daemon/work_queue.h"
#include "images/images.h"
#include "images/volumes.h"

namespace virtset {

class InstanceController final : public Controller {
 public:
  struct Options {
    std::string node_name;
    std::string installation;
    bool emulate = false;
    // Of a domain beside the guest's own memory, for admission.
    std::uint64_t memory_overhead = 48ull << 20;
    // After a start that the hypervisor refused, doubled each time.
    std::chrono::seconds first_back_off{5};
    std::chrono::seconds longest_back_off{300};
    // How long the hypervisor may owe word of a domain's start or end before it is asked; doubled.
    std::chrono::milliseconds first_patience{3'000};
    std::chrono::milliseconds longest_patience{60'000};
    // That are given disks and started at a time.
    std::size_t starts_at_once = 64;
    ImagePuller::Options images;
  };

  struct Parts {
    store::Store& store;
    api::Scheduler& scheduler;
    Jobs& jobs;
    hypervisor::Hypervisor& hypervisor;
    images::Images& images;
    images::Volumes& volumes;
    ClaimUsers& claims;
    PodNetwork& network;
    ProbeTransport& probes;
    EventRecorder& events;
    Domains& domains;
    std::uint64_t guest_memory;  // of the host; 0: unlimited
  };

  InstanceController(Parts parts, Options options);
  ~InstanceController() override;

  void start() override;
  void observe(const store::Change& change) override;

  // The domain of this UUID has changed.
  void domain_changed(const std::string& uuid);
  // The hypervisor or the network is there again, or not any more.
  void surroundings_changed();
  // Images were imported.
  void images_changed() { puller_.retry_now(); }

 private:
  // What this run of the daemon knows of an instance beyond what is stored.
  struct Runtime {
    std::string uid;
    std::string uuid;  // of the domain
    std::string set;   // uid of the owning set
    // As stored, so that a look which ends at once need not parse the document.
    api::Phase phase = api::Phase::pending;
    bool deleting = false;
    // Under way; each asks for another look when it is done.
    bool job = false;
    bool writing = false;
    // Set when it is deleted: a job that waits for its turn then does nothing. The only thing here
    // that other threads see.
    std::shared_ptr<std::atomic<bool>> abandoned = std::make_shared<std::atomic<bool>>(false);

    // On the way to a domain.
    std::map<std::string, images::ContainerDisk> images;           // by disk
    std::optional<std::map<std::string, images::MadeDisk>> disks;  // by disk
    std::vector<store::Key> awaited;  // what its volumes refer to and is not there
    bool start_abandoned = false;     // it was never ordered, although the phase is Scheduled
    bool start_ordered = false;       // successfully; its event is on the way or was seen
    unsigned believe_from = 0;  // a list of the hypervisor before this one says nothing about it
    std::string last_trouble;   // what was told last, so that it is told once
    std::optional<api::Scheduler::SteadyTime> ask_at;  // word of the domain is overdue then
    std::chrono::milliseconds patience{0};

    // While it runs.
    std::unique_ptr<Probe> readiness;
    std::unique_ptr<Probe> liveness;
    bool is_ready = false;  // what the readiness probe says
    bool is_dead = false;   // what the liveness probe says

    // On the way out.
    // Its memory could not be saved: it is shut down instead, and has its grace from here on.
    std::optional<api::Scheduler::SteadyTime> save_failed_at;
    std::optional<unsigned> saved_in;  // the list of the hypervisor after which it has ended
    bool asked_to_shut_down = false;
    int asked_times = 0;
    api::Scheduler::SteadyTime asked_last;
    std::optional<api::Scheduler::SteadyTime> stopping_since;  // for another reason than deletion
    bool cleaned = false;  // it has neither disks nor addresses any more
  };
  // One look: the stored instance and what is known of it.
  struct Look {
    const store::Key& key;
    store::ObjectPtr object;
    Runtime& runtime;
    const DomainRecord* domain;  // null: none is known
    mutable std::shared_ptr<const store::Json> parsed = nullptr;

    api::Phase phase() const { return runtime.phase; }
    const store::Json& document() const;
    const store::Json& status() const;
    // Whether something was begun that has not ended.
    bool is_under_way() const;
    api::InstanceSpec spec() const;
  };

  void reconcile(const store::Key& key);
  Runtime& runtime_of(const store::Object& object);
  void forget(const store::Key& key);
  void take_in(const store::Object& object);
  void node_changed(const store::Object& node, bool exists);

  void await_word(const Look& look);
  // The addresses of an instance are leased to its name: a virtual machine keeps them while it is
  // stopped, and one that was scaled in with its state while that is kept.
  static std::string lease_prefix(const store::Key& key) { return key.ns + "/" + key.name + "/"; }
  // `part` of the object has them.
  void restore_addresses(const store::Object& object, const char* part);
  void release_addresses(const store::Key& key);
  void keeper_gone(const store::Key& keeper);
  // The record under which the state of an instance is kept, or to be kept, as its annotation says;
  // empty if there is none. Users can write annotations: the record must be of its name.
  std::string kept_state(const Look& look, const char* annotation) const;
  // While a memory is kept nobody else may use its claims. `saved` is its record.
  void hold_claims(const store::Object& saved);
  void saved_changed(const store::Object& saved, bool gone);
  void release_claims(const store::Key& key);

  // start.cpp: towards a domain.
  void go_forward(Look& look);
  void prepare_and_start(Look& look);
  bool may_leave_pending(Look& look);
  bool has_slot(Look& look, const api::InstanceSpec& spec);
  bool may_try_again(Look& look);
  std::optional<std::int64_t> limit_of_set(const store::Json& instance) const;
  bool has_images(Look& look, const api::InstanceSpec& spec);
  bool has_addresses(Look& look, const api::InstanceSpec& spec);
  std::string restore_key(const Look& look) const;
  void order_start(Look& look, const api::InstanceSpec& spec);
  void start_finished(const store::Key& key, const std::string& uid,
                      Result<std::monostate>& result);
  hypervisor::Domain describe(const Look& look, const api::InstanceSpec& spec) const;
  store::Json scheduled_status(const Look& look, const api::InstanceSpec& spec) const;

  // volumes.cpp: what its disks are made of.
  bool has_volumes(Look& look, const api::InstanceSpec& spec);
  void await_volumes(Look& look, const VolumeObstacle& obstacle);
  void await_nothing(const store::Key& key, Runtime& runtime);
  void wake_those_that_await(const store::Key& referenced);
  bool make_disks(Look& look, const api::InstanceSpec& spec);
  void disks_made(const store::Key& key, const std::string& uid,
                  Result<std::map<std::string, images::MadeDisk>>& result);

  // run.cpp: while it runs.
  void keep_running(Look& look);
  void run_probes(Look& look, const api::InstanceSpec& spec);
  void set_running_conditions(const Look& look, store::Json& status) const;

  // stop.cpp: towards the end.
  void finish(Look& look, const DomainEnd& end);
  void record_end(const store::Object& object, api::Phase phase) const;
  void stop_domain(Look& look, api::Scheduler::Duration time_left);
  std::string save_key(const Look& look) const;
  bool is_saving(Look& look);
  void save_domain(Look& look);
  void tear_down(Look& look);
  void clean_up(Look& look);
  void remove_finalizer(Look& look);

  // Status, conditions and events, in status.cpp.
  void write(const Look& look, std::function<store::Json(store::Json document)> change,
             std::function<void()> written = nullptr);
  void write_status(const Look& look, store::Json status, std::function<void()> written = nullptr);
  void report_waiting(Look& look, const api::Condition& condition, bool with_event);
  void report_failure(Look& look, const std::string& reason, const std::string& message);
  void record(const Look& look, EventType type, const std::string& reason,
              const std::string& message);

  Parts parts_;
  const Options options_;
  WorkQueue queue_;
  ImagePuller puller_;
  Slots slots_;
  Turns turns_;
  VolumePlanner planner_;
  store::KeyMap<Runtime> runtimes_;
  store::KeyMap<store::KeySet> awaiting_;  // instances, by what they wait for
  bool cordoned_ = false;                  // the node is
  // Manifests may ask for one UUID several times, although only one of them can have it.
  std::set<std::pair<std::string, store::Key>> by_uuid_;
};

}  // namespace virtset
