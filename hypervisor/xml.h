// libvirt's XML, written and read with pugixml and never by pasting strings: manifests are
// untrusted text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hypervisor/domain.h"

namespace virtset::hypervisor {

// The namespace of our marks in libvirt's <metadata>.
inline constexpr std::string_view mark_namespace = "urn:virtset:libvirt:1";

// The document for virDomainCreateXML. Lean: no USB, no option ROMs, no graphics.
std::string domain_xml(const Domain& domain);

// The document of a saved domain, with the disks and the mark of this description: they may have
// moved, and another instance may own them.
std::string moved_domain_xml(const std::string& saved, const Domain& domain);

// Reads the element that virDomainGetMetadata gives for mark_namespace. Nothing if it is not a
// mark.
std::optional<Mark> parse_mark(const std::string& metadata);

// Whether the guest agent's channel is connected, according to the XML of a running domain.
bool agent_is_connected(const std::string& domain_xml);

std::string network_xml(const Network& network);

// What there is to know of an existing network.
struct NetworkState {
  std::string installation;  // empty: not ours
  std::string bridge;
  std::string gateway;
  unsigned prefix_length = 0;
  std::vector<Reservation> reservations;
};
NetworkState parse_network(const std::string& xml);

// The <host> element for virNetworkUpdate.
std::string reservation_xml(const Reservation& reservation);

}  // namespace virtset::hypervisor
