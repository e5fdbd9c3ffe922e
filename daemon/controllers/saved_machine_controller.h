// Keeps what is left of virtual machines that were scaled in, until the next one of their name has
// it. Loop thread only.
//
// The files are found by looking: an instance sets its memory and disks aside when it goes, under
// the uid of its SavedVirtualMachine, and the instance that is given them takes them from there.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/controller.h"
#include "daemon/jobs.h"
#include "daemon/work_queue.h"
#include "images/images.h"

namespace virtset {

class SavedMachineController final : public Controller {
 public:
  // `found` is what there was when the daemon was started.
  SavedMachineController(store::Store& store, api::Scheduler& scheduler, Jobs& jobs,
                         images::Images& images, std::map<std::string, std::uint64_t> found);

  // Removes what belongs to no object any more.
  void start() override;
  void observe(const store::Change& change) override;

 private:
  void reconcile(const store::Key& key);
  void claim_goes(const store::Key& claim);
  bool has_lost_a_claim(const store::Object& saved) const;
  void look_at_files(const store::Key& key, const store::Object& object);
  void discard(const store::Key& key, const store::Object& object);
  void write(const store::Key& key, const std::string& uid,
             std::function<store::Store::Mutation(store::Json document)> change);

  store::Store& store_;
  api::Scheduler& scheduler_;
  Jobs& jobs_;
  images::Images& images_;
  std::map<std::string, std::uint64_t> found_;
  WorkQueue queue_;
  store::KeySet busy_;  // with a job or a write
};

}  // namespace virtset
