#include <algorithm>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "daemon/controllers/instance/controller.h"

namespace virtset {

using store::Json;

namespace {

// The reasons of the condition Synchronized that are about volumes.
bool is_about_volumes(const std::string& reason) {
  return reason == "FailedPvcNotFound" || reason == "PvcNotBound" || reason == "PvcInUse" ||
         reason == "FailedReferenceNotFound" || reason == "FailedReferenceKeyNotFound";
}

// What was kept knows of a volume behind an overlay only that it was there.
void attach_volumes(std::map<std::string, images::MadeDisk>& kept, const images::DiskPlan& plan) {
  for (const auto& planned : plan) {
    const auto* overlay = std::get_if<images::VolumeOverlay>(&planned);
    if (!overlay) continue;
    images::MadeDisk& disk = kept.at(overlay->name);
    disk.backing_file = overlay->file;
    disk.backing_format = "raw";
    disk.backing_is_private = true;
  }
}

void drop_trouble(Json& status) {
  const Json& condition = api::find_condition(status, "Synchronized");
  if (is_about_volumes(api::text(api::member(condition, "reason")))) {
    api::remove_condition(status, "Synchronized");
  }
}

// Whether what was kept is what the template asks for.
bool has_all(const std::map<std::string, images::MadeDisk>& made, const images::DiskPlan& plan) {
  return std::all_of(plan.begin(), plan.end(), [&](const auto& planned) {
    return made.contains(std::visit([](const auto& disk) { return disk.name; }, planned));
  });
}

}  // namespace

// Whether what its volumes refer to is there, and free for it. Before it takes a slot: it may have
// to wait for somebody who waits for one.
bool InstanceController::has_volumes(Look& look, const api::InstanceSpec& spec) {
  await_nothing(look.key, look.runtime);
  auto planned = planner_.plan(look.key, spec, look.runtime.images);
  if (const auto* obstacle = std::get_if<VolumeObstacle>(&planned)) {
    await_volumes(look, *obstacle);
    return false;
  }
  // They were held for it.
  if (!restore_key(look).empty()) {
    parts_.claims.release(
        {api::virtset_group, api::saved_machine_kind, look.key.ns, look.key.name});
  }
  const auto refusal = parts_.claims.take(look.key, std::get<VolumePlan>(planned).claims);
  if (refusal) {
    await_volumes(look, {{"Synchronized", false, "PvcInUse",
                          "PVC " + refusal->claim.ns + "/" + refusal->claim.name +
                              " is in use by " + refusal->holder.kind + " " + refusal->holder.ns +
                              "/" + refusal->holder.name + ", waiting for it to be free"},
                         {refusal->claim}});
    return false;
  }
  Json status = look.status();
  drop_trouble(status);
  if (status == look.status()) return true;
  write_status(look, std::move(status));
  return false;
}

void InstanceController::await_volumes(Look& look, const VolumeObstacle& obstacle) {
  Runtime& runtime = look.runtime;
  runtime.awaited = obstacle.awaited;
  for (const store::Key& referenced : obstacle.awaited) awaiting_[referenced].insert(look.key);
  // It may have been given one while it waited for that.
  slots_.release(look.key);
  slots_.forget(look.key);
  const api::Condition& condition = obstacle.condition;
  const std::string trouble = condition.reason + ": " + condition.message;
  if (obstacle.is_trouble && runtime.last_trouble != trouble) {
    record(look, EventType::warning, condition.reason, condition.message);
  }
  runtime.last_trouble = trouble;
  Json status = look.status();
  drop_trouble(status);
  api::set_condition(status, condition, parts_.scheduler.now());
  api::set_guest_not_running(status, parts_.scheduler.now());
  write_status(look, std::move(status));
}

void InstanceController::await_nothing(const store::Key& key, Runtime& runtime) {
  for (const store::Key& referenced : runtime.awaited) {
    const auto waiting = awaiting_.find(referenced);
    if (waiting == awaiting_.end()) continue;
    waiting->second.erase(key);
    if (waiting->second.empty()) awaiting_.erase(waiting);
  }
  runtime.awaited.clear();
}

void InstanceController::wake_those_that_await(const store::Key& referenced) {
  const auto waiting = awaiting_.find(referenced);
  if (waiting == awaiting_.end()) return;
  for (const store::Key& key : waiting->second) queue_.add(key);
}

// True if there is nothing to wait for.
bool InstanceController::make_disks(Look& look, const api::InstanceSpec& spec) {
  auto planned = planner_.plan(look.key, spec, look.runtime.images);
  if (const auto* obstacle = std::get_if<VolumeObstacle>(&planned)) {
    await_volumes(look, *obstacle);
    return false;
  }
  auto& plan = std::get<VolumePlan>(planned);
  const std::string restore = restore_key(look);
  if (plan.disks.empty() && restore.empty()) {
    look.runtime.disks = std::move(plan.attached);
    return true;
  }
  look.runtime.job = true;
  parts_.jobs.submit(
      Lane::disk,
      [&images = parts_.images, uid = look.runtime.uid, plan = std::move(plan), restore,
       abandoned = look.runtime.abandoned] {
        if (*abandoned) throw images::Cancelled("the object is being deleted");
        auto kept = restore.empty() ? std::nullopt : images.take_back(restore, uid);
        std::map<std::string, images::MadeDisk> disks;
        if (kept && has_all(*kept, plan.disks)) {
          disks = std::move(*kept);
          attach_volumes(disks, plan.disks);
        } else {
          disks = images.make_disks(uid, plan.disks);
        }
        disks.insert(plan.attached.begin(), plan.attached.end());
        return disks;
      },
      [this, key = look.key,
       uid = look.runtime.uid](Result<std::map<std::string, images::MadeDisk>>& result) {
        disks_made(key, uid, result);
      });
  return false;
}

void InstanceController::disks_made(const store::Key& key, const std::string& uid,
                                    Result<std::map<std::string, images::MadeDisk>>& result) {
  const auto it = runtimes_.find(key);
  if (it == runtimes_.end() || it->second.uid != uid) return;
  Runtime& runtime = it->second;
  runtime.job = false;
  runtime.images.clear();
  queue_.add(key);
  if (!result.error) {
    runtime.disks = std::move(*result.value);
    return;
  }
  const store::ObjectPtr object = parts_.store.get(key);
  if (!object) return;
  Look look{key, object, runtime, nullptr};
  try {
    std::rethrow_exception(result.error);
  } catch (const images::Cancelled&) {
  } catch (const images::NotPresent&) {
    // Collected between the look-up and the link: it is got again.
  } catch (const images::DiskFailed& error) {
    report_failure(look, error.disk_full() ? "DiskFull" : "FailedDisk", error.what());
  } catch (const std::exception& error) {
    report_failure(look, "FailedDisk", error.what());
  }
}

}  // namespace virtset
