"""libvirt, a daemon with the demo image, copies of its domains for virsh: made when first asked for."""

import functools
import os
import pathlib
import random
import subprocess
import uuid
import xml.etree.ElementTree as ElementTree

import host
import recorder
from host import demo_set, eventually, qemu_processes, virsh

VIRSH = ("virsh", "-q", "-c", "qemu:///system")

# As libvirt ships it, but for name, bridge and subnet.
STOCK_NETWORK = """
<network>
  <name>bench-default</name>
  <bridge name='bench-default'/>
  <forward/>
  <ip address='192.168.222.1' netmask='255.255.255.0'>
    <dhcp><range start='192.168.222.2' end='192.168.222.254'/></dhcp>
  </ip>
</network>
"""


class Ground:
    @functools.cached_property
    def libvirt(self):
        libvirt = host.Libvirt()
        libvirt.start()
        return libvirt

    @functools.cached_property
    def guests(self):
        """A daemon that can start demo guests at once."""
        assert self.libvirt
        guests = host.Daemon("guests", "--listen", "off", "--crash-back-off", "0").start()
        guests.import_demo()
        return guests

    @functools.cached_property
    def copies(self):
        return Copies(self.guests, demo_set("original", 1))

    @functools.cached_property
    def still_copies(self):
        return Copies(self.guests, still_set("still", 1))

    @functools.cached_property
    def stock_network(self):
        assert self.libvirt
        file = host.DIR / "bench-default.xml"
        file.write_text(STOCK_NETWORK)
        virsh("net-create", file)
        return "bench-default"


def still_set(name, replicas):
    """Demo guests whose firmware finds nothing to boot, and halts: an emulated boot takes so much of a
    small host that the starts beside it take as long as chance will have it."""
    document = demo_set(name, replicas)
    spec = document["spec"]["template"]["spec"]
    del spec["readinessProbe"]
    spec["domain"]["devices"]["disks"][1]["bootOrder"] = 1  # the seed; then it is the only one
    return document


def remove_set(daemon, name):
    """And waits until nothing runs any more, so that the next measurement has the host for itself."""
    daemon.api.delete("vmirs", name)
    daemon.api.wait("vmi", lambda objects: not objects)
    eventually(lambda: not qemu_processes(), what="the end of all QEMU processes")


class Copy:
    def __init__(self, name, file):
        self.name = name
        self.file = file


class Copies:
    """Domains as our daemon makes them, but for names, UUIDs, MACs and disks of their own."""

    PREFIX = "copy_"

    def __init__(self, daemon, document):
        name = document["metadata"]["name"]
        self.prefix = f"{self.PREFIX}{name}_"
        self.directory = host.DIR / f"copies-{name}"
        self.directory.mkdir(mode=0o711)
        self.made = 0
        api = daemon.api
        with recorder.Recorder(api, "vmi") as changes:
            api.create("vmirs", document)
            _, instance = changes.wait(lambda _, o: recorder.phase_of(o) == "Running")
        self.xml = virsh("dumpxml", "--inactive", "default_" + recorder.name_of(instance))
        original = ElementTree.fromstring(self.xml)
        overlay, seed = original.findall("devices/disk")
        # Links: they stay when the original goes.
        self.base = self.directory / "base.img"
        os.link(overlay.find("backingStore/source").get("file"), self.base)
        self.seed = self.directory / "seed.iso"
        os.link(seed.find("source").get("file"), self.seed)
        remove_set(daemon, name)
        self.network = original.find("devices/interface/source").get("network")
        # The daemon hands them out from the front.
        reserved = ElementTree.fromstring(virsh("net-dumpxml", self.network))
        self.macs = [entry.get("mac") for entry in reserved.findall("ip/dhcp/host")][::-1]

    def overlay(self, name):
        file = self.directory / (name + ".qcow2")
        host.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.base, file)
        return file

    def make(self, count, network=None):
        """Ready for `virsh create`."""
        return [self.make_one(number, network) for number in range(count)]

    def make_one(self, number, network):
        self.made += 1
        name = f"{self.prefix}{self.made}"
        domain = ElementTree.fromstring(self.xml)
        domain.find("name").text = name
        identity = str(uuid.uuid4())
        domain.find("uuid").text = identity
        for entry in domain.findall("sysinfo/system/entry"):
            if entry.get("name") == "uuid":
                entry.text = identity
        # Without our mark: the daemon must let it be.
        domain.remove(domain.find("metadata"))
        for label in domain.findall("seclabel"):
            domain.remove(label)
        for channel in domain.findall("devices/channel"):
            for source in channel.findall("source"):
                channel.remove(source)
        interface = domain.find("devices/interface")
        interface.find("source").set("network", network or self.network)
        # On another network it must be a stranger: dnsmasq greets a known MAC at once.
        stranger = "52:54:00:" + random.randbytes(3).hex(":")
        interface.find("mac").set("address", stranger if network else self.macs[number])
        overlay, seed = domain.findall("devices/disk")
        overlay.find("source").set("file", str(self.overlay(name)))
        overlay.find("backingStore/source").set("file", str(self.base))
        seed.find("source").set("file", str(self.seed))
        file = pathlib.Path(self.directory, name + ".xml")
        file.write_bytes(ElementTree.tostring(domain))
        return Copy(name, file)

    def remove(self, copies):
        names = "\n".join(copy.name for copy in copies)
        subprocess.run(["xargs", "-P", "2", "-n", "1", *VIRSH, "destroy"], input=names, text=True,
                       check=False, capture_output=True, timeout=120)
        for copy in copies:
            copy.file.unlink()
            (self.directory / (copy.name + ".qcow2")).unlink()
        eventually(lambda: not qemu_processes(self.PREFIX), what="the end of all copies")
