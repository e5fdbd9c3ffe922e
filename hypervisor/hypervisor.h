// The seam to the outside world that runs virtual machines.
//
// Calls block and may be made from any thread; the daemon makes them from jobs. What happens to
// domains is told through the Observer, in order, on a thread of the implementation's.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "hypervisor/domain.h"

namespace virtset::hypervisor {

// The connection is gone or was never there. Nothing is known about the call's effect: the domain
// may or may not have been started. The truth comes with the next Observer::connected.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The hypervisor refused, in its own words.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A domain or network of that name or UUID exists and does not carry our mark.
class NotOurs : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// libvirt: virDomainPausedReason, as far as it makes a difference.
enum class PauseReason { user, io_error, other };

// libvirt: virDomainEventStoppedDetailType, as far as it makes a difference to KubeVirt's phases.
enum class StopReason { shutdown, destroyed, crashed, saved, other };

struct DomainInfo {
  std::string name;
  std::string uuid;
  Mark mark;
  std::optional<PauseReason> paused;
  bool shutting_down = false;
  bool agent_connected = false;

  friend bool operator==(const DomainInfo&, const DomainInfo&) = default;
};

struct Event {
  enum class Type {
    started,
    paused,
    resumed,
    shutting_down,   // the guest has begun to power off
    stopped,         // the domain is gone
    process_exited,  // its process is gone; `stopped`, with the reason, follows later
    agent_connected,
    agent_disconnected,
  };
  Type type;
  std::string uuid;
  PauseReason pause_reason = PauseReason::other;  // of paused
  StopReason stop_reason = StopReason::other;     // of stopped
};

// What runs the domains, for people to read.
struct Versions {
  std::string libvirt;  // "9.0.0"
  std::string driver;   // what libvirt drives: "qemu"
  std::string driver_version;

  friend bool operator==(const Versions&, const Versions&) = default;
};

struct Observer {
  // After every (re)connection, relist(), and now and then: all active domains that carry our mark.
  // What happened while the list was made follows as events.
  std::function<void(std::vector<DomainInfo>)> connected;
  // An active domain that carries our mark and was not started through this object: its start was
  // ordered by an earlier run of the daemon and has come through only now.
  std::function<void(DomainInfo)> found;
  // From now on nothing is known; domains run on.
  std::function<void(std::string why)> disconnected;
  // Of domains that carry our mark.
  std::function<void(Event)> event;
};

class Hypervisor {
 public:
  virtual ~Hypervisor() = default;

  // Starts observing, and connecting until it is destroyed.
  virtual void open(Observer observer) = 0;

  // Asks for another Observer::connected soon, if there is a connection. Does not block.
  virtual void relist() = 0;

  // Throws Unavailable, Refused.
  virtual Versions versions() = 0;

  // Starts the domain, transient. A domain of ours with the same UUID that is active already is
  // success. Throws Unavailable, Refused, NotOurs.
  virtual void start(const Domain& domain) = 0;

  // Asks the guest to power off, by ACPI or by its agent. Returns when it has been asked.
  enum class Ask { power_button, agent };
  virtual void shut_down(const std::string& uuid, Ask ask) = 0;

  // Ends the domain now. One that is not there is success. Throws NotOurs before it harms
  // another's.
  virtual void destroy(const std::string& uuid) = 0;

  // Writes the memory of a domain, and the state of its devices, to `file`, and ends the domain;
  // the disks are as the guest left them. If it fails the domain runs on. Throws Unavailable,
  // Refused, NotOurs.
  virtual void save(const std::string& uuid, const std::string& file) = 0;

  // Makes the network exist as described; one of ours that differs is adapted if nothing is lost by
  // it. Throws NotOurs.
  virtual void ensure_network(const Network& network) = 0;

  // Gives `reservation.address` to `reservation.mac` alone, whoever had it before.
  virtual void reserve(const std::string& network, const Reservation& reservation) = 0;
};

}  // namespace virtset::hypervisor
