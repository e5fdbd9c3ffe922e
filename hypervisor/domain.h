// What the daemon asks of a hypervisor, as plain data: a domain to run and a network to plug it
// into.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace virtset::hypervisor {

// Says whose a domain is. It is written into the domain's metadata, so that it is found there after
// any crash, and nothing without it is ever touched.
struct Mark {
  std::string installation;  // of the daemon that owns it
  std::string ns;            // of the VirtualMachineInstance
  std::string name;
  std::string uid;
  std::string spec_hash;  // of the spec it was started from

  friend bool operator==(const Mark&, const Mark&) = default;
};

struct Backing {
  std::string path;
  std::string format;  // "raw" or "qcow2"
  // Only its owner may read it, so it is given to QEMU's user; else everybody may.
  bool is_private = false;
};

struct Disk {
  enum class Device { disk, cdrom };
  std::string name;  // of the KubeVirt disk; the alias is ua-<name>
  Device device = Device::disk;
  std::string bus;  // "virtio" or "sata"
  std::string path;
  std::string format;              // "raw" or "qcow2"
  std::optional<Backing> backing;  // given, so that nobody has to guess what is behind an overlay
  bool read_only = false;
  bool shareable = false;  // others may write to it at the same time
  std::string serial;      // empty: none
  std::string cache;       // empty: the hypervisor's default
  std::optional<int> boot_order;
};

struct Interface {
  std::string name;     // of the KubeVirt interface; the alias is ua-<name>
  std::string network;  // of libvirt
  std::string mac;
  std::string model;  // "virtio", "e1000", …
  std::optional<int> boot_order;
};

struct Cpu {
  unsigned sockets = 1;
  unsigned cores = 1;
  unsigned threads = 1;
  // "host-model", "host-passthrough", or the name of a model.
  std::string model = "host-model";
  // Upper bound on CPU time in thousandths of a CPU; 0: none.
  unsigned limit_millis = 0;

  unsigned count() const { return sockets * cores * threads; }
};

struct Domain {
  std::string name;  // <namespace>_<name>
  std::string uuid;  // also the firmware's
  Mark mark;
  bool emulated = false;  // by QEMU itself rather than KVM
  std::string machine = "q35";
  Cpu cpu;
  std::uint64_t memory_bytes = 0;
  std::string serial;  // of the SMBIOS system; empty: none
  bool rng = false;    // a source of entropy
  std::string panic;   // model of the device by which the guest tells that it panicked; empty: none
  std::vector<Disk> disks;
  std::vector<Interface> interfaces;
  // What Hypervisor::save wrote of this domain: it goes on from there. Empty: it boots.
  std::string memory_file;
};

// An address that DHCP gives to one MAC and to nobody else.
struct Reservation {
  std::string mac;
  std::string address;

  friend auto operator<=>(const Reservation&, const Reservation&) = default;
};

// A NAT network of our own. All addresses are reserved before a guest boots, which makes DHCP
// immediate: dnsmasq has nothing to probe.
struct Network {
  std::string name;
  std::string bridge;
  std::string installation;
  std::string gateway;
  unsigned prefix_length = 0;
  std::string first_address;
  std::string last_address;
  std::vector<Reservation> reservations;
};

}  // namespace virtset::hypervisor
