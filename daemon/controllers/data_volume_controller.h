// Makes the claim of each DataVolume and tells how its filling goes, which is the claim's business
// (see ClaimController). Loop thread only.
#pragma once

#include <string>

#include "daemon/controller.h"
#include "daemon/event_recorder.h"
#include "daemon/work_queue.h"

namespace virtset {

class DataVolumeController final : public Controller {
 public:
  DataVolumeController(store::Store& store, api::Scheduler& scheduler, EventRecorder& events);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  // Whose claim the one of its name is.
  enum class Claim {
    absent,
    ours,
    adoptable,  // an earlier DataVolume of the name left it behind
    foreign,
    leaving,  // it is being deleted
  };

  void reconcile(const store::Key& key);
  Claim whose(const store::Json& data_volume, const store::Object* claim) const;
  void create_claim(const store::Key& key, const store::Object& data_volume);
  void adopt_claim(const store::Key& key, const store::Object& data_volume);
  void write_status(const store::Key& key, const store::Object& data_volume);
  store::Json status_for(const store::Json& data_volume, const store::Object* claim) const;
  void tell(const store::Object& data_volume, const store::Json& before,
            const store::Json& after) const;

  store::Store& store_;
  api::Scheduler& scheduler_;
  EventRecorder& events_;
  WorkQueue queue_;
};

}  // namespace virtset
