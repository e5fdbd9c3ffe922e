// Deletes what has lost its owners, and finishes foreground and orphaning deletions (Kubernetes:
// garbage collector). Works for objects of every kind. Loop thread only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

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

  // What an owner means for its dependent (Kubernetes: solid, waiting and dangling references).
  enum class Hold {
    keeps,
    orphans,  // is being deleted and leaves its dependents behind
    waits,    // is being deleted when its dependents are gone
    gone,
  };
  const api::Kind* kind_of(const store::Json& reference) const;
  store::ObjectPtr owner_of(const store::Object& dependent, const store::Json& reference) const;
  std::vector<store::ObjectPtr> owners_of(const store::Object& dependent) const;
  std::set<std::string> ancestors_of(const store::Object& object) const;
  Hold hold_of(const store::Object& dependent, const store::Json& reference) const;

  void reconcile(const store::Key& key);
  store::Store::Mutation next_step(const store::Object& object) const;
  store::Store::Mutation finish_deletion(const store::Object& owner) const;
  bool is_blocked(const store::Object& owner) const;

  store::Store& store_;
  api::Scheduler& scheduler_;
  const api::Kinds& kinds_;
  WorkQueue queue_;
  std::map<std::string, std::set<store::Key>> dependents_;  // by uid of the owner
  store::KeyMap<std::set<std::string>> owners_;             // uids, by dependent
};

}  // namespace virtset
