#include "api/rest/protobuf.h"

#include "api/kinds/errors.h"
#include "tests/unit/api/rest_fixture.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;

std::string bytes(std::string_view hex) {
  std::string result;
  std::string digits;
  for (const char c : hex) {
    if (c != ' ') digits += c;
  }
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    result += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return result;
}

// What kubectl 1.32 sent for "create configmap lit --from-literal=a=b".
const std::string captured = bytes(
    "6b387300 0a0f 0a027631 1209 436f6e6669674d6170 121d 0a13 0a036c6974 1200 1a00 2200 2a00 3200 "
    "3800 4200 1206 0a0161 120162 1a00 2200");

const api::Schema& schema_of(const char* kind) {
  return *api::builtin_kinds().find(api::core_group, kind)->schema;
}

class Protobuf : public RestTest {
 protected:
  Answer post(const std::string& path, const std::string& body) {
    return call({.method = "POST",
                 .path = path,
                 .accept = "application/vnd.kubernetes.protobuf,application/json",
                 .content_type = "application/vnd.kubernetes.protobuf",
                 .body = body});
  }
};

TEST_F(Protobuf, WhatKubectlSends) {
  EXPECT_EQ(api::decode_protobuf(captured, schema_of("ConfigMap")),
            Json::parse(R"({"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"},
                            "metadata":{"name":"lit","generation":0}})"));
  const Answer answer = post(core + "/configmaps", captured);
  EXPECT_EQ(answer.status, 201) << answer.text;
  EXPECT_EQ(answer.type, "application/json");
  EXPECT_EQ(get(core + "/configmaps/lit").json()["data"], Json({{"a", "b"}}));
}

TEST_F(Protobuf, BytesAndTimes) {
  // Secret {data: {k: 00 ff}, metadata: {name: s, creationTimestamp: {seconds: 1}}}
  const std::string secret = bytes(
      "6b387300 0a0c 0a027631 1206 536563726574 1212 0a07 0a0173 4202 0801 1207 0a016b 1202 00ff");
  const Json decoded = api::decode_protobuf(secret, schema_of("Secret"));
  EXPECT_EQ(decoded["data"]["k"], "AP8=");
  EXPECT_EQ(decoded["metadata"]["creationTimestamp"], "1970-01-01T00:00:01Z");
}

TEST_F(Protobuf, KindOfAnotherPathIsRefused) {
  const Answer answer = post(core + "/secrets", captured);
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.text, HasSubstr("ConfigMap"));
}

TEST_F(Protobuf, CutShortAtAnyByteIsRefusedOrRead) {
  for (std::size_t length = 0; length < captured.size(); ++length) {
    try {
      api::decode_protobuf(captured.substr(0, length), schema_of("ConfigMap"));
    } catch (const api::ApiError& error) {
      EXPECT_EQ(error.code(), 400);
    }
  }
}

TEST_F(Protobuf, GarbageIsRefused) {
  for (const char* hex :
       {"6b387300 ff", "6b387300 0b", "6b387300 1201", "6b387300 12ffffffffffffffffff7f",
        "6b387300 1204 0a02 0aff", "6b387300 1206 0a04 0a02 fffe", "00"}) {
    EXPECT_THROW(api::decode_protobuf(bytes(hex), schema_of("ConfigMap")), api::ApiError) << hex;
  }
  EXPECT_EQ(post(core + "/configmaps", "k8s").status, 400);
}

}  // namespace
}  // namespace virtset::test
