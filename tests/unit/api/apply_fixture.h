// An object that several managers write, as a store without a server would hold it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "api/kinds/errors.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/yaml.h"
#include "api/rest/apply/apply.h"

namespace virtset::test {

using Json = nlohmann::json;

inline const api::Kind& widget_kind() {
  static const api::Kind kind = api::Kind::load(R"(
group: example.org
versions: [v1, v2]
kind: Widget
plural: widgets
singular: widget
scope: Namespaced
subresources: {status: {}}
additionalPrinterColumns: []
schema:
  type: object
  properties:
    apiVersion: {type: string}
    kind: {type: string}
    metadata:
      type: object
      properties:
        name: {type: string}
        namespace: {type: string}
        uid: {type: string}
        resourceVersion: {type: string}
        generation: {type: integer}
        creationTimestamp: {type: string, format: date-time}
        labels: {type: object, additionalProperties: {type: string}}
        annotations: {type: object, additionalProperties: {type: string}}
        finalizers: {type: array, x-kubernetes-list-type: set, items: {type: string}}
        managedFields:
          {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    data: {type: object, additionalProperties: {type: string}}
    spec:
      type: object
      properties:
        running: {type: boolean}
        replicas: {type: integer}
        port: {x-kubernetes-int-or-string: true}
        selector:
          type: object
          x-kubernetes-map-type: atomic
          additionalProperties: {type: string}
        cpu: {type: object, properties: {cores: {type: integer}, model: {type: string}}}
        args: {type: array, items: {type: string}}
        tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
        disks:
          type: array
          x-kubernetes-list-type: map
          x-kubernetes-list-map-keys: [name]
          items:
            type: object
            properties: {name: {type: string}, size: {type: string}, bus: {type: string}}
        ports:
          type: array
          x-kubernetes-list-type: map
          x-kubernetes-list-map-keys: [port, protocol]
          items:
            type: object
            properties:
              port: {type: integer}
              protocol: {type: string, default: TCP}
              name: {type: string}
        options: {type: object, x-kubernetes-preserve-unknown-fields: true}
    status: {type: object, properties: {phase: {type: string}}}
)",
                                                Json::object(), nullptr);
  return kind;
}

class ApplyTest : public testing::Test {
 protected:
  // A configuration of the widget "w".
  static Json widget(const std::string& yaml) {
    Json object = api::parse_yaml(yaml);
    object["apiVersion"] = "example.org/v1";
    object["kind"] = "Widget";
    object["metadata"]["name"] = "w";
    return object;
  }
  static Json read(const std::string& yaml) { return api::parse_yaml(yaml); }

  // What is there before anybody applied.
  void given(const std::string& yaml) {
    object_ = widget(yaml);
    (*object_)["metadata"]["uid"] = "u1";
  }

  api::Writer writer(const std::string& manager, const std::string& subresource = "") const {
    return {manager, "example.org/v1", subresource};
  }

  // A minute later than the last write, as all writes here.
  const Json& apply(const std::string& manager, const std::string& yaml, bool force = false,
                    const std::string& subresource = "") {
    return apply(writer(manager, subresource), widget(yaml), force);
  }
  const Json& apply(const api::Writer& writer, const Json& configuration, bool force = false) {
    now_ += std::chrono::minutes(1);
    object_ = api::apply(widget_kind(), object_ ? &*object_ : nullptr, configuration, writer, force,
                         now_);
    return *object_;
  }
  const Json& force(const std::string& manager, const std::string& yaml) {
    return apply(manager, yaml, true);
  }

  // A write that is no apply, as a merge patch.
  const Json& update(const std::string& manager, const std::string& patch,
                     const std::string& subresource = "") {
    now_ += std::chrono::minutes(1);
    Json next = *object_;
    next.merge_patch(read(patch));
    api::record_update(widget_kind(), *object_, next, writer(manager, subresource), now_);
    object_ = std::move(next);
    return *object_;
  }

  std::optional<api::ApiError> refusal(const std::string& manager, const std::string& yaml) {
    return refusal(writer(manager), widget(yaml));
  }
  std::optional<api::ApiError> refusal(const api::Writer& writer, const Json& configuration) {
    const std::optional<Json> before = object_;
    try {
      apply(writer, configuration);
    } catch (const api::ApiError& error) {
      return error;
    }
    object_ = before;
    return std::nullopt;
  }
  // The message of a refusal, or nothing.
  std::string refused(const std::string& manager, const std::string& yaml) {
    const auto error = refusal(manager, yaml);
    return error ? error->what() : "";
  }

  const Json& object() const { return *object_; }
  Json spec() const { return api::member(*object_, "spec"); }
  Json managed() const { return api::member(*object_, "metadata", "managedFields"); }
  Json entry(const std::string& manager, const std::string& operation = "Apply") const {
    for (const Json& candidate : managed()) {
      if (candidate["manager"] == manager && candidate["operation"] == operation) return candidate;
    }
    return nullptr;
  }
  Json owned(const std::string& manager, const std::string& operation = "Apply") const {
    return api::member(entry(manager, operation), "fieldsV1");
  }

  std::optional<Json> object_;
  api::Time now_ = api::Time(std::chrono::hours(24 * 365 * 50));
};

}  // namespace virtset::test
