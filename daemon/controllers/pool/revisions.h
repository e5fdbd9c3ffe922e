// The revisions of all pools: what their templates have been. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/object.h"

namespace virtset {

// KubeVirt leaves no trace of whose a revision was once its owner references are gone.
inline constexpr const char* pool_uid_label = "virtset.io/pool-uid";

// What a revision and the present template have in common.
struct Sameness {
  bool known = false;    // the revision is there
  bool machine = false;  // all of it
  bool guest = false;    // what guests are started from
  bool disks = false;    // dataVolumeTemplates
};

Sameness compare_templates(const nlohmann::json& before, const nlohmann::json& now);

struct PoolRevision {
  store::Key key;
  std::string uid;
  std::int64_t number = 0;
  std::shared_ptr<const nlohmann::json> spec;  // of the pool
};

class PoolRevisions {
 public:
  // Returns the uid of the pool whose it is, empty if it is none's.
  std::string update(const store::Object& revision);
  std::string remove(const store::Object& revision);

  // By number. Null if the pool has none.
  const std::map<std::int64_t, PoolRevision>* of(const std::string& pool) const;
  // Null if there is none of this name.
  const PoolRevision* find(const std::string& pool, const std::string& name) const;
  // Those that are needed no more: none uses them and they are not among the newest `keep`
  // different templates.
  std::vector<PoolRevision> superfluous(const std::string& pool, const std::set<std::string>& used,
                                        std::size_t keep) const;

 private:
  std::map<std::string, std::map<std::int64_t, PoolRevision>> pools_;  // by uid
};

}  // namespace virtset
