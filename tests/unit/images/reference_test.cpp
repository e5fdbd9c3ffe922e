#include "images/reference.h"

#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using images::BadReference;
using images::PullPolicy;
using images::Reference;

TEST(Reference, IsReadAsDockerReadsIt) {
  const struct {
    const char* text;
    const char* canonical;
  } cases[] = {
      {"debian", "docker.io/library/debian:latest"},
      {"debian:12", "docker.io/library/debian:12"},
      {"kubevirt/cirros-container-disk-demo:latest",
       "docker.io/kubevirt/cirros-container-disk-demo:latest"},
      {"localhost/demo", "localhost/demo:latest"},
      {"registry:5000/x", "registry:5000/x:latest"},
      {"127.0.0.1:5000/a/b_c.d:v1.0-x", "127.0.0.1:5000/a/b_c.d:v1.0-x"},
      {"quay.io/containerdisks/fedora:40", "quay.io/containerdisks/fedora:40"},
      {"UPPER/x", "UPPER/x:latest"},
      {"a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
       "docker.io/library/a@sha256:"
       "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
      // The digest decides.
      {"r.io/a:tag@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
       "r.io/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
  };
  for (const auto& [text, canonical] : cases) {
    EXPECT_EQ(Reference::parse(text).canonical(), canonical) << text;
  }
}

TEST(Reference, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"",           " ",      "a b",  "Upper", "a:", "a:b:c", "a@sha256:12", "a@md5:00",
        "-a",         "a-",     "a//b", "/a",    "a/", "a:.x",  "r.io/a:tag@", "../../etc/passwd",
        "a;rm -rf /", "--help", "a\n",  "a$(id)"}) {
    EXPECT_THROW(Reference::parse(text), BadReference) << text;
  }
  EXPECT_THROW(Reference::parse(std::string(1'000'000, 'a')), BadReference);
}

// KubeVirt: image ends in ":latest" or contains neither ":" nor "@" => Always, else IfNotPresent.
TEST(PullPolicy, DefaultFollowsTheTag) {
  EXPECT_EQ(images::default_pull_policy("a"), PullPolicy::always);
  EXPECT_EQ(images::default_pull_policy("a:latest"), PullPolicy::always);
  EXPECT_EQ(images::default_pull_policy("a:1"), PullPolicy::if_not_present);
  EXPECT_EQ(images::default_pull_policy("registry:5000/x"), PullPolicy::if_not_present);
  EXPECT_EQ(images::parse_pull_policy("Never", "a"), PullPolicy::never);
  EXPECT_EQ(images::parse_pull_policy("", "a:1"), PullPolicy::if_not_present);
  EXPECT_THROW(images::parse_pull_policy("Sometimes", "a"), BadReference);
}

}  // namespace
}  // namespace virtset::test
