// Keeps replica sets at count (KubeVirt: virtualmachinereplicaset-controller). Loop thread only.
//
// What differs from KubeVirt: replicas that die soon after their start are replaced ever more
// slowly, and a set that shrinks loses those first that are not ready, then the newest.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "api/kinds/label_selector.h"
#include "daemon/controller.h"
#include "daemon/controllers/pass.h"
#include "daemon/controllers/replica_set/index.h"
#include "daemon/event_recorder.h"
#include "daemon/work_queue.h"

namespace virtset {

class ReplicaSetController final : public Controller {
 public:
  struct Options {
    std::size_t burst = 250;  // KubeVirt: creations or deletions of one pass
    // A replica that ends sooner after its start than `stable` has failed early. The first one in a
    // row is replaced at once, the next after `first_back_off`, then doubled.
    std::chrono::seconds stable{60};
    std::chrono::seconds first_back_off{10};
    std::chrono::seconds longest_back_off{300};
  };

  ReplicaSetController(store::Store& store, api::Scheduler& scheduler, EventRecorder& events,
                       Options options);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  // KubeVirt: the source of its events.
  static constexpr const char* component = "virtualmachinereplicaset-controller";

  // What is known of a set beyond what is stored.
  struct State {
    std::string uid;
    store::Json selector_source;  // null: it has none that can be used
    api::LabelSelector selector;
    bool complained = false;          // about a selector that can never match
    std::set<store::Key> candidates;  // instances that it might adopt
    bool writing = false;             // its status; asks for another look when it is done
    std::shared_ptr<Pass> pass;
    std::set<std::string> counted;  // uids of finished replicas that back-off has counted
  };
  // One look at a set.
  struct Look {
    const store::Key& key;
    store::ObjectPtr object;
    std::shared_ptr<const store::Json> document;
    State& state;
    Members* members;  // null: none

    const store::Json& spec() const { return (*document)["spec"]; }
    Pass& pass() const { return *state.pass; }
    std::size_t active() const { return members ? members->active : 0; }
    std::size_t ready() const { return members ? members->ready : 0; }
  };

  void reconcile(const store::Key& key);
  State& state_of(const store::Object& set);
  bool take_in_selector(Look& look);
  void instance_changed(const store::Change& change);
  void offer_for_adoption(const store::Object& instance);

  // claim.cpp: which instances belong to the set.
  bool claim(Look& look);
  void release(Look& look, const Replica& replica);
  void adopt(Look& look, const store::Key& instance);

  // scale.cpp: creating and deleting them.
  void scale(Look& look, bool may_create);
  void create(Look& look, std::size_t count);
  void create_one(Look& look);
  void remove(Look& look, std::size_t count);
  void remove_finished(Look& look);
  void remove_one(Look& look, const Replica& replica, bool finished);

  // Status and crash back-off.
  bool count_crashes(Look& look, store::Json& status);
  void write_status(Look& look, store::Json status);

  store::Store& store_;
  api::Scheduler& scheduler_;
  EventRecorder& events_;
  const Options options_;
  WorkQueue queue_;
  ReplicaIndex index_;
  std::map<store::Key, State> states_;
  std::map<std::string, store::Key> sets_;  // by uid
};

}  // namespace virtset
