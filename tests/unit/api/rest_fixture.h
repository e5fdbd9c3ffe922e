// What the tests of the API's verbs share: requests to a world of real controllers on a fake host.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/world.h"

namespace virtset::test {

using store::Json;

inline const std::string core = "/api/v1/namespaces/default";
inline const std::string group = "/apis/kubevirt.io/v1";
inline const std::string sets = group + "/namespaces/default/virtualmachineinstancereplicasets";
inline const std::string instances = group + "/namespaces/default/virtualmachineinstances";

struct Answer {
  int status = 0;
  std::string type;
  std::string text;
  std::vector<std::string> warnings;
  Json json() const { return Json::parse(text, nullptr, false); }
};

class RestTest : public testing::Test {
 protected:
  Answer call(api::Request request) {
    // As clients do that are programs.
    if (request.accept.empty()) request.accept = "application/json";
    Answer answer;
    std::optional<api::Response> response;
    world_.rest->handle(request, [&](api::Response given) { response = std::move(given); });
    world_.settle();
    if (!response) return answer;
    answer.status = response->status;
    answer.type = response->content_type;
    answer.text = std::move(response->body);
    for (const auto& [name, value] : response->headers) {
      if (name == "warning") answer.warnings.push_back(value);
    }
    while (response->stream &&
           response->stream->read(answer.text) == api::BodyStream::State::more) {
    }
    return answer;
  }
  Answer get(const std::string& path, const std::string& accept = "",
             std::vector<std::pair<std::string, std::string>> query = {}) {
    return call({.method = "GET", .path = path, .query = std::move(query), .accept = accept});
  }
  Answer send(const std::string& method, const std::string& path, const Json& body,
              const std::string& type = "application/json",
              std::vector<std::pair<std::string, std::string>> query = {}) {
    return call({.method = method,
                 .path = path,
                 .query = std::move(query),
                 .content_type = type,
                 .body = body.is_null() ? "" : body.dump()});
  }
  Answer patch(const std::string& path, const Json& body) {
    return send("PATCH", path, body, "application/merge-patch+json");
  }

  World world_;
};

}  // namespace virtset::test
