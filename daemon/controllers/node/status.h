// What the node object says, from what is known of the host. A function of its arguments alone.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

#include "api/kinds/times.h"
#include "daemon/host.h"
#include "hypervisor/hypervisor.h"

namespace virtset {

// What was heard last of something that comes and goes.
struct Word {
  bool good = false;
  std::string message;
};

struct NodeFacts {
  // As configured.
  std::string name;
  std::string pod_network;  // "10.115.0.0/22"
  std::size_t pod_addresses = 0;
  bool emulated = false;           // guests are
  std::uint64_t guest_memory = 0;  // bytes that guests may have; 0: no limit
  // Percent of the disk in use: pressure begins at the one and ends at the other.
  unsigned disk_high_water = 85;
  unsigned disk_low_water = 80;

  // As found.
  HostState host;
  std::optional<hypervisor::Versions> versions;
  // Nothing until there is word of them: what the object says of them is left as it is.
  std::optional<Word> hypervisor;
  std::optional<Word> network;
};

// Changes what differs and nothing else: what users and others have put in is kept, and times move
// only with what they are the time of.
void bring_up_to_date(nlohmann::json& node, const NodeFacts& facts, api::Time now);

}  // namespace virtset
