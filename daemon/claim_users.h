// Who uses which claim's disk. Found again after a crash by looking at the instances and claims, as
// addresses are. Loop thread only.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "store/object.h"

namespace virtset {

class ClaimUsers {
 public:
  enum class Use {
    write,  // alone
    read,   // beside others that read
    share,  // beside others that share: they see to it themselves that they do not harm each other
  };
  struct Wanted {
    store::Key claim;
    Use use = Use::write;

    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  struct Refusal {
    store::Key claim;
    store::Key holder;
  };
  // A claim has one user less.
  using Freed = std::function<void(const store::Key& claim)>;

  void on_freed(Freed freed) { listeners_.push_back(std::move(freed)); }

  // Lets `user`, which may be an instance or a claim that is a copy, have all of these and nothing
  // else; or none, if somebody has one of them in a way that does not go with that.
  std::optional<Refusal> take(const store::Key& user, const std::vector<Wanted>& wanted);
  // The same without asking: what was found at start.
  void restore(const store::Key& user, const std::vector<Wanted>& wanted);
  void release(const store::Key& user);
  // Gives all that one user has to another, which has nothing.
  void pass_on(const store::Key& from, const store::Key& to);

  // Somebody who uses it, or nothing.
  std::optional<store::Key> user_of(const store::Key& claim) const;
  std::size_t size() const { return by_user_.size(); }

 private:
  store::KeyMap<store::KeyMap<Use>> by_claim_;  // by user
  store::KeyMap<std::vector<Wanted>> by_user_;
  std::vector<Freed> listeners_;
};

}  // namespace virtset
