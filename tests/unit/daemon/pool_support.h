// What the tests of pools share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/kinds/json_access.h"
#include "tests/fakes/world.h"

namespace virtset::test {

using api::member;
using store::Json;

inline constexpr const char* finalizer = "pool.kubevirt.io/finalizer";
inline constexpr const char* revision_label = "kubevirt.io/vm-pool-revision-name";

inline std::string uid_of(const World& world, const std::string& machine) {
  return api::text(member(world.get(api::machine_kind, machine), "metadata", "uid"));
}

inline std::vector<std::string> revisions(const World& world) {
  std::vector<std::string> names;
  for (const auto& object : world.store->list(api::apps_group, api::controller_revision_kind)) {
    names.push_back(object->key().name);
  }
  return names;
}

inline void scale_pool(World& world, const std::string& name, int replicas) {
  int status = 0;
  const Json answer = world.request(
      "PATCH",
      "/apis/pool.kubevirt.io/v1alpha1/namespaces/default/virtualmachinepools/" + name + "/scale",
      {{"spec", {{"replicas", replicas}}}}, &status, "application/merge-patch+json");
  ASSERT_EQ(status, 200) << answer;
}

inline Json strategy(const Json& scale_in) { return {{"scaleInStrategy", scale_in}}; }

inline Json sorted_by(const std::string& policy, const std::string& preservation = "Disabled") {
  return strategy(
      {{"proactive",
        {{"selectionPolicy", {{"sortPolicy", policy}}}, {"statePreservation", preservation}}}});
}

inline constexpr int good_port = 80;
inline constexpr int bad_port = 81;  // on which nobody answers

// A change of what guests are started from.
inline Json guest_change(const Json& spec) {
  return {{"spec", {{"virtualMachineTemplate", {{"spec", {{"template", {{"spec", spec}}}}}}}}}};
}

inline Json ready_on(int port) {
  return {{"readinessProbe", {{"tcpSocket", {{"port", port}}}, {"initialDelaySeconds", 0}}},
          {"domain", {{"devices", {{"autoattachPodInterface", true}}}}},
          {"terminationGracePeriodSeconds", 5}};
}

inline Json spec_of(int port, const Json& more = nullptr) {
  Json spec = guest_change(ready_on(port))["spec"];
  if (!more.is_null()) spec.merge_patch(more);
  return spec;
}

}  // namespace virtset::test
