// Namespaces: one called default is always there, and a deleted one goes with all that is in it.
// Loop thread only.
#pragma once

#include <set>
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
  std::set<std::string> terminating_;
};

}  // namespace virtset
