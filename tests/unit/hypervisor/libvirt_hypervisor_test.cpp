// The libvirt implementation against libvirt's in-memory driver.

#include "hypervisor/libvirt/libvirt_hypervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace virtset::test {
namespace {

using namespace hypervisor;
using libvirt::LibvirtHypervisor;

// Collects what the observer is told; tests wait for it instead of sleeping.
class Told {
 public:
  Observer observer() {
    return {
        .connected = [this](std::vector<DomainInfo> list) { add([&] { lists.push_back(list); }); },
        .found = [this](DomainInfo info) { add([&] { found.push_back(info); }); },
        .disconnected = [this](std::string why) { add([&] { disconnected.push_back(why); }); },
        .event = [this](Event event) { add([&] { events.push_back(event); }); }};
  }

  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), condition);
  }
  bool wait_for_event(Event::Type type, const std::string& uuid) {
    return wait([&] {
      for (const Event& event : events) {
        if (event.type == type && event.uuid == uuid) return true;
      }
      return false;
    });
  }

  std::vector<std::vector<DomainInfo>> lists;
  std::vector<DomainInfo> found;
  std::vector<std::string> disconnected;
  std::vector<Event> events;

 private:
  template <typename Add>
  void add(Add add) {
    std::lock_guard lock(mutex_);
    add();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
};

constexpr const char* installation = "6d0cf6f5-3b4c-4e0f-a3a6-000000000001";

std::string uuid(int n) { return "0b9f1a52-6c7e-4b0e-a3a6-00000000000" + std::to_string(n); }

// As domain_xml writes it, but of the test driver's type.
std::string xml_of(const std::string& name, const std::string& id, const std::string& owner) {
  const std::string mark =
      owner.empty() ? ""
                    : "<metadata><virtset:vmi xmlns:virtset='urn:virtset:libvirt:1'>"
                      "<virtset:installation>" +
                          owner +
                          "</virtset:installation>"
                          "<virtset:namespace>default</virtset:namespace><virtset:name>" +
                          name + "</virtset:name><virtset:uid>uid-" + name +
                          "</virtset:uid>"
                          "<virtset:specHash>h</virtset:specHash></virtset:vmi></metadata>";
  return "<domain type='test'><name>" + name + "</name><uuid>" + id + "</uuid>" + mark +
         "<memory unit='MiB'>8</memory><os><type>hvm</type></os></domain>";
}

class LibvirtHypervisorTest : public testing::Test {
 protected:
  LibvirtHypervisorTest() {
    // test:///default is one for the whole process: what is put in here is seen there.
    outside_ = virConnectOpen("test:///default");
  }
  ~LibvirtHypervisorTest() override {
    for (int n = 0; n < 10; ++n) {
      if (virDomainPtr domain = virDomainLookupByUUIDString(outside_, uuid(n).c_str())) {
        virDomainDestroy(domain);
        virDomainFree(domain);
      }
    }
    virConnectClose(outside_);
  }

  void create_outside(const std::string& xml) {
    virDomainPtr domain = virDomainCreateXML(outside_, xml.c_str(), 0);
    ASSERT_NE(domain, nullptr) << virGetLastErrorMessage();
    virDomainFree(domain);
  }
  bool is_active(const std::string& id) {
    virDomainPtr domain = virDomainLookupByUUIDString(outside_, id.c_str());
    if (!domain) return false;
    const bool active = virDomainIsActive(domain) == 1;
    virDomainFree(domain);
    return active;
  }

  std::unique_ptr<LibvirtHypervisor> open() {
    auto hypervisor = std::make_unique<LibvirtHypervisor>(
        libvirt::Options{"test:///default", installation, 2, ""});
    hypervisor->open(told_.observer());
    EXPECT_TRUE(told_.wait([&] { return !told_.lists.empty(); }));
    return hypervisor;
  }

  virConnectPtr outside_;
  Told told_;
};

TEST_F(LibvirtHypervisorTest, ListsOnlyItsOwn) {
  create_outside(xml_of("mine", uuid(1), installation));
  create_outside(xml_of("foreign", uuid(2), ""));
  create_outside(xml_of("another-daemons", uuid(3), "another-installation"));
  const auto hypervisor = open();
  ASSERT_THAT(told_.lists[0], testing::SizeIs(1));
  EXPECT_EQ(told_.lists[0][0].uuid, uuid(1));
  EXPECT_EQ(told_.lists[0][0].name, "mine");
  EXPECT_EQ(told_.lists[0][0].mark.uid, "uid-mine");
}

TEST_F(LibvirtHypervisorTest, NeverDestroysAnothers) {
  create_outside(xml_of("mine", uuid(1), installation));
  create_outside(xml_of("foreign", uuid(2), ""));
  create_outside(xml_of("another-daemons", uuid(3), "another-installation"));
  const auto hypervisor = open();
  EXPECT_THROW(hypervisor->destroy(uuid(2)), NotOurs);
  EXPECT_THROW(hypervisor->destroy(uuid(3)), NotOurs);
  EXPECT_THROW(hypervisor->shut_down(uuid(3), Hypervisor::Ask::power_button), NotOurs);
  hypervisor->destroy(uuid(1));
  EXPECT_FALSE(is_active(uuid(1)));
  EXPECT_TRUE(is_active(uuid(2)));
  EXPECT_TRUE(is_active(uuid(3)));
  hypervisor->destroy(uuid(1));  // gone already: fine
}

TEST_F(LibvirtHypervisorTest, TellsEventsOfItsOwnOnly) {
  create_outside(xml_of("mine", uuid(1), installation));
  create_outside(xml_of("foreign", uuid(2), ""));
  const auto hypervisor = open();
  for (const int n : {2, 1}) {
    virDomainPtr domain = virDomainLookupByUUIDString(outside_, uuid(n).c_str());
    virDomainSuspend(domain);
    virDomainDestroy(domain);
    virDomainFree(domain);
  }
  EXPECT_TRUE(told_.wait_for_event(Event::Type::stopped, uuid(1)));
  for (const Event& event : told_.events) EXPECT_EQ(event.uuid, uuid(1));
  // libvirt may still have had the start to tell when we began to listen.
  const bool late = told_.events.front().type == Event::Type::started;
  EXPECT_EQ(told_.events.at(late ? 1 : 0).type, Event::Type::paused);
  EXPECT_EQ(told_.events.back().stop_reason, StopReason::destroyed);
}

// A start that an earlier run of the daemon ordered and that comes through late.
TEST_F(LibvirtHypervisorTest, FindsLateComersByTheirMark) {
  const auto hypervisor = open();
  create_outside(xml_of("foreign", uuid(2), ""));
  create_outside(xml_of("late", uuid(1), installation));
  EXPECT_TRUE(told_.wait([&] { return !told_.found.empty(); }));
  EXPECT_EQ(told_.found[0].uuid, uuid(1));
  EXPECT_THAT(told_.found, testing::SizeIs(1));
}

TEST_F(LibvirtHypervisorTest, ListsAgainWhenAsked) {
  const auto hypervisor = open();
  create_outside(xml_of("mine", uuid(1), installation));
  hypervisor->relist();
  EXPECT_TRUE(
      told_.wait([&] { return told_.lists.size() >= 2 && told_.lists.back().size() == 1; }));
}

Domain domain(const std::string& name, const std::string& id) {
  Domain result{.name = name, .uuid = id};
  result.mark = {installation, "default", name, "uid-" + name, "h"};
  result.memory_bytes = 8 << 20;
  return result;
}

TEST_F(LibvirtHypervisorTest, StartsADomainOnceHoweverOftenItIsOrdered) {
  const auto hypervisor = open();
  hypervisor->start(domain("vm", uuid(1)));
  EXPECT_TRUE(told_.wait_for_event(Event::Type::started, uuid(1)));
  hypervisor->start(domain("vm", uuid(1)));
  EXPECT_TRUE(is_active(uuid(1)));
  hypervisor->destroy(uuid(1));
  EXPECT_TRUE(told_.wait_for_event(Event::Type::stopped, uuid(1)));
}

// That it goes on from there only QEMU can show: tests/integration/test_pool.py.
TEST_F(LibvirtHypervisorTest, SavedDomainHasEnded) {
  const auto hypervisor = open();
  hypervisor->start(domain("vm", uuid(1)));
  ASSERT_TRUE(told_.wait_for_event(Event::Type::started, uuid(1)));
  const std::string file = testing::TempDir() + "virtset-saved-" + std::to_string(getpid());
  hypervisor->save(uuid(1), file);
  ASSERT_TRUE(told_.wait_for_event(Event::Type::stopped, uuid(1)));
  EXPECT_EQ(told_.events.back().stop_reason, StopReason::saved);
  EXPECT_FALSE(is_active(uuid(1)));
  EXPECT_EQ(unlink(file.c_str()), 0);
  EXPECT_THROW(hypervisor->save(uuid(1), file), Refused);
  create_outside(xml_of("foreign", uuid(2), ""));
  EXPECT_THROW(hypervisor->save(uuid(2), file), NotOurs);
  Domain next = domain("vm", uuid(1));
  next.memory_file = "/nowhere/none";
  EXPECT_THROW(hypervisor->start(next), Refused);
}

TEST_F(LibvirtHypervisorTest, RefusalCarriesLibvirtsWords) {
  const auto hypervisor = open();
  create_outside(xml_of("vm", uuid(2), ""));
  try {
    hypervisor->start(domain("vm", uuid(1)));
    FAIL() << "a name was taken twice";
  } catch (const Refused& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("starting domain vm: "),
                                             testing::HasSubstr("already exists")));
  }
  EXPECT_TRUE(is_active(uuid(2)));
}

TEST_F(LibvirtHypervisorTest, SaysWhatRunsTheDomains) {
  const auto hypervisor = open();
  unsigned long library = 0;
  ASSERT_EQ(virGetVersion(&library, nullptr, nullptr), 0);
  const Versions versions = hypervisor->versions();
  EXPECT_EQ(versions.libvirt, std::to_string(library / 1'000'000) + "." +
                                  std::to_string(library / 1'000 % 1'000) + "." +
                                  std::to_string(library % 1'000));
  EXPECT_EQ(versions.driver, "test");
  EXPECT_EQ(versions.driver_version, "0.0.2");
}

TEST_F(LibvirtHypervisorTest, NetworkIsMadeOnceAndOthersAreLeftAlone) {
  const auto hypervisor = open();
  Network network{.name = "vstest",
                  .bridge = "vstest",
                  .installation = installation,
                  .gateway = "10.99.0.1",
                  .prefix_length = 30,
                  .first_address = "10.99.0.2",
                  .last_address = "10.99.0.2",
                  .reservations = {{"02:00:00:00:00:02", "10.99.0.2"}}};
  hypervisor->ensure_network(network);
  hypervisor->ensure_network(network);
  Network other = network;
  other.installation = "somebody else";
  EXPECT_THROW(hypervisor->ensure_network(other), NotOurs);
  Network moved = network;
  moved.gateway = "10.98.0.1";
  EXPECT_THROW(hypervisor->ensure_network(moved), Refused);
  virNetworkPtr made = virNetworkLookupByName(outside_, "vstest");
  ASSERT_NE(made, nullptr);
  virNetworkDestroy(made);
  virNetworkFree(made);
}

TEST(LibvirtConnection, SaysWhyThereIsNoneAndGoesOnTrying) {
  Told told;
  LibvirtHypervisor hypervisor({"qemu+unix:///system?socket=/nonexistent", installation, 1, ""});
  hypervisor.open(told.observer());
  EXPECT_TRUE(told.wait([&] { return !told.disconnected.empty(); }));
  EXPECT_THAT(told.disconnected[0], testing::HasSubstr("/nonexistent"));
  EXPECT_THROW(hypervisor.destroy(uuid(1)), Unavailable);
}

}  // namespace
}  // namespace virtset::test
