#include <fmt/format.h>
#include <pugixml.hpp>

#include <map>
#include <sstream>

#include "hypervisor/xml.h"

namespace virtset::hypervisor {

namespace {

using Node = pugi::xml_node;

Node add(Node parent, const char* name) { return parent.append_child(name); }

template <typename Value>
void set(Node node, const char* attribute, const Value& value) {
  if constexpr (std::is_same_v<Value, std::string>) {
    node.append_attribute(attribute) = value.c_str();
  } else {
    node.append_attribute(attribute) = value;
  }
}

void add_text(Node parent, const char* name, const std::string& text) {
  add(parent, name).text() = text.c_str();
}

std::string to_text(const pugi::xml_document& document) {
  std::ostringstream out;
  document.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
  return out.str();
}

void add_mark(Node domain, const Mark& mark) {
  Node element = add(add(domain, "metadata"), "virtset:vmi");
  set(element, "xmlns:virtset", std::string(mark_namespace));
  add_text(element, "virtset:installation", mark.installation);
  add_text(element, "virtset:namespace", mark.ns);
  add_text(element, "virtset:name", mark.name);
  add_text(element, "virtset:uid", mark.uid);
  add_text(element, "virtset:specHash", mark.spec_hash);
}

void add_memory(Node domain, std::uint64_t bytes) {
  Node memory = add(domain, "memory");
  set(memory, "unit", "b");
  memory.text() = static_cast<unsigned long long>(bytes);
}

void add_cpu(Node domain, const Domain& description) {
  const Cpu& cpu = description.cpu;
  Node vcpu = add(domain, "vcpu");
  set(vcpu, "placement", "static");
  vcpu.text() = cpu.count();
  if (cpu.limit_millis > 0) {
    // One period of 100 ms, of which the domain may use limit_millis per cent times ten.
    Node tune = add(domain, "cputune");
    add(tune, "global_period").text() = 100'000;
    add(tune, "global_quota").text() = static_cast<unsigned long long>(cpu.limit_millis) * 100;
  }
}

// KubeVirt fills in the same names, and guests look for them there.
void add_sysinfo(Node domain, const Domain& description) {
  Node sysinfo = add(domain, "sysinfo");
  set(sysinfo, "type", "smbios");
  Node system = add(sysinfo, "system");
  const auto entry = [&](const char* name, const std::string& value) {
    Node node = add(system, "entry");
    set(node, "name", name);
    node.text() = value.c_str();
  };
  entry("manufacturer", "KubeVirt");
  entry("product", "None");
  if (!description.serial.empty()) entry("serial", description.serial);
  entry("uuid", description.uuid);
  entry("family", "KubeVirt");
}

void add_os(Node domain, const Domain& description) {
  Node os = add(domain, "os");
  Node type = add(os, "type");
  set(type, "arch", "x86_64");
  set(type, "machine", description.machine);
  type.text() = "hvm";
  set(add(os, "smbios"), "mode", "sysinfo");
  Node features = add(domain, "features");
  add(features, "acpi");
  set(add(features, "vmport"), "state", "off");
}

void add_cpu_model(Node domain, const Domain& description) {
  const Cpu& cpu = description.cpu;
  Node node = add(domain, "cpu");
  const bool of_the_host = cpu.model == "host-model" || cpu.model == "host-passthrough";
  if (of_the_host && description.emulated) {
    // There is no host CPU behind an emulated one; what comes nearest is all that QEMU can do.
    set(node, "mode", "maximum");
  } else if (of_the_host) {
    set(node, "mode", cpu.model);
  } else {
    set(node, "mode", "custom");
    set(node, "match", "exact");
    Node model = add(node, "model");
    set(model, "fallback", "forbid");
    model.text() = cpu.model.c_str();
  }
  Node topology = add(node, "topology");
  set(topology, "sockets", cpu.sockets);
  set(topology, "dies", 1);
  set(topology, "cores", cpu.cores);
  set(topology, "threads", cpu.threads);
}

void add_lifecycle(Node domain) {
  set(add(domain, "clock"), "offset", "utc");
  // A reboot of the guest is not an end; everything else is, and is healed by the daemon.
  add_text(domain, "on_poweroff", "destroy");
  add_text(domain, "on_reboot", "restart");
  add_text(domain, "on_crash", "destroy");
}

void add_alias(Node device, const std::string& name) {
  // KubeVirt: ua- marks an alias that a user chose. libvirt allows [a-zA-Z0-9_-] in it, which is
  // what admission allows in names of disks and interfaces.
  set(add(device, "alias"), "name", "ua-" + name);
}

void add_boot_order(Node device, std::optional<int> order) {
  if (order) set(add(device, "boot"), "order", *order);
}

// vda, vdb, … vdz, vdaa, …; sata disks and cdroms share sda, sdb, …
class TargetNames {
 public:
  std::string next(const std::string& bus) {
    const std::string prefix = bus == "virtio" ? "vd" : "sd";
    int index = used_[prefix]++;
    std::string letters;
    for (++index; index > 0; index = (index - 1) / 26) {
      letters.insert(letters.begin(), static_cast<char>('a' + (index - 1) % 26));
    }
    return prefix + letters;
  }

 private:
  std::map<std::string, int> used_;
};

void add_backing(Node disk, const std::optional<Backing>& backing) {
  Node store = add(disk, "backingStore");
  if (!backing) return;
  set(store, "type", "file");
  set(add(store, "format"), "type", backing->format);
  Node source = add(store, "source");
  set(source, "file", backing->path);
  if (!backing->is_private) {
    // Shared by all replicas and world-readable: libvirt shall not change its owner.
    Node label = add(source, "seclabel");
    set(label, "model", "dac");
    set(label, "relabel", "no");
  }
  add(store, "backingStore");
}

void add_disk(Node devices, const Disk& disk, TargetNames& targets) {
  const bool cdrom = disk.device == Disk::Device::cdrom;
  Node node = add(devices, "disk");
  set(node, "type", "file");
  set(node, "device", cdrom ? "cdrom" : "disk");
  Node driver = add(node, "driver");
  set(driver, "name", "qemu");
  set(driver, "type", disk.format);
  if (!disk.cache.empty()) set(driver, "cache", disk.cache);
  set(driver, "error_policy", "stop");
  if (!cdrom) set(driver, "discard", "unmap");
  set(add(node, "source"), "file", disk.path);
  add_backing(node, disk.backing);
  Node target = add(node, "target");
  set(target, "dev", targets.next(disk.bus));
  set(target, "bus", disk.bus);
  if (disk.read_only) add(node, "readonly");
  if (disk.shareable) add(node, "shareable");
  if (!disk.serial.empty()) add_text(node, "serial", disk.serial);
  add_boot_order(node, disk.boot_order);
  add_alias(node, disk.name);
}

void add_interface(Node devices, const Interface& interface) {
  Node node = add(devices, "interface");
  set(node, "type", "network");
  set(add(node, "source"), "network", interface.network);
  set(add(node, "mac"), "address", interface.mac);
  set(add(node, "model"), "type",
      interface.model == "virtio" ? std::string("virtio-non-transitional") : interface.model);
  add_boot_order(node, interface.boot_order);
  // An option ROM costs boot time and serves only to boot from the network.
  if (!interface.boot_order) set(add(node, "rom"), "enabled", "no");
  add_alias(node, interface.name);
}

void add_fixed_devices(Node devices) {
  Node usb = add(devices, "controller");
  set(usb, "type", "usb");
  set(usb, "model", "none");

  Node serial = add(devices, "serial");
  set(serial, "type", "pty");
  set(add(serial, "target"), "port", 0);
  Node console = add(devices, "console");
  set(console, "type", "pty");
  Node console_target = add(console, "target");
  set(console_target, "type", "serial");
  set(console_target, "port", 0);

  Node channel = add(devices, "channel");
  set(channel, "type", "unix");
  Node agent = add(channel, "target");
  set(agent, "type", "virtio");
  set(agent, "name", "org.qemu.guest_agent.0");

  Node balloon = add(devices, "memballoon");
  set(balloon, "model", "virtio-non-transitional");
  set(balloon, "freePageReporting", "on");
}

void add_rng(Node devices) {
  Node rng = add(devices, "rng");
  set(rng, "model", "virtio-non-transitional");
  Node backend = add(rng, "backend");
  set(backend, "model", "random");
  backend.text() = "/dev/urandom";
}

}  // namespace

std::string domain_xml(const Domain& description) {
  pugi::xml_document document;
  Node domain = document.append_child("domain");
  set(domain, "type", description.emulated ? "qemu" : "kvm");
  add_text(domain, "name", description.name);
  add_text(domain, "uuid", description.uuid);
  add_mark(domain, description.mark);
  add_memory(domain, description.memory_bytes);
  add_cpu(domain, description);
  add_sysinfo(domain, description);
  add_os(domain, description);
  add_cpu_model(domain, description);
  add_lifecycle(domain);
  Node devices = add(domain, "devices");
  TargetNames targets;
  for (const Disk& disk : description.disks) add_disk(devices, disk, targets);
  for (const Interface& interface : description.interfaces) add_interface(devices, interface);
  add_fixed_devices(devices);
  if (description.rng) add_rng(devices);
  if (!description.panic.empty()) set(add(devices, "panic"), "model", description.panic);
  return to_text(document);
}

std::string moved_domain_xml(const std::string& saved, const Domain& description) {
  pugi::xml_document document;
  document.load_string(saved.c_str());
  Node domain = document.child("domain");
  domain.remove_child("metadata");
  add_mark(domain, description.mark);
  for (const Disk& disk : description.disks) {
    const std::string alias = "ua-" + disk.name;
    for (Node node : domain.child("devices").children("disk")) {
      if (node.child("alias").attribute("name").value() != alias) continue;
      node.child("source").attribute("file").set_value(disk.path.c_str());
      // All that libvirt has found out about the chain is about the old one.
      node.child("source").remove_attribute("index");
      node.remove_child("backingStore");
      add_backing(node, disk.backing);
    }
  }
  return to_text(document);
}

std::optional<Mark> parse_mark(const std::string& metadata) {
  pugi::xml_document document;
  if (!document.load_string(metadata.c_str())) return std::nullopt;
  const Node element = document.document_element();
  // virDomainGetMetadata gives the element back without the prefixes that it was written with.
  const auto child = [&](const std::string& name) {
    const Node plain = element.child(name.c_str());
    return std::string((plain ? plain : element.child(("virtset:" + name).c_str())).child_value());
  };
  Mark mark{child("installation"), child("namespace"), child("name"), child("uid"),
            child("specHash")};
  if (mark.installation.empty() || mark.uid.empty()) return std::nullopt;
  return mark;
}

bool agent_is_connected(const std::string& xml) {
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) return false;
  for (const Node channel : document.child("domain").child("devices").children("channel")) {
    const Node target = channel.child("target");
    if (std::string_view(target.attribute("name").value()) == "org.qemu.guest_agent.0") {
      return std::string_view(target.attribute("state").value()) == "connected";
    }
  }
  return false;
}

}  // namespace virtset::hypervisor
