#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "daemon/controllers/instance/controller.h"

namespace virtset {

using api::Phase;
using hypervisor::StopReason;
using store::Json;

namespace {

// KubeVirt: a guest that is booting may miss the signal, so it is sent again.
constexpr std::chrono::seconds ask_again_after{5};

// KubeVirt: shut down by itself is a success; destroyed is one only where no grace was given.
Phase phase_after(const DomainEnd& end, bool has_grace) {
  switch (end.reason) {
    case StopReason::shutdown:
    case StopReason::saved:
      return Phase::succeeded;
    case StopReason::destroyed:
      return has_grace ? Phase::failed : Phase::succeeded;
    default:
      return Phase::failed;
  }
}

}  // namespace

// The domain is gone: Succeeded or Failed, for good.
void InstanceController::finish(Look& look, const DomainEnd& end) {
  const auto now = parts_.scheduler.now();
  const Phase phase = phase_after(end, look.spec().grace_period.count() > 0);
  look.runtime.readiness.reset();
  look.runtime.liveness.reset();
  slots_.release(look.key);
  release_claims(look.key);
  Json status = look.status();
  api::enter_phase(status, phase, now);
  status.erase("startFailure");
  for (const char* condition :
       {"Paused", "AgentConnected", "Synchronized", "LiveMigratable", "DataVolumesReady"}) {
    api::remove_condition(status, condition);
  }
  write_status(look, std::move(status),
               [this, object = look.object, phase] { record_end(*object, phase); });
}

void InstanceController::record_end(const store::Object& object, Phase phase) const {
  const bool failed = phase == Phase::failed;
  parts_.events.record(
      object, failed ? EventType::warning : EventType::normal, "virtset", "Stopped",
      failed ? "The VirtualMachineInstance crashed." : "The VirtualMachineInstance was shut down.");
}

// Asks the guest to power off, and again, until the time is up; then ends the domain.
void InstanceController::stop_domain(Look& look, api::Scheduler::Duration time_left) {
  Runtime& runtime = look.runtime;
  const auto now = parts_.scheduler.steady_now();
  const bool time_is_up = time_left <= api::Scheduler::Duration(0);
  if (!time_is_up && runtime.asked_to_shut_down && now - runtime.asked_last < ask_again_after) {
    const auto until_next =
        std::chrono::ceil<api::Scheduler::Duration>(ask_again_after - (now - runtime.asked_last));
    queue_.add_after(look.key, std::min(until_next, time_left));
    return;
  }
  if (!time_is_up && !runtime.asked_to_shut_down) {
    record(look, EventType::normal, "ShuttingDown", "Signaled Graceful Shutdown");
  }
  runtime.asked_to_shut_down = true;
  runtime.asked_last = now;
  // By turns: some guests listen to one, some to the other.
  const bool by_agent = look.domain->info.agent_connected && runtime.asked_times++ % 2 == 1;
  runtime.job = true;
  parts_.jobs.submit(
      Lane::control,
      [&hypervisor = parts_.hypervisor, uuid = runtime.uuid, time_is_up, by_agent] {
        if (time_is_up) {
          hypervisor.destroy(uuid);
        } else {
          hypervisor.shut_down(uuid, by_agent ? hypervisor::Hypervisor::Ask::agent
                                              : hypervisor::Hypervisor::Ask::power_button);
        }
      },
      [this, key = look.key, uid = runtime.uid, time_is_up](Result<std::monostate>& result) {
        const auto it = runtimes_.find(key);
        if (it == runtimes_.end() || it->second.uid != uid) return;
        it->second.job = false;
        try {
          result.get();
          queue_.add(key);
        } catch (const hypervisor::Unavailable&) {
          queue_.retry(key);
        } catch (const std::exception& error) {
          // To power off may fail while the guest is doing just that.
          if (time_is_up) {
            spdlog::warn("{}/{}: {}", key.ns, key.name, error.what());
            queue_.retry(key);
          } else {
            queue_.add(key);
          }
        }
      });
}

// Under which the memory is to be kept; empty: it is not.
std::string InstanceController::save_key(const Look& look) const {
  return look.runtime.deleting ? kept_state(look, api::save_annotation) : "";
}

// Whether its memory is being saved, or is to be.
bool InstanceController::is_saving(Look& look) {
  Runtime& runtime = look.runtime;
  if (save_key(look).empty() || runtime.save_failed_at || runtime.asked_to_shut_down) return false;
  if (!runtime.saved_in) {
    save_domain(look);
    return true;
  }
  // Its end is on the way, unless a list that is newer still has it.
  if (parts_.domains.generation() <= *runtime.saved_in) return true;
  runtime.save_failed_at = parts_.scheduler.steady_now();
  return false;
}

// Instead of shutting it down. What comes of it is seen as its end.
void InstanceController::save_domain(Look& look) {
  record(look, EventType::normal, "Saving", "Saving the memory of the guest");
  look.runtime.job = true;
  parts_.jobs.submit(
      Lane::save,
      [&hypervisor = parts_.hypervisor, &images = parts_.images, uuid = look.runtime.uuid,
       uid = look.runtime.uid, bytes = look.spec().memory_bytes] {
        try {
          hypervisor.save(uuid, images.memory_file(uid, bytes));
        } catch (const hypervisor::Refused&) {
          images.forget_memory(uid);  // a part of it
          throw;
        }
      },
      [this, key = look.key, uid = look.runtime.uid,
       object = look.object](Result<std::monostate>& result) {
        const auto it = runtimes_.find(key);
        if (it == runtimes_.end() || it->second.uid != uid) return;
        it->second.job = false;
        try {
          result.get();
          it->second.saved_in = parts_.domains.generation();
          parts_.hypervisor.relist();
          queue_.add(key);
        } catch (const hypervisor::Unavailable&) {
          queue_.retry(key);
        } catch (const std::exception& error) {
          it->second.save_failed_at = parts_.scheduler.steady_now();
          parts_.events.record(*object, EventType::warning, "virtset", "SaveFailed",
                               std::string(error.what()) + "; the guest is shut down instead");
          queue_.add(key);
        }
      });
}

// Being deleted: the domain ends, then the disks and the addresses, then the object.
void InstanceController::tear_down(Look& look) {
  if (look.runtime.cleaned && !look.domain) {
    remove_finalizer(look);
    return;
  }
  puller_.forget(look.key);
  slots_.forget(look.key);
  look.runtime.liveness.reset();
  if (look.domain && !look.domain->process_exited) {
    if (is_saving(look)) return;
    const Json& metadata = look.document()["metadata"];
    const auto spec_grace = look.spec().grace_period.count();
    const auto grace = std::min<std::int64_t>(
        spec_grace, api::integer(api::member(metadata, "deletionGracePeriodSeconds"), spec_grace));
    const auto since =
        api::parse_time(api::text(metadata["deletionTimestamp"])).value_or(parts_.scheduler.now());
    auto left = std::chrono::ceil<api::Scheduler::Duration>(since + std::chrono::seconds(grace) -
                                                            parts_.scheduler.now());
    if (const auto failed_at = look.runtime.save_failed_at) {
      left = std::chrono::ceil<api::Scheduler::Duration>(*failed_at + std::chrono::seconds(grace) -
                                                         parts_.scheduler.steady_now());
    }
    // A clock that was set back must not keep it for longer than it was given.
    stop_domain(look, std::min(left, api::Scheduler::Duration(std::chrono::seconds(grace))));
    return;
  }
  // Its end is on the way: the process is gone, or a start was ordered that nobody has seen yet.
  if (look.domain) return;
  const auto end = parts_.domains.end_of(look.runtime.uuid);
  const bool may_have_started =
      (look.phase() == Phase::scheduled || look.phase() == Phase::running) &&
      !look.runtime.start_abandoned;
  const bool known_absent =
      end || !may_have_started ||
      (parts_.domains.synced() && parts_.domains.generation() >= look.runtime.believe_from &&
       (!look.runtime.start_ordered || parts_.domains.generation() > look.runtime.believe_from));
  if (!known_absent) {
    if (!parts_.domains.synced()) {
      report_waiting(
          look, {"Synchronized", false, "HypervisorUnavailable", parts_.domains.why_not_synced()},
          true);
    }
    return;
  }
  // A set deletes a replica whose process is gone before libvirt has said how it ended.
  if (end && look.phase() == Phase::running && !look.runtime.asked_to_shut_down) {
    finish(look, *end);
    return;
  }
  clean_up(look);
}

// Nothing runs any more: what it had is given back.
void InstanceController::clean_up(Look& look) {
  Runtime& runtime = look.runtime;
  slots_.release(look.key);
  slots_.forget(look.key);
  puller_.forget(look.key);
  runtime.readiness.reset();
  runtime.liveness.reset();
  if (runtime.cleaned) return;
  // libvirt still has to let go of the files.
  if (look.domain) return;
  await_nothing(look.key, runtime);
  release_claims(look.key);
  runtime.job = true;
  parts_.jobs.submit(
      Lane::disk,
      [&images = parts_.images, uid = runtime.uid, save_as = save_key(look)] {
        if (save_as.empty()) {
          images.remove_disks(uid);
        } else {
          images.set_aside(uid, save_as);
        }
      },
      [this, key = look.key, uid = runtime.uid](Result<std::monostate>& result) {
        const auto it = runtimes_.find(key);
        if (it == runtimes_.end() || it->second.uid != uid) return;
        it->second.job = false;
        try {
          result.get();
        } catch (const std::exception& error) {
          spdlog::error("{}/{}: {}", key.ns, key.name, error.what());
          queue_.retry(key);
          return;
        }
        it->second.cleaned = true;
        release_addresses(key);
        queue_.add(key);
      });
}

void InstanceController::remove_finalizer(Look& look) {
  write(look, [](Json document) {
    api::remove_finalizer(document, api::instance_finalizer);
    return document;
  });
}

}  // namespace virtset
