// Deletes what has lost its owners, and finishes foreground and orphaning deletions (Kubernetes:
// garbage collector). Works for objects of every kind. Loop thread only.
#pragma once

#include <map>
#include <set>
#include <string>

#include "api/kinds/kind.h"
#include "daemon/controller.h"
#include "daemon/work_queue.h"

namespace virtset {

class GarbageCollector final : public Controller {
 public:
  GarbageCollector(store::Store& store, api::Scheduler& scheduler, const api::Kinds& kinds);

  void start() override;
  void observe(const store::Change& change) override;

 private:
  // Whether the owners are others than before.
  bool take_in(const store::Object& object);
  void take_out(const store::Key& key);
  void look_at_owners(const store::Object& dependent);
  void look_at_dependents(const std::string& uid);

  void reconcile(const store::Key& key);
  void collect_if_unowned(const store::Object& object);
  void orphan_dependents(const store::Object& owner);
  void wait_for_dependents(const store::Object& owner);
  store::ObjectPtr owner_of(const store::Object& dependent, const store::Json& reference) const;
  void write(const store::Key& key, const std::string& uid,
             std::function<store::Store::Mutation(store::Json document)> change);

  store::Store& store_;
  api::Scheduler& scheduler_;
  const api::Kinds& kinds_;
  WorkQueue queue_;
  std::map<std::string, std::set<store::Key>> dependents_;  // by uid of the owner
  store::KeyMap<std::set<std::string>> owners_;             // uids, by dependent
};

}  // namespace virtset
