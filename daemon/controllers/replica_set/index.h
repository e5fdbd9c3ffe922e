// What replica set controllers have to know of all instances, kept up to date change by change, so
// that a set of 10,000 costs no more per change than a set of three. Loop thread only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "api/kinds/label_selector.h"
#include "api/kinds/times.h"
#include "store/object.h"

namespace virtset {

struct Replica {
  store::Key key;
  std::string uid;
  // KubeVirt: an active one is neither final nor being deleted nor has its launcher gone; a
  // finished one is final, or has its launcher gone, and is not being deleted.
  enum class State { active, finished, deleting };
  State state = State::active;
  bool ready = false;
  std::string created;        // RFC 3339, which sorts by time
  api::Time running_since{};  // the epoch if it never ran
  std::size_t label_hash = 0;
  std::string owner;  // uid of the managing owner, empty if there is none
};

// The replicas of one set.
struct Members {
  std::map<store::Key, Replica> all;
  std::set<store::Key> finished;
  std::set<store::Key> unchecked;  // whose labels have not been compared with the selector
  std::size_t active = 0;
  std::size_t ready = 0;  // of the active ones
};

class ReplicaIndex {
 public:
  // Takes in an instance as it is now, or was before it was deleted. Returns the uids of the
  // owners, before and now, whose members changed.
  std::set<std::string> update(const store::Object& instance);
  std::set<std::string> remove(const store::Object& instance);

  // Null if the set has none.
  Members* members(const std::string& set);
  void forget(const std::string& set) { members_.erase(set); }
  // Instances of a namespace that nobody manages.
  const std::map<store::Key, Replica>& orphans(const std::string& ns) const;

 private:
  // What is known of the instance, after it was taken out; nothing if it is new.
  struct Known {
    Replica replica;
    bool unchecked;
  };
  std::optional<Known> take_out(const store::Key& instance);

  store::KeyMap<std::string> owners_;                             // of every instance
  std::map<std::string, Members> members_;                        // by uid of the set
  std::map<std::string, std::map<store::Key, Replica>> orphans_;  // by namespace
};

}  // namespace virtset
