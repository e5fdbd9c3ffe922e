#include "daemon/controllers/claim/controller.h"

#include <spdlog/spdlog.h>

#include <cctype>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;

namespace {

constexpr const char* component = "virtset";

bool is_claim(const store::Key& key) {
  return key.kind == api::claim_kind && key.group == api::core_group;
}

// Anything else in the directory of the volumes is somebody else's.
bool is_uid(const std::string& name) {
  if (name.size() != 36) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? name[i] != '-' : !std::isxdigit(static_cast<unsigned char>(name[i]))) return false;
  }
  return true;
}

std::string phase_of(const Json& claim) { return api::text(api::member(claim, "status", "phase")); }

}  // namespace

ClaimController::ClaimController(Parts parts, Options options, std::map<std::string, bool> found)
    : parts_(parts),
      options_(options),
      found_(std::move(found)),
      queue_(parts.scheduler, [this](const store::Key& key) { reconcile(key); }) {
  parts_.claims.on_freed([this](const store::Key& claim) {
    queue_.add(claim);
    wake_copies_of(claim);
  });
}

void ClaimController::start() {
  std::map<std::string, bool> strays = std::move(found_);
  const auto claims = parts_.store.list(api::core_group, api::claim_kind);
  for (const auto& claim : claims) {
    queue_.add(claim->key());
    const auto volume = strays.find(claim->uid());
    const bool whole = volume != strays.end() && volume->second;
    if (volume != strays.end()) strays.erase(volume);
    const std::string phase = phase_of(*claim->document());
    runtime_of(*claim).whole = whole;
    const char* now = whole ? "Bound" : "Lost";
    // Kubernetes has the same phase for it. A data directory that was not mounted may be, next
    // time.
    if ((phase != "Bound" && phase != "Lost") || phase == now) continue;
    spdlog::warn("{}/{}: its disk is {}", claim->key().ns, claim->key().name,
                 whole ? "there again" : "not there any more");
    write(claim->key(), claim->uid(), [now](Json& document) { document["status"]["phase"] = now; });
  }
  std::erase_if(strays, [](const auto& volume) { return !is_uid(volume.first); });
  if (strays.empty()) return;
  // A database that was made anew knows of no claim at all.
  if (options_.volumes_are_ours && !claims.empty()) {
    for (const auto& [uid, whole] : strays) remove_volume(uid);
    return;
  }
  spdlog::error(
      "{} volumes are kept that have no claim, e.g. {}, because {}; if nobody needs them, remove "
      "their directories",
      strays.size(), strays.begin()->first,
      options_.volumes_are_ours ? "there is no claim at all, as in a database that was made anew"
                                : "they may be of another installation");
}

void ClaimController::remove_volume(const std::string& uid) {
  parts_.jobs.clear_away("the disk of claim " + uid + ", which is no more",
                         [&volumes = parts_.volumes, uid] { volumes.remove(uid); });
}

ClaimController::Runtime& ClaimController::runtime_of(const store::Object& object) {
  Runtime& runtime = runtimes_[object.key()];
  if (runtime.uid == object.uid()) return runtime;
  await_nothing(object.key(), runtime);
  runtime = Runtime{};
  runtime.uid = object.uid();
  return runtime;
}

ClaimController::Runtime* ClaimController::find(const store::Key& key, const std::string& uid) {
  const auto it = runtimes_.find(key);
  return it == runtimes_.end() || it->second.uid != uid ? nullptr : &it->second;
}

void ClaimController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (!is_claim(key)) return;
  wake_copies_of(key);
  if (change.type == store::Change::Type::deleted) {
    forget(*change.object);
    return;
  }
  Runtime& runtime = runtime_of(*change.object);
  if (api::is_deleting(*change.object->document())) *runtime.abandoned = true;
  queue_.add(key);
}

// It went, as a rule after its files; but a user may have taken its finalizer away.
void ClaimController::forget(const store::Object& object) {
  const auto it = runtimes_.find(object.key());
  const bool removed = it != runtimes_.end() && it->second.removed;
  if (it != runtimes_.end()) {
    *it->second.abandoned = true;
    await_nothing(object.key(), it->second);
    runtimes_.erase(it);
  }
  parts_.claims.release(object.key());
  queue_.forget(object.key());
  if (removed) return;
  parts_.volumes.cancel(object.uid());
  remove_volume(object.uid());
}

void ClaimController::reconcile(const store::Key& key) {
  const store::ObjectPtr object = parts_.store.get(key);
  if (!object) return;
  Runtime& runtime = runtime_of(*object);
  Look look{key, object, object->document(), runtime};
  if (api::is_deleting(*look.document)) {
    tear_down(look);
    return;
  }
  if (runtime.job || runtime.writing) return;
  if (!api::has_finalizer(*look.document, api::claim_finalizer)) {  // as Kubernetes does
    write(key, runtime.uid, [](Json& document) {
      document["metadata"]["finalizers"].push_back(api::claim_finalizer);
    });
    return;
  }
  const std::string phase = phase_of(*look.document);
  if (phase == "Bound") {
    keep_bound(look);
  } else if (phase != "Lost") {
    fill(look);
  }
}

// Kubernetes: a claim that is used stays until it is not; then its disk goes, then the object.
void ClaimController::tear_down(Look& look) {
  Runtime& runtime = look.runtime;
  await_nothing(look.key, runtime);
  if (!api::has_finalizer(*look.document, api::claim_finalizer)) return;
  if (runtime.job) parts_.volumes.cancel(runtime.uid);
  if (runtime.job || runtime.writing) return;
  parts_.claims.release(look.key);
  if (const auto user = parts_.claims.user_of(look.key)) {
    const std::string trouble = "used by " + user->kind + " " + user->ns + "/" + user->name;
    if (std::exchange(runtime.last_trouble, trouble) != trouble) {
      parts_.events.record(*look.object, EventType::normal, component, "InUse",
                           "It is deleted when it is not " + trouble + " any more");
    }
    return;
  }
  if (!runtime.removed) {
    remove_files(look);
    return;
  }
  write(look.key, runtime.uid,
        [](Json& document) { api::remove_finalizer(document, api::claim_finalizer); });
}

void ClaimController::remove_files(Look& look) {
  look.runtime.job = true;
  parts_.jobs.submit(
      Lane::disk, [&volumes = parts_.volumes, uid = look.runtime.uid] { volumes.remove(uid); },
      [this, key = look.key, uid = look.runtime.uid](Result<std::monostate>& result) {
        Runtime* runtime = find(key, uid);
        if (!runtime) return;
        runtime->job = false;
        try {
          result.get();
          runtime->removed = true;
          queue_.add(key);
        } catch (const std::exception& error) {
          spdlog::error("{}/{}: {}", key.ns, key.name, error.what());
          queue_.retry(key);
        }
      });
}

void ClaimController::keep_bound(Look& look) {
  await_nothing(look.key, look.runtime);
  const Json& claim = *look.document;
  if (api::claimed_bytes(api::member(claim, "spec")) > api::bytes_of_claim(claim)) {
    enlarge(look);
  } else if (api::find_condition(api::member(claim, "status"), "FileSystemResizePending")
                 .is_object()) {
    write(look.key, look.runtime.uid, [](Json& document) {
      api::remove_condition(document["status"], "FileSystemResizePending");
    });
  }
}

// QEMU would not see it; and while it runs the file may be its user's.
void ClaimController::enlarge(Look& look) {
  Runtime& runtime = look.runtime;
  const auto now = parts_.scheduler.now();
  if (const auto user = parts_.claims.user_of(look.key)) {
    const std::string message =
        "Waiting for " + user->kind + " " + user->ns + "/" + user->name + " to end";
    write(look.key, runtime.uid, [message, now](Json& document) {
      // Kubernetes: True while it is awaited.
      api::set_condition(document["status"], {"FileSystemResizePending", true, "InUse", message},
                         now);
    });
    return;
  }
  const Json size = api::member(*look.document, "spec", "resources", "requests", "storage");
  const std::uint64_t bytes = api::claimed_bytes(api::member(*look.document, "spec"));
  runtime.job = true;
  parts_.jobs.submit(
      Lane::disk,
      [&volumes = parts_.volumes, uid = runtime.uid, bytes] { volumes.grow(uid, bytes); },
      [this, key = look.key, uid = runtime.uid, size](Result<std::monostate>& result) {
        Runtime* claim = find(key, uid);
        if (!claim) return;
        claim->job = false;
        try {
          result.get();
          write(
              key, uid,
              [size](Json& document) {
                document["status"]["capacity"]["storage"] = size;
                api::remove_condition(document["status"], "FileSystemResizePending");
              },
              [this](const store::Object& object) {
                parts_.events.record(object, EventType::normal, component,
                                     "FileSystemResizeSuccessful", "The disk is larger now");
              });
        } catch (const std::exception& error) {
          const auto object = parts_.store.get(key);
          if (object) {
            parts_.events.record(*object, EventType::warning, component, "VolumeResizeFailed",
                                 error.what());
          }
          queue_.retry(key);
        }
      });
}

// Changes the stored claim, unless it is another one of its name by now.
void ClaimController::write(const store::Key& key, const std::string& uid, Change change,
                            std::function<void(const store::Object&)> written) {
  Runtime* const runtime = find(key, uid);
  const bool counted = runtime != nullptr;
  try {
    parts_.store.write(
        key,
        [uid, change = std::move(change)](const store::Object* current) {
          if (!current || current->uid() != uid) return Store::Mutation::nothing();
          Json document = *current->document();
          change(document);
          if (document == *current->document()) return Store::Mutation::nothing();
          return api::put_or_finish(std::move(document));
        },
        [this, key, uid, counted, written = std::move(written)](const Store::Outcome& outcome) {
          if (Runtime* known = find(key, uid); known && counted) --known->writing;
          if (outcome.error) {
            queue_.retry(key);
            return;
          }
          queue_.forget(key);
          if (outcome.changed) queue_.add(key);
          if (outcome.changed && outcome.object && written) written(*outcome.object);
        });
    if (runtime) ++runtime->writing;
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

}  // namespace virtset
