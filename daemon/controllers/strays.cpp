#include "daemon/controllers/strays.h"

#include <spdlog/spdlog.h>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/savedvirtualmachine/saved.h"
#include "api/kinds/virtualmachineinstance/spec.h"
#include "api/kinds/virtualmachineinstance/status.h"

namespace virtset {

Strays::Strays(store::Store& store, api::Scheduler& scheduler, Jobs& jobs,
               hypervisor::Hypervisor& hypervisor, images::Images& images, Domains& domains,
               std::set<std::string> found)
    : store_(store),
      jobs_(jobs),
      hypervisor_(hypervisor),
      images_(images),
      domains_(domains),
      found_(std::move(found)),
      queue_(scheduler, [this](const store::Key& key) { reconcile(key); }) {}

void Strays::start() {
  std::set<std::string> strays = std::move(found_);
  for (const auto& instance : store_.list(api::kubevirt_group, api::instance_kind)) {
    const auto document = instance->document();
    // What is to be saved of one that has ended is set aside when it goes.
    const bool is_saved =
        api::member(*document, "metadata", "annotations").contains(api::save_annotation);
    if (!api::is_final(api::phase_of(*document)) || is_saved) strays.erase(instance->uid());
  }
  for (const std::string& uid : strays) {
    jobs_.clear_away("the disks of instance " + uid + ", which is no more",
                     [&images = images_, uid] { images.remove_disks(uid); });
  }
}

void Strays::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (change.type != store::Change::Type::deleted || key.group != api::kubevirt_group ||
      key.kind != api::instance_kind) {
    return;
  }
  domain_changed(api::domain_uuid((*change.object->document())["spec"]));
}

void Strays::domain_changed(const std::string& uuid) {
  if (domains_.find(uuid)) queue_.add({"", "Domain", "", uuid});
}

void Strays::reconcile(const store::Key& key) {
  const std::string uuid = key.name;
  const DomainRecord* domain = domains_.find(uuid);
  if (!domain || domain->process_exited || busy_.contains(uuid)) return;
  const hypervisor::Mark& mark = domain->info.mark;
  const store::ObjectPtr instance =
      store_.get({api::kubevirt_group, api::instance_kind, mark.ns, mark.name});
  if (instance && instance->uid() == mark.uid) return;
  spdlog::warn("domain {} belongs to an instance that is no more and is removed",
               domain->info.name);
  busy_.insert(uuid);
  jobs_.submit(
      Lane::control,
      [&hypervisor = hypervisor_, &images = images_, uuid, uid = mark.uid] {
        hypervisor.destroy(uuid);
        images.remove_disks(uid);
      },
      [this, key](Result<std::monostate>& result) {
        busy_.erase(key.name);
        try {
          result.get();
          domains_.forget_end(key.name);
          queue_.forget(key);
        } catch (const std::exception& error) {
          spdlog::error("domain {}: {}", key.name, error.what());
          queue_.retry(key);
        }
      });
}

}  // namespace virtset
