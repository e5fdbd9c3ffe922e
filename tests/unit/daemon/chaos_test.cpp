// Sets under random faults: never more domains than replicas, and everything right in the end.

#include "tests/unit/daemon/chaos.h"

#include <gmock/gmock.h>

namespace virtset::test {
namespace {

class SetChaos final : public Chaos {
 public:
  explicit SetChaos(unsigned seed) : Chaos(seed) {
    world_.host.on_start = [this](const FakeHost::Domain& domain) { check_start(domain); };
    new_set();
    new_set();
  }

 private:
  void use() override {
    if (sets_.empty()) return new_set();
    const auto set = any_of(sets_);
    switch (pick(3)) {
      case 0:
      case 1: {
        const int replicas = pick(8);
        const Json scale{{"spec", {{"replicas", replicas}}}};
        if (send("PATCH", sets_path_ + ("/" + set->first + "/scale"), scale) == 200) {
          set->second = replicas;
        }
        return;
      }
      case 2:
        return delete_an_instance();
      case 3:
        if (!chance(40)) return;
        const Json options{{"propagationPolicy", chance(50) ? "Background" : "Foreground"}};
        if (send("DELETE", sets_path_ + ("/" + set->first), options) == 200) sets_.erase(set);
        if (sets_.size() < 2) new_set();
        return;
    }
  }

  void watch(bool rests) override { update_bounds(rests); }

  void new_set() {
    const std::string name = "set" + std::to_string(next_set_++) + "x";
    Json patch;
    if (chance(50)) {
      patch["template"]["spec"]["volumes"] = {
          {{"name", "root"}, {"containerDisk", {{"image", "i:1"}}}}};
    }
    if (chance(50)) {
      patch["template"]["spec"]["domain"]["devices"]["autoattachPodInterface"] = true;
    }
    patch["template"]["spec"]["terminationGracePeriodSeconds"] = pick(2) * 10;
    const int replicas = pick(5);
    Json body = replica_set(name, replicas);
    body["spec"].merge_patch(patch);
    if (send("POST", sets_path_, body) == 201) sets_[name] = replicas;
  }

  // P1, at the only moment at which it could be broken.
  void check_start(const FakeHost::Domain& domain) {
    const std::string& name = domain.description.name;  // default_set3xabcde
    const std::string set = name.substr(8, name.find('x') - 8 + 1);
    const auto row =
        world_.disk.rows.find({api::kubevirt_group, api::replica_set_kind, "default", set});
    if (row == world_.disk.rows.end()) return;
    update_bounds(false);
    EXPECT_LE(world_.host.alive_of("default_" + set), bounds_[set]) << "P1 broken for " << set;
  }

  // A start that was ordered before the set was made smaller may still come through, so the bound
  // follows downwards only when everything rests.
  void update_bounds(bool rests) {
    for (const auto& [key, row] : world_.disk.rows) {
      if (key.kind != api::replica_set_kind) continue;
      const auto replicas = Json::parse(row->text())["spec"]["replicas"].get<std::size_t>();
      std::size_t& bound = bounds_[key.name];
      bound = rests ? replicas : std::max(bound, replicas);
      if (rests) bound = std::max(bound, world_.host.alive_of("default_" + key.name));
    }
  }

  // P5, and nothing is leaked: seen from the host and the disk, not from our own status.
  void check_end() override {
    std::size_t wanted = 0;
    for (const auto& [name, replicas] : sets_) {
      wanted += static_cast<std::size_t>(replicas);
      EXPECT_EQ(world_.host.alive_of("default_" + name), static_cast<std::size_t>(replicas))
          << name;
      const Json status = world_.set(name)["status"];
      EXPECT_EQ(api::integer(api::member(status, "readyReplicas"), 0), replicas) << name << status;
      EXPECT_FALSE(status.contains("conditions")) << status;
    }
    EXPECT_EQ(world_.host.domains.size(), wanted);
    EXPECT_EQ(world_.instances().size(), wanted) << all_instances();
    std::set<std::string> with_disks;
    for (const Json& instance : world_.instances()) {
      if (instance["spec"].contains("volumes")) {
        with_disks.insert(instance["metadata"]["uid"].get<std::string>());
      }
    }
    EXPECT_EQ(world_.images.disks, with_disks);
    std::size_t with_address = 0;
    for (const Json& instance : world_.instances()) {
      with_address += instance["status"].contains("interfaces") ? 1 : 0;
    }
    EXPECT_EQ(world_.network->addresses().size() - world_.network->addresses().free(), with_address)
        << all_instances();
  }

  const std::string sets_path_ =
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets";

  std::map<std::string, int> sets_;  // with the replicas that were acknowledged
  std::map<std::string, std::size_t> bounds_;
  int next_set_ = 0;
};

TEST(Chaos, PromisesOfSetsHoldUnderRandomFaults) { run_chaos<SetChaos>(80); }

}  // namespace
}  // namespace virtset::test
