#include "store/object_table.h"

#include <utility>

namespace virtset::store {

ObjectPtr ObjectTable::find(const Key& key) const {
  const auto it = held_.find(key);
  return it == held_.end() ? nullptr : it->object;
}

ObjectPtr ObjectTable::put(ObjectPtr object) {
  const auto known = held_.find(object->key());
  if (known != held_.end()) return std::exchange(known->object, std::move(object));
  const auto [it, is_new] = held_.insert(Held{std::move(object)});
  in_order_.insert(&*it);
  return nullptr;
}

ObjectPtr ObjectTable::remove(const Key& key) {
  const auto it = held_.find(key);
  if (it == held_.end()) return nullptr;
  in_order_.erase(&*it);
  return std::move(held_.extract(it).value().object);
}

std::vector<ObjectPtr> ObjectTable::list(std::string_view group, std::string_view kind,
                                         std::optional<std::string_view> ns) const {
  std::vector<ObjectPtr> objects;
  const Key first{std::string(group), std::string(kind), std::string(ns.value_or("")), ""};
  for (auto it = in_order_.lower_bound(first); it != in_order_.end(); ++it) {
    const Key& key = (*it)->key();
    if (key.group != group || key.kind != kind || (ns && key.ns != *ns)) break;
    objects.push_back((*it)->object);
  }
  return objects;
}

}  // namespace virtset::store
