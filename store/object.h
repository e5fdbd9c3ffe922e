// What the store keeps: JSON documents under keys, each with the revision that wrote it.
//
// An Object is immutable once made, so any thread may hold one; document() alone belongs to the
// loop thread, because it fills a cache.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace virtset::store {

using Json = nlohmann::json;

// One counter for all objects, strictly increasing; it is the `resourceVersion` of the API.
using Revision = std::int64_t;

// Identifies an object. `group` is empty for Kubernetes' core group and `ns` for objects that are
// not namespaced.
struct Key {
  std::string group;
  std::string kind;
  std::string ns;
  std::string name;

  friend auto operator<=>(const Key&, const Key&) = default;
  friend bool operator==(const Key&, const Key&) = default;
};

// For what is looked up by key and needs no order.
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return std::hash<std::string>()(key.name) ^ (std::hash<std::string>()(key.ns) << 1) ^
           key.kind.size();
  }
};
template <typename Value>
using KeyMap = std::unordered_map<Key, Value, KeyHash>;
using KeySet = std::unordered_set<Key, KeyHash>;

// Keeps the most recently parsed documents alive, so that one that is read several times in a row
// is parsed once while a store of 10,000 objects still holds them as text. Loop thread only.
class RecentDocuments {
 public:
  explicit RecentDocuments(std::size_t capacity) : capacity_(capacity) {}
  void keep(std::shared_ptr<const Json> document) {
    kept_.push_back(std::move(document));
    if (kept_.size() > capacity_) kept_.pop_front();
  }

 private:
  std::size_t capacity_;
  std::deque<std::shared_ptr<const Json>> kept_;
};

class Object {
 public:
  // `text` is the compact JSON of the document, already stamped with its resourceVersion.
  Object(Key key, std::string uid, Revision revision, std::string text,
         std::shared_ptr<RecentDocuments> recent)
      : key_(std::move(key)),
        uid_(std::move(uid)),
        revision_(revision),
        text_(std::move(text)),
        recent_(std::move(recent)) {}

  const Key& key() const { return key_; }
  // `metadata.uid`, which tells an object from an earlier one of the same name.
  const std::string& uid() const { return uid_; }
  Revision revision() const { return revision_; }
  const std::string& text() const { return text_; }

  // The parsed document. Loop thread only.
  std::shared_ptr<const Json> document() const {
    if (auto parsed = parsed_.lock()) return parsed;
    auto parsed = std::make_shared<const Json>(Json::parse(text_));
    remember(parsed);
    return parsed;
  }

  // Gives document() what the writer already had in hand. Loop thread only.
  void remember(const std::shared_ptr<const Json>& parsed) const {
    parsed_ = parsed;
    recent_->keep(parsed);
  }

 private:
  Key key_;
  std::string uid_;
  Revision revision_;
  std::string text_;
  std::shared_ptr<RecentDocuments> recent_;
  mutable std::weak_ptr<const Json> parsed_;
};

using ObjectPtr = std::shared_ptr<const Object>;

// One committed change. `object` is what is now stored; for `deleted` it is the last state, stamped
// with the revision of the deletion. `previous` is what stood there before, or null.
struct Change {
  enum class Type { added, modified, deleted };
  Type type;
  ObjectPtr object;
  ObjectPtr previous;

  Revision revision() const { return object->revision(); }
};

}  // namespace virtset::store
