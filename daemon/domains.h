// What is known of the domains that carry our mark, from the hypervisor's events. Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "hypervisor/hypervisor.h"

namespace virtset {

// A domain as it was last heard of.
struct DomainRecord {
  hypervisor::DomainInfo info;
  // Its process has ended; libvirt's word on how is still to come.
  bool process_exited = false;
};

// How a domain ended.
struct DomainEnd {
  hypervisor::StopReason reason = hypervisor::StopReason::other;
  // It was not there any more when the hypervisor could be asked again; how it ended is not known.
  bool unseen = false;
};

class Domains {
 public:
  // Called with the UUID of a domain of which something changed.
  using Changed = std::function<void(const std::string& uuid)>;

  explicit Domains(Changed changed) : changed_(std::move(changed)) {}

  // Whether the record is complete. While it is not, an absent domain may be there all the same.
  bool synced() const { return synced_; }
  // Counts the lists that were received. What a list does not have, and no event has told of since,
  // is not there.
  unsigned generation() const { return generation_; }
  const std::string& why_not_synced() const { return why_not_synced_; }

  // Null if there is none.
  const DomainRecord* find(const std::string& uuid) const;
  const std::map<std::string, DomainRecord>& all() const { return records_; }
  // How the domain ended, if it did since it was last started.
  std::optional<DomainEnd> end_of(const std::string& uuid) const;
  void forget_end(const std::string& uuid) { ends_.erase(uuid); }

  // Someone is about to start a domain: its events are to be believed from here on.
  void expect(const std::string& uuid, const hypervisor::Mark& mark, const std::string& name);
  void expect_no_more(const std::string& uuid) { expected_.erase(uuid); }

  // What the hypervisor's observer is told. A list that tells nothing new changes nothing.
  void on_connected(const std::vector<hypervisor::DomainInfo>& domains);
  void on_found(const hypervisor::DomainInfo& domain);
  void on_disconnected(const std::string& why);
  void on_event(const hypervisor::Event& event);

 private:
  void end(std::string uuid, DomainEnd how);

  Changed changed_;
  bool synced_ = false;
  unsigned generation_ = 0;
  std::string why_not_synced_ = "not connected yet";
  std::map<std::string, DomainRecord> records_;  // by UUID
  std::map<std::string, DomainEnd> ends_;
  std::map<std::string, hypervisor::DomainInfo> expected_;
};

}  // namespace virtset
