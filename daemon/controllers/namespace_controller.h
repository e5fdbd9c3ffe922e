// Namespaces: one called default is always there, and a deleted one goes with all that is in it.
// Loop thread only.
#pragma once

#include <map>
#include <string>

#include "api/kinds/kind.h"
#include "daemon/controller.h"
#include "daemon/work_queue.h"

namespace virtset {

class NamespaceController final : public Controller {
 public:
  NamespaceController(store::Store& store, api::Scheduler& scheduler, const api::Kinds& kinds);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  void reconcile(const store::Key& key);
  bool delete_content(const store::Key& ns, const store::Store::Done& done);
  void delete_object(const store::Object& object, const store::Store::Done& done);

  store::Store& store_;
  api::Scheduler& scheduler_;
  const api::Kinds& kinds_;
  WorkQueue queue_;
  // And from when on what is in them is deleted.
  std::map<std::string, api::Scheduler::SteadyTime> terminating_;
};

}  // namespace virtset
