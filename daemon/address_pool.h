// The addresses of the pod network: each belongs to one MAC, for ever, so that DHCP has nothing to
// find out. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "hypervisor/domain.h"

namespace virtset {

class AddressPool {
 public:
  class BadNetwork : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
  };

  // `cidr` is "10.88.0.0/22": the first usable address is the host's, the others the guests'. The
  // MACs are derived from `bridge`, after which libvirt names dnsmasq's leases: dnsmasq does
  // not give an address to a second MAC before the first's lease has run out, and those leases may
  // outlive the network, even the installation. Throws BadNetwork.
  AddressPool(const std::string& cidr, const std::string& bridge);

  const std::string& gateway() const { return gateway_; }
  unsigned prefix_length() const { return prefix_length_; }
  // All of them, as they should be now, for the definition of the network.
  std::vector<hypervisor::Reservation> reservations() const;
  std::size_t size() const { return count_; }
  std::size_t free() const { return free_.size(); }

  struct Lease {
    std::string mac;
    std::string address;
    // The network does not know that this MAC has this address: one of them is not what the pool
    // would give, or was not for the last who had the address.
    bool needs_reservation = false;

    friend bool operator==(const Lease&, const Lease&) = default;
  };

  // The lease of an interface, the same whenever it is asked for with the same MAC or none. `mac`
  // is what the manifest wants, or empty; one of the pool's own gets the address that belongs to
  // it. Nothing if the network is full, or if the MAC or its address is in use by another.
  std::optional<Lease> lease(const std::string& owner, const std::string& mac);
  // Takes in what an instance had before the daemon was started. Nothing if another has it.
  bool restore(const std::string& owner, const std::string& mac, const std::string& address);
  // Frees all leases whose owner begins with this.
  void release(const std::string& owner_prefix);
  // Who has the MAC, or empty.
  std::string owner_of(const std::string& mac) const;

 private:
  using Leases = std::map<std::string, std::pair<std::uint32_t, Lease>>;  // by owner

  Leases::iterator release_one(Leases::iterator lease);
  std::string address_at(std::uint32_t index) const;
  std::string mac_at(std::uint32_t index) const;
  std::optional<std::uint32_t> index_of(const std::string& address) const;
  std::optional<std::uint32_t> index_of_mac(const std::string& mac) const;

  std::uint32_t network_ = 0;
  unsigned prefix_length_ = 0;
  std::uint32_t count_ = 0;  // guests' addresses; index 0 is the first of them
  std::string gateway_;
  std::string mac_prefix_;

  // Lowest first, so that few addresses are used again and again.
  std::set<std::uint32_t> free_;
  // Those that had a MAC that is not the pool's. For ever: whether those who had them since came so
  // far as to reserve them is not known here, and to reserve one again costs little.
  std::set<std::uint32_t> altered_;
  Leases leases_;
  std::map<std::string, std::string> owners_;  // by MAC
};

}  // namespace virtset
