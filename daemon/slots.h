// Who may have a running domain: the promise that a set never has more active domains than replicas,
// and admission against the memory of the host. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "store/object.h"

namespace virtset {

class Slots {
 public:
  // Called for an instance that was refused when it should ask again.
  using Wake = std::function<void(const store::Key& instance)>;

  // `memory` of the host for guests, in bytes; 0: as much as anybody asks for.
  Slots(std::uint64_t memory, Wake wake) : memory_(memory), wake_(std::move(wake)) {}

  struct Request {
    store::Key instance;
    std::string set;                   // uid of the owning set, empty if there is none
    std::optional<std::int64_t> limit;  // of the set
    std::uint64_t memory = 0;
  };
  struct Refusal {
    bool set_is_full = false;  // otherwise the host is
    std::string message;
  };

  // Gives an instance that has no domain yet a slot until release(), or says why it must wait. One that
  // has a slot keeps it, unless its set has become smaller.
  std::optional<Refusal> take(const Request& request);
  // Notes one that has its domain already: what was found at start.
  void restore(const Request& request);
  // It has no domain any more, nor will it get one.
  void release(const store::Key& instance);
  // It waits no more.
  void forget(const store::Key& instance);

  bool holds(const store::Key& instance) const { return holders_.contains(instance); }
  std::size_t holders_of(const std::string& set) const;

  // The set has another limit now, or an instance another set.
  void limit_changed(const std::string& set);
  void owner_changed(const store::Key& instance, const std::string& set);

  std::uint64_t memory_in_use() const { return memory_in_use_; }

 private:
  struct Holder {
    std::string set;
    std::uint64_t memory;
  };
  void wake_one(std::set<store::Key>& waiting, const std::string& set);
  void wake_one_of(const std::string& set);

  const std::uint64_t memory_;
  Wake wake_;
  store::KeyMap<Holder> holders_;
  std::map<std::string, std::size_t> held_;                 // by set
  std::map<std::string, std::set<store::Key>> waiting_set_;  // for their set
  std::set<store::Key> waiting_host_;                        // for memory
  // Woken and not heard of since, with what they waited for. One that does not come must not take the
  // chance of the next.
  store::KeyMap<std::string> woken_;
  std::uint64_t memory_in_use_ = 0;
};

}  // namespace virtset
