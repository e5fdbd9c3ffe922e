#include "daemon/address_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* bridge = "virtset0";
constexpr const char* own_mac = "52:54:00:12:34:56";

// Of 13 guests' addresses, 10.0.0.2 to 10.0.0.14.
AddressPool small() { return AddressPool("10.0.0.0/28", bridge); }

std::set<std::string> macs(const std::vector<hypervisor::Reservation>& reservations) {
  std::set<std::string> result;
  for (const auto& reservation : reservations) result.insert(reservation.mac);
  return result;
}

std::string reserved_mac(const AddressPool& pool, const std::string& address) {
  for (const auto& reservation : pool.reservations()) {
    if (reservation.address == address) return reservation.mac;
  }
  return "none";
}

TEST(AddressPool, LeavesOutTheNetworkTheHostAndTheBroadcastAddress) {
  const AddressPool pool = small();
  EXPECT_EQ(pool.gateway(), "10.0.0.1");
  EXPECT_EQ(pool.prefix_length(), 28u);
  EXPECT_EQ(pool.size(), 13u);
  EXPECT_EQ(pool.free(), 13u);
  const auto reservations = pool.reservations();
  ASSERT_THAT(reservations, SizeIs(13));
  EXPECT_EQ(reservations.front().address, "10.0.0.2");
  EXPECT_EQ(reservations.back().address, "10.0.0.14");
}

TEST(AddressPool, AnyAddressOfTheNetworkNamesIt) {
  EXPECT_EQ(AddressPool("10.88.3.77/22", bridge).gateway(), "10.88.0.1");
}

TEST(AddressPool, SmallestAndLargestNetworks) {
  EXPECT_EQ(AddressPool("192.168.0.0/30", bridge).size(), 1u);
  const AddressPool large("172.16.0.0/16", bridge);
  EXPECT_EQ(large.size(), 65'533u);
  EXPECT_EQ(large.reservations().back().address, "172.16.255.254");
  EXPECT_THAT(macs(large.reservations()), SizeIs(65'533));
}

TEST(AddressPool, RefusesWhatIsNoNetwork) {
  for (const char* bad :
       {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/15", "10.0.0.0/31", "10.0.0.0/-1", "10.0.0.0/24x",
        "10.0.0/24", "10.0.0.256/24", "fd00::/24", "/24", " 10.0.0.0/24", "10.0.0.0/4294967320"}) {
    EXPECT_THROW(AddressPool(bad, bridge), AddressPool::BadNetwork) << bad;
  }
}

TEST(AddressPool, AnotherMacIsAnotherLease) {
  AddressPool pool("10.88.0.0/24", "vs0");
  const auto first = pool.lease("a/0", "");
  const auto second = pool.lease("a/0", "52:54:00:00:00:01");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->mac, "52:54:00:00:00:01");
  EXPECT_EQ(pool.owner_of(first->mac), "");
  EXPECT_EQ(pool.lease("a/0", ""), second);
  EXPECT_EQ(pool.free() + 1, pool.size());
}

TEST(AddressPool, LeasesAreUniqueUntilTheNetworkIsFull) {
  AddressPool pool = small();
  std::set<std::string> addresses, hardware;
  for (int i = 0; i < 13; ++i) {
    const auto lease = pool.lease("vm" + std::to_string(i) + "/net", "");
    ASSERT_TRUE(lease);
    EXPECT_FALSE(lease->needs_reservation);
    addresses.insert(lease->address);
    hardware.insert(lease->mac);
  }
  EXPECT_THAT(addresses, SizeIs(13));
  EXPECT_THAT(hardware, SizeIs(13));
  EXPECT_EQ(pool.free(), 0u);
  EXPECT_FALSE(pool.lease("late/net", ""));
  EXPECT_FALSE(pool.lease("late/net", own_mac));
}

TEST(AddressPool, FullNetworkStillKnowsItsLeases) {
  AddressPool pool("10.0.0.0/30", bridge);
  const auto lease = pool.lease("a/net", "");
  EXPECT_FALSE(pool.lease("b/net", ""));
  EXPECT_EQ(pool.lease("a/net", ""), lease);
  pool.release("a/");
  EXPECT_TRUE(pool.lease("b/net", ""));
}

TEST(AddressPool, LeaseIsTheSameWheneverItIsAskedFor) {
  AddressPool pool = small();
  const auto lease = pool.lease("a/net", own_mac);
  EXPECT_EQ(pool.lease("a/net", own_mac), lease);
  EXPECT_EQ(pool.free(), 12u);
  EXPECT_EQ(pool.owner_of(own_mac), "a/net");
}

TEST(AddressPool, InterfacesOfOneInstanceHaveLeasesOfTheirOwn) {
  AddressPool pool = small();
  EXPECT_NE(pool.lease("a/one", "")->address, pool.lease("a/two", "")->address);
  pool.release("a/");
  EXPECT_EQ(pool.free(), 13u);
}

TEST(AddressPool, ReservationsAreWhatTheLeasesSay) {
  AddressPool pool = small();
  const auto ordinary = pool.lease("a/net", "");
  const auto own = pool.lease("b/net", own_mac);
  EXPECT_EQ(reserved_mac(pool, ordinary->address), ordinary->mac);
  EXPECT_EQ(reserved_mac(pool, own->address), own_mac);
  EXPECT_THAT(macs(pool.reservations()), SizeIs(13));
}

TEST(AddressPool, MacOfTheGuestsOwnNeedsAReservation) {
  AddressPool pool = small();
  const auto lease = pool.lease("a/net", own_mac);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->mac, own_mac);
  EXPECT_TRUE(lease->needs_reservation);
}

TEST(AddressPool, MacThatIsInUseIsNotGivenToAnother) {
  AddressPool pool = small();
  pool.lease("a/net", own_mac);
  EXPECT_FALSE(pool.lease("b/net", own_mac));
  const auto ordinary = pool.lease("c/net", "");
  EXPECT_FALSE(pool.lease("d/net", ordinary->mac));
  EXPECT_EQ(pool.free(), 11u);
  pool.release("a/");
  EXPECT_TRUE(pool.lease("b/net", own_mac));
}

// The network still has the former guest's MAC for it.
TEST(AddressPool, AddressThatHadAMacOfItsOwnNeedsAReservationForTheNext) {
  AddressPool pool("10.0.0.0/30", bridge);
  pool.lease("a/net", own_mac);
  pool.release("a/");
  EXPECT_NE(pool.reservations().front().mac, own_mac);
  const auto next = pool.lease("b/net", "");
  EXPECT_NE(next->mac, own_mac);
  EXPECT_TRUE(next->needs_reservation);
}

// Whoever has it first may be deleted before it has reserved anything.
TEST(AddressPool, NeedOfAReservationOutlivesOneThatWasNeverStarted) {
  AddressPool pool("10.0.0.0/30", bridge);
  pool.lease("a/net", own_mac);
  pool.release("a/");
  pool.lease("b/net", "");
  pool.release("b/");
  EXPECT_TRUE(pool.lease("c/net", "")->needs_reservation);
}

TEST(AddressPool, MacOfThePoolThatAGuestAskedForIsGivenToNobodyElse) {
  AddressPool pool = small();
  const auto third = pool.reservations()[2];
  const auto own = pool.lease("a/net", third.mac);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->address, third.address);
  EXPECT_FALSE(own->needs_reservation);
  std::set<std::string> given{own->mac};
  for (int i = 0; i < 12; ++i) given.insert(pool.lease(std::to_string(i) + "/net", "")->mac);
  EXPECT_THAT(given, SizeIs(13));
}

TEST(AddressPool, ReservationsNameNoMacTwice) {
  AddressPool pool = small();
  pool.lease("a/net", pool.reservations().front().mac);
  pool.lease("b/net", own_mac);
  EXPECT_THAT(macs(pool.reservations()), SizeIs(13));
}

TEST(AddressPool, MacOfThePoolIsNotToBeHadWhileAnotherHasItsAddress) {
  AddressPool pool = small();
  const auto last = pool.reservations().back();
  ASSERT_EQ(pool.lease("a/net", own_mac)->address, last.address);
  EXPECT_FALSE(pool.lease("b/net", last.mac));
  EXPECT_FALSE(pool.restore("b/net", last.mac, "10.0.0.5"));
  pool.release("a/");
  EXPECT_TRUE(pool.lease("b/net", last.mac)->needs_reservation);
}

// They look like the pool's and are not: the network's, the host's and what is beyond the end.
TEST(AddressPool, MacThatBelongsToNoAddressIsAGuestsOwn) {
  AddressPool pool = small();
  const std::string prefix = pool.reservations().front().mac.substr(0, 12);
  for (const char* rest : {"00:00", "00:01", "00:0f", "ff:ff"}) {
    EXPECT_TRUE(pool.lease(std::string(rest) + "/net", prefix + rest)->needs_reservation) << rest;
  }
}

TEST(AddressPool, ReleasedAddressesAreUsedAgainFirst) {
  AddressPool pool = small();
  const auto first = pool.lease("a/net", "");
  pool.lease("b/net", "");
  pool.release("a/");
  EXPECT_THAT(pool.owner_of(first->mac), IsEmpty());
  EXPECT_EQ(pool.lease("c/net", ""), first);
}

TEST(AddressPool, ReleaseTakesOnlyWhatBeginsWithThePrefix) {
  AddressPool pool = small();
  pool.lease("uid-1/net", "");
  pool.lease("uid-10/net", "");
  pool.lease("uid-0/net", "");
  pool.release("uid-1/");
  EXPECT_EQ(pool.free(), 11u);
  pool.release("stranger/");
  EXPECT_EQ(pool.free(), 11u);
}

TEST(AddressPool, RestoredLeasesAreAsTheyWere) {
  AddressPool before = small();
  const auto ordinary = *before.lease("a/net", "");
  const auto own = *before.lease("b/net", own_mac);
  AddressPool after = small();
  EXPECT_TRUE(after.restore("b/net", own.mac, own.address));
  EXPECT_TRUE(after.restore("a/net", ordinary.mac, ordinary.address));
  EXPECT_EQ(after.lease("a/net", ""), ordinary);
  EXPECT_EQ(after.lease("b/net", own_mac), own);
  EXPECT_EQ(after.reservations(), before.reservations());
  EXPECT_EQ(after.free(), 11u);
}

TEST(AddressPool, RestoresNothingThatAnotherHasOrThatIsNotOfTheNetwork) {
  AddressPool pool = small();
  ASSERT_TRUE(pool.restore("a/net", own_mac, "10.0.0.5"));
  EXPECT_FALSE(pool.restore("b/net", "52:54:00:00:00:01", "10.0.0.5"));
  EXPECT_FALSE(pool.restore("b/net", own_mac, "10.0.0.6"));
  EXPECT_FALSE(pool.restore("a/net", "52:54:00:00:00:01", "10.0.0.6"));
  for (const char* address : {"10.0.0.0", "10.0.0.1", "10.0.0.15", "10.0.1.2", "9.255.255.255", "",
                              "nonsense", "fd00::2"}) {
    EXPECT_FALSE(pool.restore("b/net", "52:54:00:00:00:01", address)) << address;
  }
  EXPECT_EQ(pool.free(), 12u);
}

TEST(AddressPool, MacsAreLocalUnicastAndDifferForEachBridge) {
  const AddressPool one = small();
  const AddressPool two("10.0.0.0/28", "another");
  for (const auto& reservation : one.reservations()) {
    EXPECT_THAT(reservation.mac, testing::MatchesRegex("02(:[0-9a-f][0-9a-f]){5}"));
    EXPECT_FALSE(macs(two.reservations()).contains(reservation.mac));
  }
  EXPECT_EQ(one.reservations(), small().reservations());
}

}  // namespace
}  // namespace virtset::test
