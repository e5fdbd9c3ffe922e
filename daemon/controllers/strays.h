// What carries our mark and belongs to no instance is removed: domains whose start came through
// after their instance was gone, or whose instance lost its finalizers, disks of instances that
// ended while no daemon ran. Loop thread only.
#pragma once

#include <set>
#include <string>

#include "daemon/controller.h"
#include "daemon/domains.h"
#include "daemon/jobs.h"
#include "daemon/work_queue.h"
#include "hypervisor/hypervisor.h"
#include "images/images.h"

namespace virtset {

class Strays final : public Controller {
 public:
  // `found` are the uids of the VMs that had disks when the daemon was started.
  Strays(store::Store& store, api::Scheduler& scheduler, Jobs& jobs,
         hypervisor::Hypervisor& hypervisor, images::Images& images, Domains& domains,
         std::set<std::string> found);

  // Removes the disks of instances that are not there any more, or have ended.
  void start() override;
  void observe(const store::Change& change) override;

  void domain_changed(const std::string& uuid);

 private:
  void reconcile(const store::Key& key);

  store::Store& store_;
  Jobs& jobs_;
  hypervisor::Hypervisor& hypervisor_;
  images::Images& images_;
  Domains& domains_;
  std::set<std::string> found_;
  WorkQueue queue_;  // of domains: the name of a key is the UUID
  std::set<std::string> busy_;
};

}  // namespace virtset
