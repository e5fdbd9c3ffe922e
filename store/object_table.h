// Objects by key. Nearly all look-ups are of one key, so that is a hash table; lists are given in
// the order of namespace and name, for which there is an index beside it. Loop thread only.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "store/object.h"

namespace virtset::store {

class ObjectTable {
 public:
  // Null if there is none.
  ObjectPtr find(const Key& key) const;
  // Takes the place of the object that has this key, if there is one. Returns that.
  ObjectPtr put(ObjectPtr object);
  ObjectPtr remove(const Key& key);

  // All objects of a kind, in `ns` only if given, ordered by namespace and name.
  std::vector<ObjectPtr> list(std::string_view group, std::string_view kind,
                              std::optional<std::string_view> ns) const;
  std::size_t size() const { return held_.size(); }

 private:
  // An object of the same key may take the place of the one that is there.
  struct Held {
    mutable ObjectPtr object;
    const Key& key() const { return object->key(); }
  };
  static const Key& key_of(const Held& held) { return held.key(); }
  static const Key& key_of(const Held* held) { return held->key(); }
  static const Key& key_of(const Key& key) { return key; }
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const auto& of) const { return KeyHash()(key_of(of)); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return key_of(a) == key_of(b); }
  };
  struct InOrder {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return key_of(a) < key_of(b); }
  };

  std::unordered_set<Held, Hash, Equal> held_;
  std::set<const Held*, InOrder> in_order_;
};

}  // namespace virtset::store
