// What the disks of an instance are made of: resolves what its volumes refer to. Decides nothing
// and keeps nothing. Loop thread only.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "api/kinds/conditions.h"
#include "api/kinds/virtualmachineinstance/spec.h"
#include "daemon/claim_users.h"
#include "images/images.h"
#include "images/volumes.h"
#include "store/store.h"

namespace virtset {

struct VolumePlan {
  images::DiskPlan disks;                            // to be made
  std::map<std::string, images::MadeDisk> attached;  // of claims, by disk
  std::vector<ClaimUsers::Wanted> claims;
};

// Why there is no plan yet.
struct VolumeObstacle {
  api::Condition condition;
  std::vector<store::Key> awaited;  // a change of any of these may end it
  bool is_trouble = true;           // false: it goes on by itself
};

class VolumePlanner {
 public:
  VolumePlanner(const store::Store& store, const images::Volumes& volumes)
      : store_(store), volumes_(volumes) {}

  // For an instance of this key. Container disks that are not among `images`, by disk, are left
  // out. What is in Secrets goes into the plan and nowhere else.
  std::variant<VolumePlan, VolumeObstacle> plan(
      const store::Key& instance, const api::InstanceSpec& spec,
      const std::map<std::string, images::ContainerDisk>& images) const;

  // The claims alone, for one that has its domain already.
  std::vector<ClaimUsers::Wanted> claims(const store::Key& instance,
                                         const api::InstanceSpec& spec) const;
  // Those of the names in the record of a saved machine that are there.
  std::vector<ClaimUsers::Wanted> claims_of_saved(const store::Object& saved) const;

 private:
  struct Look;
  void add(Look& look, const api::DiskSpec& disk, const api::ContainerDiskSource& source) const;
  void add(Look& look, const api::DiskSpec& disk, const api::EmptyDiskSource& source) const;
  void add(Look& look, const api::DiskSpec& disk, const api::CloudInitSource& source) const;
  void add(Look& look, const api::DiskSpec& disk, const api::KeyedSource& source) const;
  void add(Look& look, const api::DiskSpec& disk, const api::ClaimSource& source) const;
  ClaimUsers::Wanted wanted(const store::Key& claim, const api::DiskSpec& disk,
                            const api::ClaimSource& source) const;
  ClaimUsers::Use full_use_of(const store::Key& claim) const;

  const store::Store& store_;
  const images::Volumes& volumes_;
};

}  // namespace virtset
