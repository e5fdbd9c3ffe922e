#include "daemon/controllers/pool/revisions.h"

#include <algorithm>

#include "api/kinds/json_access.h"

namespace virtset {

using Json = nlohmann::json;

namespace {

const Json& template_of(const PoolRevision& revision) {
  return api::member(*revision.spec, "virtualMachineTemplate");
}

std::string pool_of(const Json& document) {
  return api::text(api::member(document, "metadata", "labels", pool_uid_label));
}

}  // namespace

Sameness compare_templates(const Json& before, const Json& now) {
  Sameness sameness{.known = true};
  sameness.machine = before == now;
  sameness.guest = api::member(before, "spec", "template") == api::member(now, "spec", "template");
  sameness.disks = api::member(before, "spec", "dataVolumeTemplates") ==
                   api::member(now, "spec", "dataVolumeTemplates");
  return sameness;
}

std::string PoolRevisions::update(const store::Object& revision) {
  const auto document = revision.document();
  const std::string pool = pool_of(*document);
  if (pool.empty()) return pool;
  const auto number = api::integer(api::member(*document, "revision"), 0);
  PoolRevision& known = pools_[pool][number];
  if (known.uid == revision.uid()) return pool;
  known = {revision.key(), revision.uid(), number,
           std::make_shared<const Json>(api::member(*document, "data"))};
  return pool;
}

std::string PoolRevisions::remove(const store::Object& revision) {
  const auto document = revision.document();
  const std::string pool = pool_of(*document);
  const auto it = pools_.find(pool);
  if (it == pools_.end()) return pool;
  std::erase_if(it->second, [&](const auto& entry) { return entry.second.uid == revision.uid(); });
  if (it->second.empty()) pools_.erase(it);
  return pool;
}

const std::map<std::int64_t, PoolRevision>* PoolRevisions::of(const std::string& pool) const {
  const auto it = pools_.find(pool);
  return it == pools_.end() ? nullptr : &it->second;
}

const PoolRevision* PoolRevisions::find(const std::string& pool, const std::string& name) const {
  const auto* all = of(pool);
  if (!all) return nullptr;
  const auto it = std::find_if(all->begin(), all->end(),
                               [&](const auto& entry) { return entry.second.key.name == name; });
  return it == all->end() ? nullptr : &it->second;
}

std::vector<PoolRevision> PoolRevisions::superfluous(const std::string& pool,
                                                     const std::set<std::string>& used,
                                                     std::size_t keep) const {
  std::vector<PoolRevision> result;
  const auto* all = of(pool);
  if (!all || all->size() < 2) return result;
  std::vector<const Json*> templates;  // different ones, the newest first
  for (auto it = all->rbegin(); it != all->rend(); ++it) {
    const Json& its_template = template_of(it->second);
    const bool known = std::any_of(templates.begin(), templates.end(),
                                   [&](const Json* other) { return *other == its_template; });
    if (!known) templates.push_back(&its_template);
    const bool kept = !known && templates.size() <= keep;
    if (!kept && !used.contains(it->second.key.name)) result.push_back(it->second);
  }
  return result;
}

}  // namespace virtset
