// Pools under random faults: never two guests of one name, nor two that write to one disk, nor a
// memory that is used twice; disks that are to be kept are never lost; everything right in the end.

#include <gmock/gmock.h>

#include "api/kinds/conditions.h"
#include "tests/unit/daemon/chaos.h"

namespace virtset::test {
namespace {

const std::string pools_path =
    "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools";
const std::string machines_path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/";

class PoolChaos final : public Chaos {
 public:
  // Of all runs.
  static inline int disks_kept = 0, memories_used = 0;

  explicit PoolChaos(unsigned seed) : Chaos(seed) {
    world_.host.on_start = [this](const FakeHost::Domain& domain) { check_start(domain); };
    new_pool();
    new_pool();
  }

 private:
  struct Pool {
    int replicas = 0;
    int version = 0;  // of the template, as a grace period
    bool keeps_disks = false;
    bool is_updated = true;  // by itself
  };

  void new_pool() {
    Pool wanted{.replicas = pick(4), .version = 0};
    const std::string name = "pool" + std::to_string(next_pool_++);
    Json patch;
    Json& machine = patch["virtualMachineTemplate"]["spec"];
    Json& guest = machine["template"]["spec"];
    if (chance(50)) guest["domain"]["devices"]["autoattachPodInterface"] = true;
    guest["terminationGracePeriodSeconds"] = 10;
    guest["volumes"] = {{{"name", "root"}, {"containerDisk", {{"image", "i:1"}}}}};
    if (chance(60)) {
      guest["volumes"].push_back({{"name", "data"}, {"dataVolume", {{"name", name + "x"}}}});
      machine["dataVolumeTemplates"] = {
          {{"metadata", {{"name", name + "x"}}},
           {"spec",
            {{"source", {{"blank", Json::object()}}},
             {"storage", {{"resources", {{"requests", {{"storage", "1Mi"}}}}}}}}}}};
    }
    const std::string preservation = chance(30) ? "Disabled" : chance(50) ? "Offline" : "Online";
    wanted.keeps_disks = preservation != "Disabled";
    patch["scaleInStrategy"]["proactive"]["statePreservation"] = preservation;
    if (chance(50)) patch["maxUnavailable"] = 1 + pick(2);
    wanted.is_updated = chance(80);
    if (!wanted.is_updated) patch["updateStrategy"]["opportunistic"] = Json::object();
    Json body = pool(name, wanted.replicas);
    body["spec"].merge_patch(patch);
    if (send("POST", pools_path, body) == 201) pools_[name] = wanted;
  }

  void use() override {
    if (pools_.empty()) return new_pool();
    auto& [name, wanted] = *any_of(pools_);
    switch (pick(8)) {
      case 0:
      case 1:
        return scale(name, wanted);
      case 2:
        return update(name, wanted);
      case 3:
        return delete_an_instance();
      case 4:
        if (const std::string machine = any_machine(); !machine.empty()) {
          // KubeVirt: as opportunistic scale-in says, and that says nothing.
          given_up_.insert(claim_of(machine));
          send("DELETE", machines_path + machine, Json::object());
        }
        return;
      case 5:
        if (const std::string machine = any_machine(); !machine.empty()) {
          send("PUT",
               "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/" + machine +
                   "/restart",
               Json::object());
        }
        return;
      case 6:
        send("PATCH", pools_path + "/" + name, {{"spec", {{"paused", chance(40)}}}});
        return;
      case 7:
        if (chance(30)) return detach(any_machine());
        return;
      case 8:
        if (chance(30)) remove_pool(name);
        return;
    }
  }

  void scale(const std::string& name, Pool& wanted) {
    const int replicas = pick(5);
    if (send("PATCH", pools_path + "/" + name + "/scale", {{"spec", {{"replicas", replicas}}}}) ==
        200) {
      wanted.replicas = replicas;
    }
  }

  void update(const std::string& name, Pool& wanted) {
    const int version = pick(5);
    const Json guest{{"spec", {{"terminationGracePeriodSeconds", 10 + version}}}};
    const Json machine{{"spec", {{"template", guest}}}};
    if (send("PATCH", pools_path + "/" + name, {{"spec", {{"virtualMachineTemplate", machine}}}}) ==
        200) {
      wanted.version = version;
    }
  }

  void detach(const std::string& machine) {
    if (machine.empty()) return;
    const Json patch{{"metadata", {{"ownerReferences", nullptr}}}};
    if (send("PATCH", machines_path + machine, patch) == 200) detached_.insert(machine);
  }

  void remove_pool(std::string name) {
    const Json options{{"propagationPolicy", chance(50) ? "Background" : "Foreground"}};
    if (send("DELETE", pools_path + "/" + name, options) == 200) {
      pools_.erase(name);
    }
    if (pools_.size() < 2) new_pool();
  }

  static std::string claim_of(std::string machine) {
    return machine.insert(machine.rfind('-'), "x");
  }

  std::string any_machine() {
    const auto names = world_.machine_names();
    return names.empty() ? "" : *any_of(names);
  }

  void check_start(const FakeHost::Domain& started) {
    const std::string& name = started.description.name;
    std::map<std::string, std::string> writers;
    for (const auto& [uuid, domain] : world_.host.domains) {
      if (!domain.process_alive) continue;
      EXPECT_TRUE(uuid == started.description.uuid || domain.description.name != name) << name;
      for (const auto& disk : domain.description.disks) {
        if (!disk.path.starts_with("/volumes/")) continue;
        const auto [other, first] = writers.emplace(disk.path, domain.description.name);
        EXPECT_TRUE(first) << disk.path << " of " << other->second << " and " << name;
      }
    }
    const std::string& memory = started.description.memory_file;
    if (memory.empty()) return;
    ++memories_used;
    EXPECT_TRUE(memories_.insert(memory).second) << memory << " twice";
  }

  // A claim of a pool that keeps its disks is the same one for ever.
  void watch(bool) override {
    for (const auto& [key, row] : world_.disk.rows) {
      if (key.kind == api::data_volume_kind) {
        disks_kept += api::controller_uid(*row->document()).empty() ? 1 : 0;
      }
      if (key.kind != api::claim_kind || given_up_.contains(key.name)) continue;
      const auto pool = pools_.find(key.name.substr(0, key.name.find('x')));
      if (pool == pools_.end() || !pool->second.keeps_disks) continue;
      const auto& [name, uid] = *kept_.emplace(key.name, row->uid()).first;
      EXPECT_EQ(row->uid(), uid) << "another disk for " << name;
    }
  }

  void calm_down() override {
    for (const auto& [name, wanted] : pools_) {
      send("PATCH", pools_path + "/" + name, {{"spec", {{"paused", false}}}});
    }
  }

  void check_end() override {
    std::size_t machines = 0;
    for (const auto& [name, wanted] : pools_) {
      const Json status = world_.pool(name)["status"];
      const auto count = [&](const char* field) {
        return api::integer(api::member(status, field), 0);
      };
      machines += static_cast<std::size_t>(wanted.replicas);
      EXPECT_EQ(count("replicas"), wanted.replicas) << name << status;
      EXPECT_EQ(count("readyReplicas"), wanted.replicas) << name << status;
      if (wanted.is_updated) {
        EXPECT_EQ(count("updatedReadyReplicas"), wanted.replicas) << status;
      }
      EXPECT_TRUE(api::find_condition(status, "ReplicaFailure").is_null()) << status;
    }
    std::size_t of_pools = 0;
    for (const std::string& name : world_.machine_names()) {
      const Json machine = world_.get(api::machine_kind, name);
      const bool is_detached = api::controller_uid(machine).empty();
      of_pools += is_detached ? 0 : 1;
      EXPECT_TRUE(!is_detached || detached_.contains(name)) << machine;
      EXPECT_FALSE(api::is_deleting(machine)) << machine;
      check_version(machine);
    }
    EXPECT_EQ(of_pools, machines);
    EXPECT_EQ(world_.host.domains.size(), world_.machine_names().size()) << all_instances();
    EXPECT_EQ(world_.host.alive(), world_.machine_names().size());
    check_leftovers();
  }

  // The template that was acknowledged last is what runs.
  void check_version(const Json& machine) {
    const std::string name = machine["metadata"]["name"];
    const auto pool = pools_.find(name.substr(0, name.rfind('-')));
    if (pool == pools_.end() || !pool->second.is_updated) return;
    if (api::controller_uid(machine).empty()) return;
    const Json instance = world_.get(api::instance_kind, name);
    EXPECT_EQ(instance["spec"]["terminationGracePeriodSeconds"], 10 + pool->second.version) << name;
  }

  // Seen from the host and the disk.
  void check_leftovers() {
    std::set<std::string> claims, saved, instances;
    std::size_t addresses = 0;
    for (const auto& [key, row] : world_.disk.rows) {
      const Json object = Json::parse(row->text());
      if (key.kind == api::claim_kind) claims.insert(row->uid());
      if (key.kind == api::instance_kind) {
        instances.insert(row->uid());
        addresses += object["status"].contains("interfaces") ? 1 : 0;
      }
      if (key.kind == api::saved_machine_kind) {
        addresses += api::member(object, "spec", "interfaces").size();
        if (api::integer(api::member(object, "status", "memoryBytes"), 0) > 0) {
          saved.insert(row->uid());
        }
      }
    }
    std::set<std::string> volumes, memories;
    for (const auto& [id, volume] : world_.volumes.volumes) volumes.insert(id);
    for (const auto& [key, files] : world_.images.saved) memories.insert(key);
    EXPECT_EQ(volumes, claims);
    EXPECT_EQ(memories, saved);
    EXPECT_EQ(world_.images.disks, instances);
    const auto& leases = world_.network->addresses();
    EXPECT_EQ(leases.size() - leases.free(), addresses) << all_leases();
  }

  std::string all_leases() const {
    std::string text;
    for (const auto& reservation : world_.network->addresses().reservations()) {
      const std::string owner = world_.network->addresses().owner_of(reservation.mac);
      if (!owner.empty()) text += owner + " " + reservation.address + "\n";
    }
    for (const auto& [key, row] : world_.disk.rows) {
      if (key.kind == api::saved_machine_kind) text += row->text() + "\n";
    }
    return text;
  }

  std::map<std::string, Pool> pools_;  // as they were acknowledged
  std::set<std::string> detached_;
  std::map<std::string, std::string> kept_;  // uids of claims, by name
  std::set<std::string> given_up_;           // claims of machines that users have deleted
  std::set<std::string> memories_;           // that were used
  int next_pool_ = 0;
};

TEST(Chaos, PromisesOfPoolsHoldUnderRandomFaults) {
  if (run_chaos<PoolChaos>(80) < 40) return;
  // It has come to what it is about.
  EXPECT_GT(PoolChaos::disks_kept, 10);
  EXPECT_GT(PoolChaos::memories_used, 10);
}

}  // namespace
}  // namespace virtset::test
