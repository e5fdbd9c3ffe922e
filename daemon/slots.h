// Who may have a running domain: the promise that a set never has more active domains than
// replicas, and admission against the memory of the host.
//
// Those that are refused wait in a line. Whoever is woken has its slot already, so a slot is
// neither lost nor given twice. First come, first served, but as with Kubernetes' scheduler one
// that does not fit lets those behind it pass that do. Not for ever: if it was overtaken often, and
// would fit were it not for that, the memory that is freed from then on is kept for it until it is
// enough. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "store/object.h"

namespace virtset {

class Slots {
 public:
  // Called for an instance that was refused when it should ask again; must not call back.
  using Wake = std::function<void(const store::Key& instance)>;

  // `memory` of the host for guests, in bytes; 0: as much as anybody asks for.
  Slots(std::uint64_t memory, Wake wake) : memory_(memory), wake_(std::move(wake)) {}

  struct Request {
    store::Key instance;
    std::string set;                    // uid of the owning set, empty if there is none
    std::optional<std::int64_t> limit;  // of the set
    std::uint64_t memory = 0;
  };
  struct Refusal {
    bool set_is_full = false;  // otherwise the host is
    std::string message;
  };

  // Gives an instance that has no domain yet a slot until release(), or says why it must wait. One
  // that has a slot keeps it, unless its set has become smaller.
  std::optional<Refusal> take(const Request& request);
  // Notes one that has its domain already: what was found at start.
  void restore(const Request& request);
  // It has no domain any more, nor will it get one.
  void release(const store::Key& instance);
  // It waits no more, nor comes for a slot that it was woken for.
  void forget(const store::Key& instance);

  bool holds(const store::Key& instance) const { return holders_.contains(instance); }
  std::size_t holders_of(const std::string& set) const;

  // The set has another limit now, or an instance another set.
  void limit_changed(const std::string& set);
  void owner_changed(const store::Key& instance, const std::string& set);

  std::uint64_t memory_in_use() const { return memory_in_use_; }

 private:
  static constexpr std::uint64_t nobody = UINT64_MAX;

  struct Holder {
    std::string set;
    std::uint64_t memory;
    bool knows = true;      // false: it has been woken and has not asked since
    unsigned overtook = 0;  // in which reign
  };
  struct Waiting {
    std::string set;
    std::uint64_t memory;
    std::uint64_t number;  // in the order in which they came
  };
  // Those that wait for the same: a place in a set and so much memory.
  struct Line {
    std::optional<std::int64_t> limit;  // of the set
    std::map<std::uint64_t, store::Key> instances;
  };

  std::optional<Refusal> refuse(const Request& request, std::uint64_t number) const;
  bool has_place(const std::string& set, std::optional<std::int64_t> limit) const;
  bool fits(std::uint64_t memory, std::uint64_t number) const;
  std::uint64_t free_for(std::uint64_t number) const;
  void grant(const Request& request, std::uint64_t number);
  void leave_line(const store::Key& instance);
  std::optional<Waiting> first_in_line(bool fitting) const;
  void first_is(std::uint64_t number);
  void serve(std::uint64_t freed);

  const std::uint64_t memory_;
  Wake wake_;
  store::KeyMap<Holder> holders_;
  std::map<std::string, std::size_t> held_;  // by set
  std::uint64_t memory_in_use_ = 0;

  std::map<std::pair<std::string, std::uint64_t>, Line> lines_;
  store::KeyMap<Waiting> waiting_;
  std::uint64_t next_number_ = 0;
  // The first of those that only memory keeps waiting.
  struct First {
    std::uint64_t number = nobody;
    unsigned reign = 1;            // counts who has been the first
    int overtaken = 0;             // how often, since it is the first
    std::uint64_t overtakers = 0;  // memory that these have now
    std::uint64_t kept = 0;        // free memory that nobody else may have
  };
  First first_;
};

}  // namespace virtset
