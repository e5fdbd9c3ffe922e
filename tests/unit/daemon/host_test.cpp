#include "daemon/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/kinds/names.h"

namespace virtset::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(NodeName, IsTheHostsNameAsFarAsTheApiHasSuchNames) {
  EXPECT_EQ(node_name_of("edge-7"), "edge-7");
  EXPECT_EQ(node_name_of("edge-7.shop.example"), "edge-7.shop.example");
  EXPECT_EQ(node_name_of("Edge_7"), "edge-7");
  EXPECT_EQ(node_name_of("_edge."), "edge");
  EXPECT_EQ(node_name_of("a..b"), "a--b");
  EXPECT_EQ(node_name_of("a-.b"), "a--b");
  EXPECT_EQ(node_name_of(""), "localhost");
  EXPECT_EQ(node_name_of("---"), "localhost");
}

TEST(NodeName, IsAlwaysOne) {
  for (const std::string& name :
       {std::string(80, 'a'), std::string(62, 'a') + ".b", std::string("ä"), std::string(40, '.'),
        std::string("a.-"), std::string("A b\tc")}) {
    const std::string node = node_name_of(name);
    EXPECT_FALSE(api::check_subdomain(node)) << name << " as " << node;
    EXPECT_FALSE(api::check_label_value(node)) << name << " as " << node;
  }
}

// What this machine is, is not known here; what any machine is, is.
TEST(Host, IsLookedAt) {
  const HostState state = look_at_host("/tmp", "virtset0");
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(state.host_name, name);
  EXPECT_THAT(state.architecture, testing::MatchesRegex("[a-z0-9]+"));
  EXPECT_THAT(state.boot_id, testing::SizeIs(36));
  EXPECT_NE(state.kernel, "");
  EXPECT_NE(state.os_image, "");
  EXPECT_THAT(state.os_image, Not(HasSubstr("\"")));
  EXPECT_GT(state.cpus, 0u);
  EXPECT_EQ(state.memory, static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE)));
  EXPECT_GT(state.available_memory, 0u);
  EXPECT_LT(state.available_memory, state.memory);
  EXPECT_GT(state.disk, 0u);
  EXPECT_LE(state.disk_used_percent, 100u);
}

TEST(Host, DiskThatCannotBeAskedIsOfNoSize) {
  const HostState state = look_at_host("/nonexistent", "virtset0");
  EXPECT_EQ(state.disk, 0u);
  EXPECT_GT(state.memory, 0u);
}

}  // namespace
}  // namespace virtset::test
