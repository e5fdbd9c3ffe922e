// Keeps pools at count, rolls out new templates and heals (KubeVirt:
// virtualmachinepool-controller). Loop thread only.
//
// What differs from KubeVirt: a roll-out goes on only as what it has changed becomes ready, and
// says when it does not; what users did to a virtual machine survives it; finalizers are let go of
// whatever the strategies say; only the pool's own virtual machines are healed, and ever more
// slowly; deadlines are timers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "api/kinds/label_selector.h"
#include "api/kinds/lifecycle.h"
#include "daemon/controller.h"
#include "daemon/controllers/pass.h"
#include "daemon/controllers/pool/index.h"
#include "daemon/controllers/pool/revisions.h"
#include "daemon/controllers/pool/selection.h"
#include "daemon/event_recorder.h"
#include "daemon/work_queue.h"

namespace virtset {

class PoolController final : public Controller {
 public:
  struct Options {
    std::size_t burst = 250;  // KubeVirt: creations or deletions of one pass
    // Kubernetes: revisionHistoryLimit.
    std::size_t templates_to_keep = 10;
    // After a virtual machine was healed; doubled each time, and forgotten once it has been ready
    // for so long.
    std::chrono::seconds first_heal_back_off{300};
    std::chrono::seconds longest_heal_back_off{3'600};
    std::chrono::seconds healthy{600};
  };

  PoolController(store::Store& store, api::Scheduler& scheduler, EventRecorder& events,
                 Options options);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  // KubeVirt: the source of its events.
  static constexpr const char* component = "virtualmachinepool-controller";

  // What is known of a pool beyond what is stored.
  struct State {
    std::string uid;
    store::Json selector_source;  // null: it has none that can be used
    api::LabelSelector selector;
    bool complained = false;  // about a selector that can never match
    bool writing = false;     // its status; asks for another look when it is done
    std::shared_ptr<Pass> pass;
    // Revisions compared with the template of this generation.
    std::map<std::string, Sameness> compared;
    std::int64_t compared_generation = 0;
  };
  // How far a roll-out is.
  struct Progress {
    std::size_t updated = 0;  // run the template
    std::size_t done = 0;     // and are ready, or meant to be off
    std::size_t moving = 0;   // have it, or are on the way, and are not ready
    std::size_t pending = 0;  // have it before them
    std::size_t ready = 0;    // with whatever template
    std::size_t to_move = 0;  // of the pool's regular machines: those that a surge would help
    bool complete() const { return pending == 0 && moving == 0; }
  };
  // What a roll-out has before it.
  struct Plan {
    PoolMemberList free;   // nothing becomes unavailable by their update
    PoolMemberList gated;  // are restarted, or deleted, for it
    std::set<store::Key> guest_is_left;
    Progress progress;
  };
  // One look at a pool.
  struct Look {
    const store::Key& key;
    store::ObjectPtr object;
    std::shared_ptr<const store::Json> document;
    State& state;
    PoolMembers& members;
    store::Json status;        // as it is to be
    std::optional<Plan> plan;  // made when it is needed

    Pass& pass() const { return *state.pass; }
    void order(const store::Key& to, Order what, store::Store::Mutate mutate) {
      pass().order(object, to, std::move(what), std::move(mutate));
    }
    void fail(const Order& what, const std::string& message) {
      pass().fail(*object, what, message);
    }
    const store::Json& spec() const { return (*document)["spec"]; }
    const store::Json& annotation(const char* name) const;
    std::int64_t generation() const;
    std::int64_t wanted() const;
    bool paused() const;
    bool is_proactive() const;  // in its updates
  };

  // controller.cpp
  void reconcile(const store::Key& key);
  void act(Look& look);
  State& state_of(const store::Object& pool);
  bool take_in_selector(Look& look);
  void machine_changed(const store::Key& key);
  void saved_changed(const store::Object& saved, bool gone);
  void look_at_owners(const std::set<std::string>& uids);
  void forget(const store::Object& pool);
  std::optional<store::Json> admit(Look& look, const store::Key& key, store::Json object,
                                   const Order& what);
  store::Store::Mutate gated(const Look& look, const PoolMember& member,
                             store::Store::Mutate mutate) const;
  bool may_act(const store::Key& key, const std::string& uid, std::int64_t generation) const;

  // claim.cpp: who belongs to the pool, and how those leave it that do not.
  bool take_hold(Look& look);
  void claim(Look& look);
  void release_deleted(Look& look);
  void finish_deletion(Look& look);
  void release_stray(const store::Key& machine);

  // preserve.cpp: what outlives a machine.
  store::ObjectPtr saved_of(const Look& look, const std::string& name) const;
  bool is_written_down(Look& look, const PoolMember& member, const std::string& preservation);
  bool is_the_record(Look& look, const PoolMember& member, const store::Object& known,
                     bool with_memory);
  void forget_saved(Look& look, const store::Object& saved);
  void forget_unused(Look& look);
  bool preserve_state(Look& look, const PoolMember& member);

  // scale.cpp
  bool scale(Look& look);
  std::size_t surge_wanted(Look& look);
  void end_surge(Look& look, std::size_t count);
  void create(Look& look, std::size_t count, bool surge);
  bool create_one(Look& look, int index, bool surge);
  void shrink(Look& look, std::size_t excess);
  void delete_machine(Look& look, const PoolMember& member, const std::string& preservation,
                      std::optional<api::Propagation> policy, const char* failure,
                      const char* during);

  // history.cpp: revisions of the template.
  std::string target_revision(const Look& look) const;
  bool ensure_revision(Look& look, const Order& what);
  const Sameness& compare(Look& look, const std::string& revision);
  void prune(Look& look);
  void go_back(Look& look);

  // update.cpp: rolling the template out.
  Plan& plan(Look& look);
  Plan make_plan(Look& look);
  void update(Look& look);
  void update_gated(Look& look, Plan& plan);
  void update_machine(Look& look, const PoolMember& member);
  void restart_guest(Look& look, const PoolMember& member, const char* failure, const char* during);
  void relabel_guests(Look& look);
  std::size_t max_unavailable(const Look& look) const;
  std::size_t max_surge(const Look& look) const;
  std::size_t not_settled(Look& look, const PoolMembers::Group& group);

  // heal.cpp
  void heal(Look& look);
  std::optional<api::Time> heal_time(const Look& look, const PoolMember& member) const;
  void note_healed(Look& look, const std::string& name) const;
  void forget_healed(Look& look);

  // status.cpp
  void report(Look& look);
  void report_progress(Look& look, const Progress& progress, bool was_paused);
  std::string what_is_missing(Look& look);
  void write_status(Look& look);

  store::Store& store_;
  api::Scheduler& scheduler_;
  EventRecorder& events_;
  const Options options_;
  WorkQueue queue_;
  PoolIndex index_;
  PoolRevisions revisions_;
  std::map<store::Key, State> states_;
  std::map<std::string, store::Key> pools_;            // by uid
  std::map<std::string, std::set<store::Key>> saved_;  // what is kept of machines, by uid of pool
};

}  // namespace virtset
