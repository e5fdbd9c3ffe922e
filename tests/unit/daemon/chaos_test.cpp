// Random faults at random moments, from a seed: the promises must hold all the time, and everything
// must be right in the end. A failure prints its seed; VIRTSET_CHAOS_SEED=<seed>
// VIRTSET_CHAOS_RUNS=1 repeats it to the letter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "tests/fakes/deterministic_random.h"
#include "tests/fakes/world.h"

namespace virtset::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Json;

class Chaos {
 public:
  explicit Chaos(unsigned seed) : random_(seed) {
    world_.host.on_start = [this](const FakeHost::Domain& domain) { check_start(domain); };
    new_set();
    new_set();
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      act();
      update_bounds(false);
      step();
    }
    heal();
    if (!testing::Test::HasFailure()) check_end();
  }

 private:
  int pick(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool chance(int percent) { return pick(99) < percent; }

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
    int status = 0;
    Json body = replica_set(name, replicas);
    body["spec"].merge_patch(patch);
    world_.request("POST", sets_path_, body, &status);
    if (status == 201) sets_[name] = replicas;
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

  void act() {
    auto& hypervisor = *world_.hypervisor;
    switch (pick(17)) {
      case 0:
      case 1: {
        if (sets_.empty()) return new_set();
        auto set = std::next(sets_.begin(), pick(static_cast<int>(sets_.size()) - 1));
        const int replicas = pick(8);
        int status = 0;
        world_.request("PATCH", sets_path_ + ("/" + set->first + "/scale"),
                       {{"spec", {{"replicas", replicas}}}}, &status,
                       "application/merge-patch+json");
        if (status == 200) set->second = replicas;
        return;
      }
      case 2:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.kill_process(uuid);
        return;
      case 3:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.power_off_guest(uuid);
        return;
      case 4:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.destroy_from_outside(uuid);
        return;
      case 5:
        notice_deaths();
        return;
      case 6:
        if (hypervisor.connected()) hypervisor.disconnect();
        return;
      case 7:
        if (!hypervisor.connected()) hypervisor.connect();
        return;
      case 8:
        return crash();
      case 9:
        world_.images.disk_is_full = chance(40);
        return;
      case 10:
        world_.images.refuse.clear();
        if (chance(30)) world_.images.refuse["i:1"] = "connection refused";
        return;
      case 11: {
        const auto names = world_.instance_names();
        if (names.empty()) return;
        const std::string& name =
            names[static_cast<std::size_t>(pick(static_cast<int>(names.size()) - 1))];
        Json options = Json::object();
        if (chance(30)) options["gracePeriodSeconds"] = 0;
        world_.request("DELETE", instances_path_ + ("/" + name), options);
        return;
      }
      case 12: {
        if (sets_.empty() || !chance(40)) return;
        const auto set = std::next(sets_.begin(), pick(static_cast<int>(sets_.size()) - 1));
        int status = 0;
        world_.request("DELETE", sets_path_ + ("/" + set->first),
                       {{"propagationPolicy", chance(50) ? "Background" : "Foreground"}}, &status);
        if (status == 200) sets_.erase(set);
        if (sets_.size() < 2) new_set();
        return;
      }
      case 13:
        for (const Lane lane : {Lane::start, Lane::control, Lane::disk, Lane::pull}) {
          world_.jobs->hold(lane, chance(30));
        }
        return;
      case 14:
        hypervisor.lose_next_answer = chance(50);
        hypervisor.guests_obey = chance(50);
        return;
      case 15:
        world_.committer->failing = chance(20);
        return;
      case 16:
        hypervisor.relist();
        return;
      case 17:
        cordon(chance(50));
        return;
    }
  }

  // As far as it gets: a little, or until everything rests, or for a while.
  void step() {
    switch (pick(3)) {
      case 0:
        return;
      case 1:
        world_.scheduler.run();
        return;
      case 2:
        world_.settle();
        update_bounds(world_.jobs->waiting() == 0);
        return;
      case 3:
        world_.advance(milliseconds(pick(40'000)));
        return;
    }
  }

  // Refused while the disk is full.
  void cordon(bool cordoned) {
    world_.request("PATCH", "/api/v1/nodes/host", {{"spec", {{"unschedulable", cordoned}}}},
                   nullptr, "application/merge-patch+json");
  }

  void crash() {
    // Work may have been done of which nobody heard.
    if (chance(50)) world_.jobs->run_without_results();
    world_.crash();
    if (chance(50)) world_.scheduler.advance(seconds(pick(100)));
    // What died meanwhile is not in libvirt's list.
    world_.boot();
  }

  std::string any_domain() {
    std::vector<std::string> alive;
    for (const auto& [uuid, domain] : world_.host.domains) {
      if (domain.process_alive) alive.push_back(uuid);
    }
    if (alive.empty()) return "";
    return alive[static_cast<std::size_t>(pick(static_cast<int>(alive.size()) - 1))];
  }

  void notice_deaths() {
    std::vector<std::string> dead;
    for (const auto& [uuid, domain] : world_.host.domains) {
      if (!domain.process_alive) dead.push_back(uuid);
    }
    for (const std::string& uuid : dead) world_.hypervisor->notice_death(uuid);
  }

  // The faults end; nobody does anything more.
  void heal() {
    world_.committer->failing = false;
    world_.images.disk_is_full = false;
    world_.images.refuse.clear();
    world_.hypervisor->lose_next_answer = false;
    for (const Lane lane : {Lane::start, Lane::control, Lane::disk, Lane::pull}) {
      world_.jobs->hold(lane, false);
    }
    cordon(false);
    notice_deaths();
    if (!world_.hypervisor->connected()) world_.hypervisor->connect();
    world_.settle();
    for (int minute = 0; minute < 12; ++minute) {
      world_.advance(seconds(60));
      if (!world_.hypervisor->connected()) world_.hypervisor->connect();
    }
  }

  // P5, and nothing is leaked: seen from the host and the disk, not from our own status.
  void check_end() {
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

  std::string all_instances() const {
    std::string text;
    for (const Json& instance : world_.instances()) {
      text += instance["metadata"].dump() + " " + instance["status"].dump() + "\n";
    }
    return text;
  }

  const std::string sets_path_ =
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets";
  const std::string instances_path_ =
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

  std::mt19937 random_;
  World world_;
  std::map<std::string, int> sets_;  // with the replicas that were acknowledged
  std::map<std::string, std::size_t> bounds_;
  int next_set_ = 0;
};

TEST(Chaos, PromisesHoldUnderRandomFaults) {
  const auto from_environment = [](const char* name, unsigned otherwise) {
    const char* value = std::getenv(name);
    return value ? static_cast<unsigned>(std::atoi(value)) : otherwise;
  };
  const unsigned first = from_environment("VIRTSET_CHAOS_SEED", 1);
  const unsigned count = from_environment("VIRTSET_CHAOS_RUNS", 200);
  for (unsigned seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    seed_random(seed);
    Chaos(seed).run(80);
  }
}

}  // namespace
}  // namespace virtset::test
