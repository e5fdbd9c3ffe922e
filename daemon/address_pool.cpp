#include "daemon/address_pool.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "images/registry.h"

namespace virtset {

namespace {

constexpr unsigned largest_network = 16;  // as many addresses as fit into two bytes of a MAC
constexpr unsigned smallest_network = 30;

std::string to_text(std::uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, (address >> 16) & 255, (address >> 8) & 255,
                     address & 255);
}

std::optional<std::uint32_t> to_number(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

}  // namespace

AddressPool::AddressPool(const std::string& cidr, const std::string& bridge) {
  const auto slash = cidr.find('/');
  const auto address = to_number(cidr.substr(0, slash));
  unsigned length = 0;
  const std::string digits = slash == std::string::npos ? "" : cidr.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  const bool good = address && error == std::errc() && end == digits.data() + digits.size() &&
                    length >= largest_network && length <= smallest_network;
  if (!good) {
    throw BadNetwork("\"" + cidr +
                     "\" is not an IPv4 network such as 10.88.0.0/22, from /16 to /30");
  }
  prefix_length_ = length;
  network_ = *address & ~((1u << (32 - length)) - 1);
  count_ = (1u << (32 - length)) - 3;  // without network, host and broadcast
  gateway_ = to_text(network_ + 1);
  // Locally administered, and different for each network of a host.
  const std::string hash = images::sha256_digest(bridge).substr(sizeof("sha256:") - 1);
  mac_prefix_ = fmt::format("02:{}:{}:{}", hash.substr(0, 2), hash.substr(2, 2), hash.substr(4, 2));
  for (std::uint32_t index = 0; index < count_; ++index) free_.insert(free_.end(), index);
}

std::string AddressPool::address_at(std::uint32_t index) const {
  return to_text(network_ + 2 + index);
}

std::string AddressPool::mac_at(std::uint32_t index) const {
  return fmt::format("{}:{:02x}:{:02x}", mac_prefix_, (index + 2) >> 8, (index + 2) & 255);
}

std::optional<std::uint32_t> AddressPool::index_of(const std::string& address) const {
  const auto number = to_number(address);
  if (!number || *number < network_ + 2 || *number - network_ - 2 >= count_) return std::nullopt;
  return *number - network_ - 2;
}

// The address that one of the pool's own MACs belongs to; nothing for any other MAC.
std::optional<std::uint32_t> AddressPool::index_of_mac(const std::string& mac) const {
  unsigned number = 0;
  std::string digits = mac.starts_with(mac_prefix_ + ":") ? mac.substr(mac_prefix_.size() + 1) : "";
  std::erase(digits, ':');
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  // 0 and 1 would be the network's and the host's.
  if (number < 2 || number - 2 >= count_) return std::nullopt;
  return number - 2;
}

std::vector<hypervisor::Reservation> AddressPool::reservations() const {
  std::vector<hypervisor::Reservation> all;
  all.reserve(count_);
  for (std::uint32_t index = 0; index < count_; ++index) {
    all.push_back({mac_at(index), address_at(index)});
  }
  for (const auto& [owner, lease] : leases_) all[lease.first].mac = lease.second.mac;
  return all;
}

std::optional<AddressPool::Lease> AddressPool::lease(const std::string& owner,
                                                     const std::string& mac) {
  if (const auto known = leases_.find(owner); known != leases_.end()) {
    if (mac.empty() || known->second.second.mac == mac) return known->second.second;
    release_one(known);  // another was asked for meanwhile
  }
  if (free_.empty() || (!mac.empty() && owners_.contains(mac))) return std::nullopt;
  // A MAC of the guest's own gets an address from the far end, which the pool's own MACs reach
  // last: dnsmasq does not give an address to a second MAC before the lease of the first has run
  // out.
  const std::uint32_t index =
      mac.empty() ? *free_.begin() : index_of_mac(mac).value_or(*free_.rbegin());
  if (free_.erase(index) == 0) return std::nullopt;
  Lease lease{mac.empty() ? mac_at(index) : mac, address_at(index)};
  lease.needs_reservation = lease.mac != mac_at(index) || altered_.contains(index);
  leases_[owner] = {index, lease};
  owners_[lease.mac] = owner;
  return lease;
}

bool AddressPool::restore(const std::string& owner, const std::string& mac,
                          const std::string& address) {
  const auto index = index_of(address);
  if (!index || !free_.contains(*index) || owners_.contains(mac) || leases_.contains(owner) ||
      index_of_mac(mac).value_or(*index) != *index) {
    return false;
  }
  free_.erase(*index);
  leases_[owner] = {*index, {mac, address, mac != mac_at(*index)}};
  owners_[mac] = owner;
  return true;
}

void AddressPool::release(const std::string& owner_prefix) {
  for (auto it = leases_.lower_bound(owner_prefix);
       it != leases_.end() && it->first.starts_with(owner_prefix);) {
    it = release_one(it);
  }
}

AddressPool::Leases::iterator AddressPool::release_one(Leases::iterator it) {
  const auto& [index, lease] = it->second;
  free_.insert(index);
  if (lease.mac != mac_at(index)) altered_.insert(index);
  owners_.erase(lease.mac);
  return leases_.erase(it);
}

std::string AddressPool::owner_of(const std::string& mac) const {
  const auto it = owners_.find(mac);
  return it == owners_.end() ? "" : it->second;
}

}  // namespace virtset
