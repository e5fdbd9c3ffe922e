// The XML that libvirt gets, held by golden files. VIRTSET_UPDATE_GOLDEN=1 writes them anew; then
// read the difference.

#include "hypervisor/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace virtset::test {
namespace {

using namespace hypervisor;

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_golden(const std::string& name, const std::string& xml) {
  const std::string path = std::string(TEST_DATA) + "/golden/" + name + ".xml";
  if (std::getenv("VIRTSET_UPDATE_GOLDEN")) std::ofstream(path) << xml;
  EXPECT_EQ(xml, read(path)) << path;
}

Domain minimal() {
  Domain domain{.name = "default_vm", .uuid = "0b9f1a52-6c7e-4b0e-a3a6-3b6f5a1c2d3e"};
  domain.mark = {"6d0cf6f5-3b4c-4e0f-a3a6-000000000001", "default", "vm",
                 "7a0e3c55-1111-4222-a333-444455556666", "0123456789abcdef"};
  domain.memory_bytes = 128ull << 20;
  return domain;
}

Domain complete() {
  Domain domain = minimal();
  domain.emulated = true;
  domain.machine = "pc-q35-7.2";
  domain.cpu = {.sockets = 2, .cores = 3, .threads = 2, .model = "EPYC", .limit_millis = 1500};
  domain.serial = "abc-123";
  domain.rng = true;
  domain.panic = "isa";
  domain.disks = {{.name = "root",
                   .bus = "virtio",
                   .path = "/data/vms/u/root.qcow2",
                   .format = "qcow2",
                   .backing = Backing{"/data/vms/u/root.base", "raw"},
                   .boot_order = 1},
                  {.name = "data",
                   .bus = "sata",
                   .path = "/data/vms/u/data.qcow2",
                   .format = "qcow2",
                   .serial = "D1",
                   .cache = "writeback"},
                  {.name = "seed",
                   .device = Disk::Device::cdrom,
                   .bus = "sata",
                   .path = "/data/vms/u/seed.iso",
                   .format = "raw",
                   .read_only = true},
                  {.name = "more",
                   .bus = "virtio",
                   .path = "/data/vms/u/more.qcow2",
                   .format = "qcow2",
                   .backing = Backing{"/data/vms/u/more.base", "qcow2"}}};
  domain.interfaces = {
      {.name = "default", .network = "virtset0", .mac = "02:aa:bb:cc:00:02", .model = "virtio"},
      {.name = "second",
       .network = "virtset0",
       .mac = "02:aa:bb:cc:00:03",
       .model = "e1000e",
       .boot_order = 2}};
  return domain;
}

TEST(DomainXml, PrivateBackingFileIsGivenToQemusUser) {
  Domain domain = minimal();
  domain.disks = {{.name = "data",
                   .bus = "virtio",
                   .path = "/v/o.qcow2",
                   .format = "qcow2",
                   .backing = Backing{"/v/disk.img", "raw"}}};
  EXPECT_THAT(domain_xml(domain), testing::HasSubstr("relabel=\"no\""));
  domain.disks[0].backing->is_private = true;
  EXPECT_THAT(domain_xml(domain), testing::Not(testing::HasSubstr("relabel=\"no\"")));
}

TEST(DomainXml, SharedDiskSaysSo) {
  Domain domain = minimal();
  domain.disks = {{.name = "data", .bus = "virtio", .path = "/v/disk.img", .format = "raw"}};
  EXPECT_THAT(domain_xml(domain), testing::Not(testing::HasSubstr("<shareable />")));
  domain.disks[0].shareable = true;
  EXPECT_THAT(domain_xml(domain), testing::HasSubstr("<shareable />"));
}

TEST(DomainXml, Minimal) { expect_golden("minimal", domain_xml(minimal())); }

TEST(DomainXml, Complete) { expect_golden("complete", domain_xml(complete())); }

// Of a saved domain only the disks and the owner may be others: the rest is what its memory knows.
TEST(DomainXml, SavedDomainIsMoved) {
  Domain domain = complete();
  const std::string saved = domain_xml(domain);
  domain.mark.uid = "another";
  domain.disks[0].path = "/data/vms/v/root.qcow2";
  domain.disks[0].backing = Backing{"/data/vms/v/root.base", "raw"};
  domain.memory_bytes = 1;
  const std::string moved = moved_domain_xml(saved, domain);
  EXPECT_THAT(moved, testing::HasSubstr("<virtset:uid>another</virtset:uid>"));
  EXPECT_THAT(moved, testing::Not(testing::HasSubstr("7a0e3c55-1111-4222-a333-444455556666")));
  EXPECT_THAT(moved, testing::HasSubstr("<source file=\"/data/vms/v/root.qcow2\" />"));
  EXPECT_THAT(moved, testing::HasSubstr("/data/vms/v/root.base"));
  EXPECT_THAT(moved, testing::Not(testing::HasSubstr("/data/vms/u/root")));
  EXPECT_THAT(moved, testing::HasSubstr("/data/vms/u/data.qcow2"));
  EXPECT_THAT(moved, testing::HasSubstr("<memory unit=\"b\">134217728</memory>"));
}

TEST(DomainXml, HostModelUnderEmulationIsAllThatQemuCanDo) {
  Domain domain = minimal();
  EXPECT_THAT(domain_xml(domain), testing::HasSubstr("<cpu mode=\"host-model\">"));
  domain.emulated = true;
  EXPECT_THAT(domain_xml(domain), testing::HasSubstr("<cpu mode=\"maximum\">"));
}

TEST(DomainXml, PassesLibvirtsSchema) {
  virConnectPtr connection = virConnectOpen("test:///default");
  ASSERT_NE(connection, nullptr);
  for (const Domain& domain : {minimal(), complete()}) {
    std::string xml = domain_xml(domain);
    // The test driver runs only domains of its own type; the schema does not mind.
    for (const char* type : {"type=\"kvm\"", "type=\"qemu\""}) {
      const auto at = xml.find(type);
      if (at < 20) xml.replace(at, std::string(type).size(), "type=\"test\"");
    }
    virDomainPtr created = virDomainCreateXML(connection, xml.c_str(), VIR_DOMAIN_START_VALIDATE);
    EXPECT_NE(created, nullptr) << virGetLastErrorMessage();
    if (created) {
      virDomainDestroy(created);
      virDomainFree(created);
    }
  }
  virConnectClose(connection);
}

TEST(DomainXml, TextOfManifestsCannotBreakOut) {
  Domain domain = minimal();
  domain.name = "a\"><evil/>&'";
  domain.cpu.model = "</cpu><evil/>";
  domain.disks = {{.name = "x\" y=\"", .bus = "virtio", .path = "/p/<&>", .format = "raw"}};
  const std::string xml = domain_xml(domain);
  EXPECT_THAT(xml, testing::Not(testing::HasSubstr("<evil")));
}

TEST(DomainXml, TargetsCountOnAfterZ) {
  Domain domain = minimal();
  for (int i = 0; i < 30; ++i) {
    domain.disks.push_back(
        {.name = "d" + std::to_string(i), .bus = "virtio", .path = "/p", .format = "raw"});
  }
  const std::string xml = domain_xml(domain);
  for (const char* target : {"\"vda\"", "\"vdz\"", "\"vdaa\"", "\"vdad\""}) {
    EXPECT_THAT(xml, testing::HasSubstr(target));
  }
}

TEST(Mark, ComesBackWithAndWithoutPrefixes) {
  // virDomainGetMetadata drops them; a domain's whole XML has them.
  const char* plain =
      "<vmi><installation>i</installation><namespace>n</namespace><name>v</name>"
      "<uid>u</uid><specHash>h</specHash></vmi>";
  const char* prefixed =
      "<virtset:vmi xmlns:virtset='urn:virtset:libvirt:1'><virtset:installation>i"
      "</virtset:installation><virtset:namespace>n</virtset:namespace><virtset:name>v"
      "</virtset:name><virtset:uid>u</virtset:uid><virtset:specHash>h</virtset:specHash>"
      "</virtset:vmi>";
  const Mark expected{"i", "n", "v", "u", "h"};
  EXPECT_EQ(parse_mark(plain), expected);
  EXPECT_EQ(parse_mark(prefixed), expected);
  EXPECT_EQ(parse_mark("<other/>"), std::nullopt);
  EXPECT_EQ(parse_mark("no xml"), std::nullopt);
}

TEST(AgentChannel, IsReadFromTheDomain) {
  const auto xml = [](const std::string& state) {
    return "<domain><devices><channel type='unix'><target type='virtio' "
           "name='org.qemu.guest_agent.0' state='" +
           state + "'/></channel></devices></domain>";
  };
  EXPECT_TRUE(agent_is_connected(xml("connected")));
  EXPECT_FALSE(agent_is_connected(xml("disconnected")));
  EXPECT_FALSE(agent_is_connected("<domain/>"));
}

TEST(NetworkXml, GoldenAndBack) {
  Network network{.name = "virtset0",
                  .bridge = "virtset0",
                  .installation = "inst",
                  .gateway = "10.88.0.1",
                  .prefix_length = 29,
                  .first_address = "10.88.0.2",
                  .last_address = "10.88.0.6"};
  for (int i = 2; i <= 6; ++i) {
    network.reservations.push_back(
        {"02:aa:bb:cc:00:0" + std::to_string(i), "10.88.0." + std::to_string(i)});
  }
  const std::string xml = network_xml(network);
  expect_golden("network", xml);
  const NetworkState state = parse_network(xml);
  EXPECT_EQ(state.installation, "inst");
  EXPECT_EQ(state.bridge, "virtset0");
  EXPECT_EQ(state.gateway, "10.88.0.1");
  EXPECT_EQ(state.prefix_length, 29u);
  EXPECT_EQ(state.reservations, network.reservations);
}

}  // namespace
}  // namespace virtset::test
