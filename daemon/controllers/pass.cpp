#include "daemon/controllers/pass.h"

#include "api/kinds/conditions.h"
#include "daemon/controller.h"

namespace virtset {

using store::Store;

bool Pass::begin(std::int64_t generation) {
  const auto now = parts_.scheduler.steady_now();
  if (now < hold_until_ && generation == generation_) {
    parts_.queue.add_after(key_, std::chrono::ceil<WorkQueue::Duration>(hold_until_ - now));
    return false;
  }
  generation_ = generation;
  return true;
}

void Pass::order(const store::ObjectPtr& object, const store::Key& key, Order order,
                 Store::Mutate mutate) {
  try {
    parts_.store.write(
        key, std::move(mutate),
        [parts = parts_, pass = weak_from_this(), object, order](const Store::Outcome& outcome) {
          if (outcome.changed && !order.done_reason.empty()) {
            parts.events.record(*object, EventType::normal, parts.component, order.done_reason,
                                order.done_message);
          }
          const auto self = pass.lock();
          if (!self) return;
          if (outcome.error) self->fail(*object, order, what(outcome.error));
          self->settle();
        });
    ++in_flight_;
  } catch (const std::exception& error) {
    fail(*object, order, error.what());
  }
}

// KubeVirt: one event a pass.
void Pass::fail(const store::Object& object, const Order& order, const std::string& message) {
  if (first_failure_) return;
  first_failure_ = Failure{order.failure, order.during + message};
  if (order.failed_reason.empty()) return;
  parts_.events.record(object, EventType::warning, parts_.component, order.failed_reason,
                       order.failed_message + message);
}

// KubeVirt: conditions are removed, never set to False, and a failure that goes on keeps its first
// message.
bool Pass::tell(store::Json& status) const {
  const bool said = !api::find_condition(status, "ReplicaFailure").is_null();
  if (last_failure_ && !said) {
    api::set_condition(status,
                       {"ReplicaFailure", true, last_failure_->reason, last_failure_->message},
                       parts_.scheduler.now());
  } else if (!last_failure_ && said && !is_under_way()) {
    api::remove_condition(status, "ReplicaFailure");
  }
  return last_failure_ && !said;
}

void Pass::settle() {
  if (--in_flight_ > 0) return;
  end();
  parts_.queue.add(key_);
}

void Pass::end_if_idle() {
  if (in_flight_ == 0) end();
}

void Pass::end() {
  last_failure_ = std::exchange(first_failure_, std::nullopt);
  if (last_failure_) {
    hold_until_ = parts_.scheduler.steady_now() + parts_.queue.retry(key_);
  } else {
    parts_.queue.forget(key_);
  }
}

}  // namespace virtset
