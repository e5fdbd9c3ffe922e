// Runs virtual machines as their run strategy says (KubeVirt: virtualmachine-controller). Loop
// thread only.
//
// A virtual machine runs as an instance of its own name, so there is at most one; the next one is
// made when the last is gone. What was asked for, and what failed, is stored before it is acted on,
// and therefore survives any crash.
//
// What differs from KubeVirt: one that ends soon after its start, again and again, also waits;
// there the back-off is only for those that never ran.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/kinds/virtualmachine/actions.h"
#include "api/kinds/virtualmachine/strategy.h"
#include "daemon/controller.h"
#include "daemon/event_recorder.h"
#include "daemon/work_queue.h"

namespace virtset {

class MachineController final : public Controller {
 public:
  struct Options {
    // An instance that ends sooner after its start has failed early.
    std::chrono::seconds stable{60};
    // KubeVirt: 10 s, 40 s, 90 s … plus up to half of it, and at most this.
    std::chrono::seconds first_back_off{10};
    std::chrono::seconds longest_back_off{300};
  };

  MachineController(store::Store& store, api::Scheduler& scheduler, EventRecorder& events,
                    Options options);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  // KubeVirt: the source of its events.
  static constexpr const char* component = "virtualmachine-controller";

  struct Failure {
    std::string reason;  // FailedCreate, FailedDelete
    std::string message;
  };
  // What is known of a machine beyond what is stored.
  struct State {
    std::string uid;
    std::size_t in_flight = 0;       // writes that are not done
    std::optional<Failure> failure;  // of the last step
    // After a failure nothing is tried before this time.
    api::Scheduler::SteadyTime hold_until{};
  };
  enum class Step { none, create, remove };
  // One look at a machine and its instance.
  struct Look {
    const store::Key& key;
    store::ObjectPtr object;
    std::shared_ptr<const store::Json> document;
    State& state;
    store::ObjectPtr instance;               // ours; null: there is none
    std::shared_ptr<const store::Json> run;  // its document
    bool name_taken = false;                 // by an instance of somebody else
    // What its own DataVolumes keep it waiting for, as its printable status; empty: nothing.
    std::string disks_wait;

    const store::Json& spec() const { return (*document)["spec"]; }
    api::RunStrategy strategy() const { return api::strategy_of(spec()); }
    bool is_final() const;
    bool is_leaving() const;
    // There, and going to stay for now.
    bool is_live() const { return instance && !is_final() && !is_leaving(); }
  };

  void reconcile(const store::Key& key);
  void tear_down(Look& look);
  bool take_in_instance(Look& look);
  store::Json settle(Look& look);
  void count_start(Look& look, store::Json& status);
  Step next_step(Look& look, const store::Json& status);
  bool may_start(Look& look, const store::Json& status);

  // steps.cpp: what it does.
  void perform(Look& look, Step step, const store::Json& status);
  void create_instance(Look& look, const store::Json& status);
  void store_new(const Look& look, const store::Key& key, store::Json object,
                 const std::string& reason, const std::string& message);
  void remove_instance(Look& look, std::optional<std::int64_t> grace_period);
  void adopt(Look& look, const store::Key& key, const std::string& uid);
  void ensure_disks(Look& look);
  void create_disk(Look& look, const store::Json& disk_template);
  void write(const Look& look, const store::Key& key, store::Store::Mutate mutate,
             std::function<void(const store::Store::Outcome&)> done);
  void failed(const Look& look, const std::string& reason, const std::string& message,
              const std::string& event);

  // status.cpp: what it says.
  static std::string printable_status(const Look& look, Step step, const store::Json& status);
  void report(const Look& look, Step step, store::Json status);
  void write_status(const Look& look, store::Json status);

  store::Store& store_;
  api::Scheduler& scheduler_;
  EventRecorder& events_;
  const Options options_;
  WorkQueue queue_;
  store::KeyMap<State> states_;
};

}  // namespace virtset
