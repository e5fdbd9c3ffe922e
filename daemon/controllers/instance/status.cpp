#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "daemon/back_off.h"
#include "daemon/controllers/instance/controller.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

constexpr const char* component = "virtset";

}  // namespace

void InstanceController::record(const Look& look, EventType type, const std::string& reason,
                                const std::string& message) {
  parts_.events.record(*look.object, type, component, reason, message);
}

// Stores the status if it differs, and then calls `written`.
void InstanceController::write_status(const Look& look, Json status,
                                      std::function<void()> written) {
  if (status == look.status()) {
    if (written) written();
    return;
  }
  write(
      look,
      [status = std::move(status), node = options_.node_name](Json document) mutable {
        // KubeVirt: the label comes with the node.
        if (status.contains("nodeName")) {
          document["metadata"]["labels"]["kubevirt.io/nodeName"] = node;
        }
        document["status"] = std::move(status);
        return document;
      },
      std::move(written));
}

// Changes the stored instance, unless it is another one of its name by now.
void InstanceController::write(const Look& look, std::function<Json(Json document)> change,
                               std::function<void()> written) {
  const store::Key key = look.key;
  const std::string uid = look.object->uid();
  try {
    parts_.store.write(
        key,
        [uid, change = std::move(change)](const store::Object* current) {
          if (!current || current->uid() != uid) return Store::Mutation::nothing();
          Json document = change(*current->document());
          if (document == *current->document()) return Store::Mutation::nothing();
          return api::put_or_finish(std::move(document));
        },
        [this, key, uid, written = std::move(written)](const Store::Outcome& outcome) {
          const auto it = runtimes_.find(key);
          if (it != runtimes_.end() && it->second.uid == uid) it->second.writing = false;
          if (outcome.error) {
            // The disk may be full; the daemon says so on its own.
            queue_.retry(key);
            return;
          }
          queue_.forget(key);
          queue_.add(key);
          if (written) written();
        });
    look.runtime.writing = true;
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

// Something that is not the instance's fault keeps it from going on; it will be woken.
void InstanceController::report_waiting(Look& look, const api::Condition& condition,
                                        bool with_event) {
  const std::string trouble = condition.reason + ": " + condition.message;
  if (with_event && look.runtime.last_trouble != trouble) {
    record(look, EventType::warning, condition.reason, condition.message);
  }
  look.runtime.last_trouble = trouble;
  Json status = look.status();
  api::set_condition(status, condition, parts_.scheduler.now());
  api::set_guest_not_running(status, parts_.scheduler.now());
  write_status(look, std::move(status));
}

// A step of its own failed. It is tried again after a back-off that a restart does not reset.
void InstanceController::report_failure(Look& look, const std::string& reason,
                                        const std::string& message) {
  const auto now = parts_.scheduler.now();
  Json status = look.status();
  const int failures = static_cast<int>(api::integer(
                           api::member(status, "startFailure", "consecutiveFailCount"), 0)) +
                       1;
  const auto delay = back_off(failures, options_.first_back_off, options_.longest_back_off);
  status["startFailure"] = {{"consecutiveFailCount", failures},
                            {"retryAfterTimestamp", api::format_time(now + delay)},
                            {"message", message}};
  api::set_condition(status, {"Synchronized", false, reason, message}, now);
  api::set_guest_not_running(status, now);
  record(look, EventType::warning, reason, message);
  queue_.add_after(look.key, std::chrono::duration_cast<WorkQueue::Duration>(delay));
  write_status(look, std::move(status));
}

}  // namespace virtset
