// Claims, DataVolumes and instances that use them, in a World.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "tests/fakes/world.h"

namespace virtset::test {

using store::Json;

inline const std::string claims_path = "/api/v1/namespaces/default/persistentvolumeclaims";
inline const std::string data_volumes_path =
    "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes";
inline const std::string instances_path =
    "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";

inline Json storage(const std::string& size) {
  return {{"resources", {{"requests", {{"storage", size}}}}}};
}

inline Json claim(const std::string& name, const std::string& size = "1Gi") {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", {{"name", name}}},
          {"spec", storage(size)}};
}

inline Json data_volume(const std::string& name, const Json& source,
                        const std::string& size = "1Gi") {
  return {{"apiVersion", "cdi.kubevirt.io/v1beta1"},
          {"kind", "DataVolume"},
          {"metadata", {{"name", name}}},
          {"spec", {{"source", source}, {"storage", storage(size)}}}};
}

// With one volume, of this source.
inline Json user_of(const std::string& name, const Json& volume_source) {
  Json object = instance(name);
  object["spec"]["terminationGracePeriodSeconds"] = 0;
  Json volume = volume_source;
  volume["name"] = "disk";
  object["spec"]["volumes"] = Json::array({volume});
  object["spec"]["domain"]["devices"]["disks"] =
      Json::array({{{"name", "disk"}, {"disk", {{"bus", "virtio"}}}}});
  return object;
}
inline Json user_of_claim(const std::string& name, const std::string& claim_name) {
  return user_of(name, {{"persistentVolumeClaim", {{"claimName", claim_name}}}});
}
inline Json user_of_data_volume(const std::string& name, const std::string& of) {
  return user_of(name, {{"dataVolume", {{"name", of}}}});
}

class Disks : public testing::Test {
 protected:
  void create(const std::string& path, const Json& object) {
    int status = 0;
    const Json answer = world.request("POST", path, object, &status);
    ASSERT_EQ(status, 201) << answer;
    world.settle();
  }
  void create_claim(const Json& object) { create(claims_path, object); }
  void create_data_volume(const Json& object) { create(data_volumes_path, object); }
  void create_instance(const Json& object) { create(instances_path, object); }
  void remove(const std::string& path, const Json& options = Json::object()) {
    int status = 0;
    const Json answer = world.request("DELETE", path, options, &status);
    ASSERT_EQ(status, 200) << answer;
    world.settle();
  }
  int patch(const std::string& path, const Json& change) {
    int status = 0;
    world.request("PATCH", path, change, &status, "application/merge-patch+json");
    world.settle();
    return status;
  }

  Json claim_of(const std::string& name) const {
    const auto object = world.store->get({api::core_group, api::claim_kind, "default", name});
    return object ? *object->document() : Json();
  }
  Json data_volume_of(const std::string& name) const {
    const auto object = world.store->get({api::cdi_group, api::data_volume_kind, "default", name});
    return object ? *object->document() : Json();
  }
  Json vmi(const std::string& name) const { return world.get(api::instance_kind, name); }
  static std::string phase(const Json& object) {
    return api::text(api::member(object, "status", "phase"));
  }
  static Json condition(const Json& object, const char* type) {
    return api::find_condition(api::member(object, "status"), type);
  }
  static std::string reason(const Json& object, const char* type) {
    return api::text(api::member(condition(object, type), "reason"));
  }
  static std::string message(const Json& object, const char* type) {
    return api::text(api::member(condition(object, type), "message"));
  }
  static std::string uid(const Json& object) {
    return api::text(api::member(object, "metadata", "uid"));
  }
  FakeVolumes::Volume volume(const std::string& claim_name) {
    return world.volumes.volumes[uid(claim_of(claim_name))];
  }

  World world;
};

}  // namespace virtset::test
