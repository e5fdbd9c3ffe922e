// Limits how many instances are on their way to a domain at a time, first come, first served.
// Starting more at once makes none of them faster, and what each holds on its way (its parsed
// specification, the description of its domain) would add up when ten thousand are created
// together. Loop thread only.
#pragma once

#include <cstddef>
#include <functional>
#include <list>

#include "store/object.h"

namespace virtset {

class Turns {
 public:
  // Called for one that waited, when it has its turn.
  using Wake = std::function<void(const store::Key& key)>;

  Turns(std::size_t most, Wake wake) : most_(most), wake_(std::move(wake)) {}

  // True if it has its turn, from now until give_back(); else it is woken when it has.
  bool take(const store::Key& key);
  // It has no use for its turn any more, if it has it.
  void give_back(const store::Key& key);
  // It neither has a turn nor waits for one.
  void forget(const store::Key& key);

  std::size_t taken() const { return holders_.size(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  const std::size_t most_;
  Wake wake_;
  store::KeySet holders_;
  std::list<store::Key> order_;  // those that wait
  store::KeyMap<std::list<store::Key>::iterator> waiting_;
};

}  // namespace virtset
