#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "api/kinds/conditions.h"
#include "api/kinds/datavolume/rules.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "daemon/back_off.h"
#include "daemon/controllers/claim/controller.h"

namespace virtset {

using images::VolumeContent;
using store::Json;

namespace {

constexpr const char* component = "virtset";

Lane lane_of(const VolumeContent& content) {
  if (std::holds_alternative<images::Blank>(content)) return Lane::disk;
  return std::holds_alternative<images::FromVolume>(content) ? Lane::copy : Lane::import;
}

const Json& provisioning_of(const Json& claim) {
  return api::member(claim, "status", "provisioning");
}

std::string stage_of(const Json& claim) {
  return api::text(api::member(provisioning_of(claim), "stage"));
}

}  // namespace

// Its disk is not there yet, as far as is known.
void ClaimController::fill(Look& look) {
  if (look.runtime.whole) {
    take_whole(look);
    return;
  }
  if (!may_try_again(look)) return;
  auto content = content_of(look);
  if (const auto* trouble = std::get_if<Trouble>(&content)) {
    await(look, *trouble);
    return;
  }
  await_nothing(look.key, look.runtime);
  auto& source = std::get<VolumeContent>(content);
  // What takes long says so first. A blank disk takes no longer than saying so.
  if (!std::holds_alternative<images::Blank>(source) &&
      !std::exchange(look.runtime.scheduled, true) && stage_of(*look.document) != "Scheduled") {
    begin(look);
    return;
  }
  submit(look, std::move(source));
}

bool ClaimController::may_try_again(Look& look) {
  const auto left = wait_left(
      api::member(provisioning_of(*look.document), "retryAfterTimestamp"), parts_.scheduler.now(),
      std::max(options_.longest_back_off, options_.longest_back_off_when_bad));
  if (left) queue_.add_after(look.key, *left);
  return !left;
}

std::variant<VolumeContent, ClaimController::Trouble> ClaimController::content_of(
    const Look& look) {
  const Json& claim = *look.document;
  if (const std::string source = api::annotation(claim, api::clone_annotation); !source.empty()) {
    return copy_of(look, source);
  }
  const std::string source = api::annotation(claim, api::source_annotation);
  const std::string endpoint = api::annotation(claim, api::endpoint_annotation);
  if (source.empty() || source == "none") return images::Blank{};
  if (source == "http") {
    return images::FromUrl{endpoint, api::annotation(claim, api::checksum_annotation)};
  }
  if (source == "registry") {
    const std::string image = api::image_of_url(endpoint);
    return images::FromImage{image, images::default_pull_policy(image)};
  }
  return Trouble{"UnknownSource", std::string("the annotation ") + api::source_annotation +
                                      " must be http, registry or none"};
}

// Never of a disk that somebody writes to: it would be torn.
std::variant<VolumeContent, ClaimController::Trouble> ClaimController::copy_of(
    const Look& look, const std::string& source) {
  const auto slash = source.find('/');
  const bool has_namespace = slash != std::string::npos;
  const store::Key key{api::core_group, api::claim_kind,
                       has_namespace ? source.substr(0, slash) : look.key.ns,
                       has_namespace ? source.substr(slash + 1) : source};
  const std::string name = "PVC " + key.ns + "/" + key.name;
  const auto claim = parts_.store.get(key);
  if (!claim) return Trouble{"CloneSourceNotFound", name + " does not exist", key};
  const auto document = claim->document();
  if (api::is_deleting(*document)) {
    return Trouble{"CloneSourceNotFound", name + " is being deleted", key};
  }
  if (api::text(api::member(*document, "status", "phase")) != "Bound") {
    return Trouble{"CloneSourceNotReady", name + " is not bound yet", key};
  }
  if (api::bytes_of_claim(*document) > api::claimed_bytes(api::member(*look.document, "spec"))) {
    return Trouble{"CloneTargetTooSmall",
                   name + " has " +
                       api::text(api::member(*document, "status", "capacity", "storage")) +
                       ", which is more than this claim asks for",
                   key};
  }
  const auto refusal = parts_.claims.take(look.key, {{key, ClaimUsers::Use::read}});
  if (refusal) {
    const store::Key& holder = refusal->holder;
    return Trouble{"CloneSourceInUse",
                   name + " is in use by " + holder.kind + " " + holder.ns + "/" + holder.name,
                   key};
  }
  return images::FromVolume{claim->uid()};
}

void ClaimController::begin(Look& look) {
  write(look.key, look.runtime.uid, [](Json& document) {
    const bool again = stage_of(document) == "InProgress" || stage_of(document) == "Failed";
    Json& provisioning = document["status"]["provisioning"];
    provisioning["stage"] = "Scheduled";
    provisioning.erase("progress");
    if (!again) return;
    provisioning["restartCount"] = api::integer(api::member(provisioning, "restartCount"), 0) + 1;
  });
}

void ClaimController::submit(Look& look, VolumeContent content) {
  Runtime& runtime = look.runtime;
  const Json& spec = api::member(*look.document, "spec");
  const Lane lane = lane_of(content);
  // On the job's thread: what is worth a message to the loop.
  auto tell = [this, key = look.key, uid = runtime.uid, alive = alive_,
               abandoned = runtime.abandoned, every = options_.progress_every,
               last = std::chrono::steady_clock::time_point()](double done) mutable {
    // Volumes did not know of it yet when it was cancelled.
    if (*abandoned) throw images::Cancelled("the object is being deleted");
    const auto now = std::chrono::steady_clock::now();
    if (now - last < every) return;
    last = now;
    parts_.scheduler.post([this, key, uid, done, alive = std::weak_ptr<bool>(alive)] {
      if (!alive.expired()) progressed(key, uid, done);
    });
  };
  runtime.job = true;
  parts_.jobs.submit(
      lane,
      [&volumes = parts_.volumes, uid = runtime.uid, bytes = api::claimed_bytes(spec),
       content = std::move(content), abandoned = runtime.abandoned, tell]() mutable {
        if (*abandoned) throw images::Cancelled("the object is being deleted");
        volumes.make(uid, bytes, content, std::ref(tell));
      },
      [this, key = look.key, uid = runtime.uid,
       size = api::member(spec, "resources", "requests", "storage")](
          Result<std::monostate>& result) { filled(key, uid, size, result); });
}

// It was made and the daemon ended before the claim said so. What it was made of may be gone.
void ClaimController::take_whole(Look& look) {
  await_nothing(look.key, look.runtime);
  const Json& spec = api::member(*look.document, "spec");
  look.runtime.job = true;
  parts_.jobs.submit(
      Lane::disk,
      [&volumes = parts_.volumes, uid = look.runtime.uid, bytes = api::claimed_bytes(spec)] {
        volumes.grow(uid, bytes);  // the claim may have been enlarged since
      },
      [this, key = look.key, uid = look.runtime.uid,
       size = api::member(spec, "resources", "requests", "storage")](
          Result<std::monostate>& result) { filled(key, uid, size, result); });
}

void ClaimController::progressed(const store::Key& key, const std::string& uid, double done) {
  Runtime* runtime = find(key, uid);
  if (!runtime || !runtime->job || !runtime->scheduled || runtime->writing) return;
  write(key, uid, [done](Json& document) {
    if (api::text(api::member(document, "status", "phase")) != "Pending") return;
    Json& provisioning = document["status"]["provisioning"];
    provisioning["stage"] = "InProgress";
    provisioning["progress"] = fmt::format("{:.2f}%", done * 100);
    api::remove_condition(document["status"], "Populated");
  });
}

void ClaimController::filled(const store::Key& key, const std::string& uid, const Json& size,
                             Result<std::monostate>& result) {
  Runtime* runtime = find(key, uid);
  if (!runtime) return;
  runtime->job = false;
  runtime->scheduled = false;
  parts_.claims.release(key);
  queue_.add(key);
  const auto object = parts_.store.get(key);
  if (!object || *runtime->abandoned) return;
  Look look{key, object, object->document(), *runtime};
  runtime->whole = !result.error;
  try {
    result.get();
    write(
        key, uid,
        [size, uid](Json& document) {
          document["spec"]["volumeName"] = "pvc-" + uid;
          Json& status = document["status"];
          status["phase"] = "Bound";
          status["capacity"]["storage"] = size;
          status["accessModes"] = document["spec"]["accessModes"];
          status.erase("provisioning");
          api::remove_condition(status, "Populated");
        },
        [this, uid](const store::Object& claim) {
          parts_.events.record(claim, EventType::normal, component, "ProvisioningSucceeded",
                               "Successfully provisioned volume pvc-" + uid);
        });
  } catch (const images::Cancelled&) {
  } catch (const images::DiskFailed& error) {
    failed(look,
           {error.disk_full() ? "NoSpaceLeft" : "FailedDisk", error.what(), {}, error.disk_full()});
  } catch (const images::BadImage& error) {
    failed(look, {.reason = "InvalidImage", .message = error.what(), .bad_image = true});
  } catch (const std::exception& error) {
    failed(look, {"ImportFailed", error.what()});
  }
}

// Something else has to happen first; its change leads back here.
void ClaimController::await(Look& look, const Trouble& trouble) {
  Runtime& runtime = look.runtime;
  await_nothing(look.key, runtime);
  runtime.scheduled = false;
  if (!trouble.awaited.name.empty()) {
    runtime.awaited = trouble.awaited;
    copies_[trouble.awaited].insert(look.key);
  }
  if (std::exchange(runtime.last_trouble, trouble.message) != trouble.message) {
    parts_.events.record(*look.object, EventType::warning, component, trouble.reason,
                         trouble.message);
  }
  write(look.key, runtime.uid, [trouble, now = parts_.scheduler.now()](Json& document) {
    document["status"]["provisioning"]["stage"] = "Waiting";
    api::set_condition(document["status"], {"Populated", false, trouble.reason, trouble.message},
                       now);
  });
}

void ClaimController::await_nothing(const store::Key& key, Runtime& runtime) {
  if (runtime.awaited.name.empty()) return;
  const auto waiting = copies_.find(runtime.awaited);
  if (waiting != copies_.end()) {
    waiting->second.erase(key);
    if (waiting->second.empty()) copies_.erase(waiting);
  }
  runtime.awaited = {};
}

void ClaimController::wake_copies_of(const store::Key& source) {
  const auto waiting = copies_.find(source);
  if (waiting == copies_.end()) return;
  for (const store::Key& key : waiting->second) queue_.add(key);
}

// It is tried again after a back-off that a restart does not reset.
void ClaimController::failed(Look& look, const Trouble& trouble) {
  const auto now = parts_.scheduler.now();
  const int failures =
      static_cast<int>(
          api::integer(api::member(provisioning_of(*look.document), "consecutiveFailCount"), 0)) +
      1;
  const auto longest = trouble.disk_full   ? options_.longest_back_off_when_full
                       : trouble.bad_image ? options_.longest_back_off_when_bad
                                           : options_.longest_back_off;
  const auto delay = back_off(failures, options_.first_back_off, longest);
  parts_.events.record(*look.object, EventType::warning, component, trouble.reason,
                       trouble.message);
  write(look.key, look.runtime.uid, [=](Json& document) {
    Json& provisioning = document["status"]["provisioning"];
    provisioning["stage"] = "Failed";
    provisioning["consecutiveFailCount"] = failures;
    provisioning["retryAfterTimestamp"] = api::format_time(now + delay);
    api::set_condition(document["status"], {"Populated", false, trouble.reason, trouble.message},
                       now);
  });
}

}  // namespace virtset
