#include <pugixml.hpp>

#include <sstream>

#include "hypervisor/xml.h"

namespace virtset::hypervisor {

namespace {

using Node = pugi::xml_node;

void set(Node node, const char* name, const std::string& value) {
  node.append_attribute(name) = value.c_str();
}

void add_host(Node dhcp, const Reservation& reservation) {
  Node host = dhcp.append_child("host");
  set(host, "mac", reservation.mac);
  set(host, "ip", reservation.address);
}

}  // namespace

std::string network_xml(const Network& network) {
  pugi::xml_document document;
  Node root = document.append_child("network");
  root.append_child("name").text() = network.name.c_str();
  Node mark = root.append_child("metadata").append_child("virtset:network");
  set(mark, "xmlns:virtset", std::string(mark_namespace));
  mark.append_child("virtset:installation").text() = network.installation.c_str();
  set(root.append_child("forward"), "mode", "nat");
  Node bridge = root.append_child("bridge");
  set(bridge, "name", network.bridge);
  // Without these a port of the bridge forwards nothing for the first seconds.
  set(bridge, "stp", "off");
  set(bridge, "delay", "0");
  Node ip = root.append_child("ip");
  set(ip, "address", network.gateway);
  set(ip, "prefix", std::to_string(network.prefix_length));
  Node dhcp = ip.append_child("dhcp");
  Node range = dhcp.append_child("range");
  set(range, "start", network.first_address);
  set(range, "end", network.last_address);
  for (const Reservation& reservation : network.reservations) add_host(dhcp, reservation);
  std::ostringstream out;
  document.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
  return out.str();
}

NetworkState parse_network(const std::string& xml) {
  NetworkState state;
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) return state;
  const Node root = document.child("network");
  state.installation =
      root.child("metadata").child("virtset:network").child("virtset:installation").child_value();
  state.bridge = root.child("bridge").attribute("name").value();
  const Node ip = root.child("ip");
  state.gateway = ip.attribute("address").value();
  state.prefix_length = ip.attribute("prefix").as_uint();
  for (const Node host : ip.child("dhcp").children("host")) {
    state.reservations.push_back({host.attribute("mac").value(), host.attribute("ip").value()});
  }
  return state;
}

std::string reservation_xml(const Reservation& reservation) {
  pugi::xml_document document;
  add_host(document, reservation);
  std::ostringstream out;
  document.save(out, "", pugi::format_raw | pugi::format_no_declaration);
  return out.str();
}

}  // namespace virtset::hypervisor
