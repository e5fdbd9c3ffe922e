// Makes the disks of claims, fills them, enlarges and removes them. Loop thread only.
//
// A claim is Pending while its disk is being made, and status.provisioning and the condition
// Populated say how that goes; Bound when its disk is there; Lost when it is not there any more.
//
// What an earlier run of the daemon had begun is begun anew: Volumes finds what of it can be used,
// and a disk that is whole is not made again.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "daemon/claim_users.h"
#include "daemon/controller.h"
#include "daemon/event_recorder.h"
#include "daemon/jobs.h"
#include "daemon/work_queue.h"
#include "images/volumes.h"

namespace virtset {

class ClaimController final : public Controller {
 public:
  struct Options {
    // After a failure, doubled each time; persisted.
    std::chrono::seconds first_back_off{5};
    std::chrono::seconds longest_back_off{300};
    // Room is made by others, and nobody tells.
    std::chrono::seconds longest_back_off_when_full{30};
    // What was got whole and is no good is mended by hand, if at all.
    std::chrono::seconds longest_back_off_when_bad{3600};
    // Each is a write to the database.
    std::chrono::milliseconds progress_every{2'000};
    // Whether the volumes that were found are known to be of this installation.
    bool volumes_are_ours = true;
  };
  struct Parts {
    store::Store& store;
    api::Scheduler& scheduler;
    Jobs& jobs;
    images::Volumes& volumes;
    ClaimUsers& claims;
    EventRecorder& events;
  };

  // `found` is what there was when the daemon was started.
  ClaimController(Parts parts, Options options, std::map<std::string, bool> found);

  // Removes volumes whose claim is no more, if they are surely ours, and notes claims whose volume
  // is no more.
  void start() override;
  void observe(const store::Change& change) override;

 private:
  struct Runtime {
    std::string uid;
    bool job = false;
    int writing = 0;         // writes under way
    bool scheduled = false;  // in this run of the daemon
    bool removed = false;    // its files are
    bool whole = false;      // its disk is there, though the claim does not say so yet
    std::string last_trouble;
    store::Key awaited;  // the source of a copy; without a name: none
    // Set when it is deleted: a job that waits for its turn then does nothing.
    std::shared_ptr<std::atomic<bool>> abandoned = std::make_shared<std::atomic<bool>>(false);
  };
  struct Look {
    const store::Key& key;
    store::ObjectPtr object;
    std::shared_ptr<const store::Json> document;
    Runtime& runtime;
  };
  // Why a disk cannot be made now.
  struct Trouble {
    std::string reason;
    std::string message;
    store::Key awaited = {};  // whose change may end it; without a name: time
    bool disk_full = false;
    bool bad_image = false;
  };

  void remove_volume(const std::string& uid);
  void reconcile(const store::Key& key);
  Runtime& runtime_of(const store::Object& object);
  Runtime* find(const store::Key& key, const std::string& uid);
  void forget(const store::Object& object);
  void tear_down(Look& look);
  void remove_files(Look& look);
  void keep_bound(Look& look);
  void enlarge(Look& look);

  // fill.cpp: towards Bound.
  void fill(Look& look);
  bool may_try_again(Look& look);
  std::variant<images::VolumeContent, Trouble> content_of(const Look& look);
  std::variant<images::VolumeContent, Trouble> copy_of(const Look& look, const std::string& source);
  void begin(Look& look);
  void submit(Look& look, images::VolumeContent content);
  void take_whole(Look& look);
  void progressed(const store::Key& key, const std::string& uid, double done);
  void filled(const store::Key& key, const std::string& uid, const store::Json& size,
              Result<std::monostate>& result);
  void await(Look& look, const Trouble& trouble);
  void await_nothing(const store::Key& key, Runtime& runtime);
  void wake_copies_of(const store::Key& source);
  void failed(Look& look, const Trouble& trouble);

  using Change = std::function<void(store::Json& document)>;
  void write(const store::Key& key, const std::string& uid, Change change,
             std::function<void(const store::Object&)> written = nullptr);

  Parts parts_;
  const Options options_;
  std::map<std::string, bool> found_;
  WorkQueue queue_;
  store::KeyMap<Runtime> runtimes_;
  store::KeyMap<store::KeySet> copies_;  // that wait, by their source
  // Guards what jobs post against a controller that is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace virtset
