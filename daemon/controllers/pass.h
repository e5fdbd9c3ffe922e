// The writes that one look at a set or a pool has ordered, and what became of them.
//
// While any of them is under way nothing else is to be ordered: the counts would be stale. After a
// failure nothing is done for a while, unless the object is changed. Loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/event_recorder.h"
#include "daemon/work_queue.h"
#include "store/store.h"

namespace virtset {

// What a write is about, for events and conditions; an event without a reason is not recorded.
struct Order {
  const char* failure;   // reason of the condition
  std::string during{};  // of its message
  std::string done_reason{}, done_message{};
  std::string failed_reason{}, failed_message{};
};

class Pass final : public std::enable_shared_from_this<Pass> {
 public:
  struct Parts {
    store::Store& store;
    api::Scheduler& scheduler;
    EventRecorder& events;
    WorkQueue& queue;
    const char* component;  // the source of events
  };
  struct Failure {
    std::string reason;
    std::string message;
  };

  // Of the object of this key, which is looked at again when the last write is done. A write whose
  // pass is gone is still done.
  static std::shared_ptr<Pass> over(const Parts& parts, const store::Key& key) {
    return std::shared_ptr<Pass>(new Pass(parts, key));
  }

  // Whether a pass over this generation may begin: not for a while after one that failed; then the
  // object is looked at again. All that a look may order hangs on it, so that it is asked first.
  bool begin(std::int64_t generation);

  // Orders a write on behalf of `object`.
  void order(const store::ObjectPtr& object, const store::Key& key, Order order,
             store::Store::Mutate mutate);
  // A step that did not even become a write.
  void fail(const store::Object& object, const Order& order, const std::string& message);
  // Ends it, unless writes are under way: the last of them does.
  void end_if_idle();

  bool is_under_way() const { return in_flight_ > 0; }
  bool has_failed() const { return first_failure_.has_value(); }
  // What it has ordered so far is done, and nothing failed.
  bool may_go_on() const { return !is_under_way() && !has_failed(); }
  // Of the last pass that has ended.
  const std::optional<Failure>& failure() const { return last_failure_; }
  // Says in a status whether that one failed: the condition ReplicaFailure. True if it did not
  // say so before.
  bool tell(store::Json& status) const;

 private:
  Pass(const Parts& parts, const store::Key& key) : parts_(parts), key_(key) {}
  void settle();
  void end();

  const Parts parts_;
  const store::Key key_;
  std::size_t in_flight_ = 0;
  std::optional<Failure> first_failure_;
  std::optional<Failure> last_failure_;
  api::Scheduler::SteadyTime hold_until_{};
  std::int64_t generation_ = 0;
};

}  // namespace virtset
