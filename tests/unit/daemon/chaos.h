// Random faults at random moments, from a seed: what the tests of sets and of pools share. A
// failure prints its seed; VIRTSET_CHAOS_SEED=<seed> VIRTSET_CHAOS_RUNS=1 repeats it to the letter.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "tests/fakes/deterministic_random.h"
#include "tests/fakes/world.h"

namespace virtset::test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Json;

class Chaos {
 public:
  explicit Chaos(unsigned seed) : random_(seed) {}
  virtual ~Chaos() = default;

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      chance(25) ? use() : fail();
      watch(false);
      step();
    }
    heal();
    if (!testing::Test::HasFailure()) check_end();
  }

 protected:
  // Something that a user does.
  virtual void use() = 0;
  // Looks at what may never be, whatever happens; `rests`: nothing is on its way.
  virtual void watch(bool rests) = 0;
  // Users undo what keeps things from being right in the end.
  virtual void calm_down() {}
  // All faults are over, and time has gone by.
  virtual void check_end() = 0;

  int pick(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool chance(int percent) { return pick(99) < percent; }
  template <typename List>
  auto any_of(List& list) {
    return std::next(list.begin(), pick(static_cast<int>(list.size()) - 1));
  }
  // The status of the answer.
  int send(const std::string& method, const std::string& path, const Json& body) {
    int status = 0;
    world_.request(method, path, body, &status,
                   method == "PATCH" ? "application/merge-patch+json" : "application/json");
    return status;
  }

  const std::string instances_path_ =
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/";
  World world_;

  void delete_an_instance() {
    const auto names = world_.instance_names();
    if (names.empty()) return;
    Json options = Json::object();
    if (chance(30)) options["gracePeriodSeconds"] = 0;
    send("DELETE", instances_path_ + *any_of(names), options);
  }

  std::string all_instances() const {
    std::string text;
    for (const Json& instance : world_.instances()) {
      text += instance["metadata"].dump() + " " + instance["status"].dump() + "\n";
    }
    return text;
  }

 private:
  static constexpr Lane all_lanes[] = {Lane::start, Lane::control, Lane::save, Lane::disk,
                                       Lane::pull,  Lane::import,  Lane::copy};

  void fail() {
    auto& hypervisor = *world_.hypervisor;
    switch (pick(12)) {
      case 0:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.kill_process(uuid);
        return;
      case 1:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.power_off_guest(uuid);
        return;
      case 2:
        if (const auto uuid = any_domain(); !uuid.empty()) hypervisor.destroy_from_outside(uuid);
        return;
      case 3:
        notice_deaths();
        return;
      case 4:
        if (hypervisor.connected()) hypervisor.disconnect();
        return;
      case 5:
        if (!hypervisor.connected()) hypervisor.connect();
        return;
      case 6:
        return crash();
      case 7:
        world_.images.disk_is_full = world_.volumes.disk_is_full = chance(40);
        return;
      case 8:
        world_.images.refuse.clear();
        if (chance(30)) world_.images.refuse["i:1"] = "connection refused";
        return;
      case 9:
        for (const Lane lane : all_lanes) world_.jobs->hold(lane, chance(30));
        return;
      case 10:
        hypervisor.lose_next_answer = chance(50);
        hypervisor.guests_obey = chance(50);
        hypervisor.refuse_save = chance(20) ? "the disk is slow" : "";
        return;
      case 11:
        world_.committer->failing = chance(20);
        return;
      case 12:
        chance(50) ? hypervisor.relist() : cordon(chance(50));
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
        watch(world_.jobs->waiting() == 0);
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
    world_.images.disk_is_full = world_.volumes.disk_is_full = false;
    world_.images.refuse.clear();
    world_.hypervisor->lose_next_answer = false;
    for (const Lane lane : all_lanes) {
      world_.jobs->hold(lane, false);
    }
    world_.hypervisor->refuse_save.clear();
    cordon(false);
    notice_deaths();
    if (!world_.hypervisor->connected()) world_.hypervisor->connect();
    calm_down();
    world_.settle();
    for (int minute = 0; minute < 12; ++minute) {
      world_.advance(seconds(60));
      if (!world_.hypervisor->connected()) world_.hypervisor->connect();
    }
  }

  std::mt19937 random_;
};

// One after the other, each from its own seed; how many there were.
template <typename Kind>
unsigned run_chaos(int steps) {
  const auto from_environment = [](const char* name, unsigned otherwise) {
    const char* value = std::getenv(name);
    return value ? static_cast<unsigned>(std::atoi(value)) : otherwise;
  };
  const unsigned first = from_environment("VIRTSET_CHAOS_SEED", 1);
  const unsigned count = from_environment("VIRTSET_CHAOS_RUNS", 200);
  for (unsigned seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    seed_random(seed);
    Kind(seed).run(steps);
  }
  return count;
}

}  // namespace virtset::test
