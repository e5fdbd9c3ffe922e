// What the pool controller has to know of all virtual machines and their guests, kept up to date
// change by change, so that a change costs the same in a pool of a thousand as in one of three.
// Loop thread only.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "api/kinds/times.h"
#include "store/object.h"

namespace virtset {

// What a virtual machine is made from, and what its guest was started from, as names of revisions.
struct PoolVersion {
  std::string machine;
  std::string guest;
  // Whether there is a guest that neither has ended nor is about to.
  bool has_guest = false;
  // It is off, and meant to be: nobody waits for it to become ready.
  bool dormant = false;
  // It is there for a roll-out only.
  bool surge = false;

  friend auto operator<=>(const PoolVersion&, const PoolVersion&) = default;
};

// A virtual machine.
struct PoolMember {
  store::Key key;
  std::string uid;
  std::string owner;    // uid of the managing owner, empty if there is none
  std::string created;  // RFC 3339, which sorts by time
  int index = 0;
  std::int64_t cost = 0;  // of losing it (Kubernetes: pod deletion cost)
  bool deleting = false;
  bool finalizer = false;  // ours
  bool ready = false;      // says the machine
  bool available = false;  // machine and guest are there, ready, and not about to end
  std::size_t label_hash = 0;
  PoolVersion version;
  std::string guest_uid;  // empty: there is none

  // For healing.
  std::int64_t start_failures = 0;
  bool failing = false;         // in a state from which it does not start
  bool keeps_disks = false;     // for a reason that other disks would not mend
  bool lacks_disk = false;      // lost, or somebody else's: nothing is to be done about it
  api::Time not_ready_since{};  // the epoch while it is ready
  api::Time ready_since{};      // the epoch while it is not
  api::Time io_error_since{};   // the epoch unless that has paused the guest
  // When the guest began to run, if it has not been ready since; else the epoch.
  api::Time never_ready_since{};
};

// The virtual machines of one pool.
struct PoolMembers {
  struct Group {
    std::set<store::Key> members;
    std::size_t available = 0;
  };
  std::map<store::Key, PoolMember> all;
  std::set<store::Key> deleting;
  std::set<store::Key> unavailable;       // and neither dormant nor being deleted
  std::set<store::Key> unchecked;         // whose labels have not been compared with the selector
  std::map<PoolVersion, Group> versions;  // of those that are not being deleted
  std::size_t ready = 0;
  std::size_t surge = 0;  // there for a roll-out only, those that are being deleted included
};

class PoolIndex {
 public:
  // Takes in a machine as it is now, with its guest or null. Returns the uids of the owners, before
  // and now, whose members changed.
  std::set<std::string> update(const store::Object& machine, const store::Object* guest);
  std::set<std::string> remove(const store::Key& machine);

  // Null if the pool has none.
  PoolMembers* members(const std::string& pool);

 private:
  std::optional<PoolMember> take_out(const store::Key& machine, bool& unchecked);

  store::KeyMap<std::string> owners_;           // of every machine that has one
  std::map<std::string, PoolMembers> members_;  // by uid of the owner
};

}  // namespace virtset
