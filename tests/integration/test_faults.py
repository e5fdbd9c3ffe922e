"""Random faults on real guests; the promises P1 to P6 are checked from libvirt, /proc and the disk.

tests/run.sh faults -- --faults 200 --seed N
"""

import os
import random
import signal
import threading
import time

import pytest

import host
from client import ApiError, address_of
from host import demo_set, eventually, http_get, qemu_processes, virsh

SETS = ("alpha", "beta")
MOST_REPLICAS = 3
START_UNDER_WAY = 3  # seconds that libvirt may take on this host to start what was ordered


class Bound(threading.Thread):
    """P1: never more QEMU processes of a set than replicas, looked at all the time."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock = threading.Lock()
        self.told = {name: [(0, 0)] for name in SETS}  # when, and how many
        self.known = set()
        self.violations = []
        self.most = 0
        self.ending = False

    def allow(self, name, replicas):
        with self.lock:
            self.told[name].append((time.monotonic(), replicas))

    def allowed(self, name):
        """Those that are there when a set is made smaller may still run, and a start that was ordered
        before may still come through; but none may be ordered."""
        with self.lock:
            since = time.monotonic() - START_UNDER_WAY
            old = [replicas for when, replicas in self.told[name] if when <= since][-1]
            return max([old] + [replicas for when, replicas in self.told[name] if when > since])

    def run(self):
        while not self.ending:
            for name in SETS:
                allowed = self.allowed(name)
                found = qemu_processes(f"default_{name}")
                new = {pid for pid in found.values() if pid not in self.known}
                # One look at /proc takes a while: those that were seen first must still be there.
                if new and len(found) > allowed and all(alive(pid) for pid in found.values()):
                    self.violations.append(f"{name}: {found}, {allowed} allowed")
                self.known |= new
                self.most = max(self.most, len(found))
            time.sleep(0.01)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")")[1].split()[0] not in "ZX"
    except OSError:
        return False


class Host:
    """What is done to it, each method one fault."""

    def __init__(self, libvirt, registry, seed):
        self.libvirt = libvirt
        self.registry = registry
        self.random = random.Random(seed)
        self.bound = Bound()
        self.data = host.DIR / "faults-data"
        self.data.mkdir(mode=0o711)
        host.run("mount", "-t", "tmpfs", "-o", "size=300m,mode=0711", "tmpfs", self.data)
        self.daemon = host.Daemon(
            "faults", "--data-dir", self.data / "data", "--insecure-registry", registry.address,
            "--crash-back-off", "0", "--image-high-water", "100", "--image-low-water", "100").start()
        self.api = self.daemon.api
        self.image = registry.push_demo("faults:1")
        self.replicas = {}

    def create(self, name, replicas):
        # A guest that hangs is for its liveness probe to find; once in some hundred boots one of the
        # demo guests does not become ready.
        document = demo_set(name, replicas, image=self.image, livenessProbe={
            "httpGet": {"port": 80}, "initialDelaySeconds": 60, "periodSeconds": 10,
            "timeoutSeconds": 5, "failureThreshold": 3})
        # Overlapping selectors: only the owner tells whose a replica is.
        document["spec"]["selector"] = {"matchLabels": {"app": "shared"}}
        document["spec"]["template"]["metadata"]["labels"] = {"app": "shared"}
        self.api.create("vmirs", document)
        self.bound.allow(name, replicas)
        self.replicas[name] = replicas

    def any_domain(self):
        found = sorted(qemu_processes().items())
        return self.random.choice(found) if found else (None, None)

    def kill_qemu(self):
        _, pid = self.any_domain()
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def power_off_guest(self):
        if domain := self.any_domain()[0]:
            virsh("shutdown", domain, "--mode", "acpi", check=False)

    def destroy_domain(self):
        if domain := self.any_domain()[0]:
            virsh("destroy", domain, check=False)

    def stop_libvirt(self):
        self.libvirt.stop()
        self.do_something_meanwhile(3)
        self.libvirt.start()

    def kill_libvirt(self):
        self.libvirt.stop(signal.SIGKILL)
        self.do_something_meanwhile(1)
        self.libvirt.start()

    def stop_daemon(self):
        self.daemon.stop()
        self.do_something_meanwhile(1)
        self.daemon.start()

    def kill_daemon(self):
        self.daemon.kill()
        self.do_something_meanwhile(1)
        self.daemon.start()

    def do_something_meanwhile(self, seconds):
        if self.random.random() < 0.5:
            self.kill_qemu()
        time.sleep(self.random.uniform(0, seconds))

    def registry_gone(self):
        self.registry.stop()
        self.kill_qemu()
        time.sleep(self.random.uniform(0, 2))
        self.registry.start()

    def fill_disk(self):
        filler = self.data / "filler"
        with open(filler, "wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(1 << 20))
            except OSError:
                pass
        self.kill_qemu()
        time.sleep(self.random.uniform(0, 2))
        filler.unlink()

    def scale(self):
        name = self.random.choice(SETS)
        replicas = self.random.randint(0, MOST_REPLICAS)
        # Raised before and lowered after it is acknowledged.
        self.bound.allow(name, max(replicas, self.replicas[name]))
        self.api.scale(name, replicas)
        self.bound.allow(name, replicas)
        self.replicas[name] = replicas

    def scale_storm(self):
        for _ in range(4):
            self.scale()

    def create_and_delete(self):
        self.api.create("vmirs", demo_set("gamma", 2, image=self.image))
        time.sleep(self.random.uniform(0, 1))
        self.api.delete("vmirs", "gamma")

    def delete_replica(self):
        replicas = self.api.list("vmi")
        if replicas:
            name = self.random.choice(replicas)["metadata"]["name"]
            try:
                self.api.delete("vmi", name)
            except ApiError as error:
                assert error.code == 404, error

    def recreate_set(self):
        """Its replicas go with it; the new one must not count or take them."""
        name = self.random.choice(SETS)
        self.api.delete("vmirs", name)
        self.api.wait("vmirs", lambda sets: name not in sets)
        self.api.wait("vmi", lambda objects: not any(
            o["metadata"].get("generateName") == name for o in objects.values()))
        self.create(name, self.replicas[name])

    FAULTS = (kill_qemu, kill_qemu, power_off_guest, destroy_domain, stop_libvirt, kill_libvirt,
              stop_daemon, kill_daemon, registry_gone, fill_disk, scale, scale, scale_storm,
              create_and_delete, delete_replica, recreate_set)

    def check(self):
        """P5, and that nothing leaked."""
        self.api.wait("vmirs", lambda sets: set(sets) == set(SETS))
        for name in SETS:
            self.api.wait_ready(name, self.replicas[name], timeout=180)
        wanted = sum(self.replicas.values())
        # What was deleted last may still be on its way out.
        self.api.wait("vmi", lambda objects: len(objects) == wanted)
        eventually(lambda: len(qemu_processes()) == wanted, what="the end of surplus processes")
        for name in SETS:
            assert len(qemu_processes(f"default_{name}")) == self.replicas[name]
            # P2: what was acknowledged is what is there.
            assert self.api.get("vmirs", name)["spec"]["replicas"] == self.replicas[name]
        eventually(lambda: len(virsh("list", "--name").split()) == wanted + 1,
                   what="libvirt's agreement")
        instances = self.api.list("vmi")
        assert len(instances) == wanted
        addresses = [address_of(i) for i in instances]
        assert len(set(addresses)) == wanted
        for instance in instances:
            assert http_get(address_of(instance)) == instance["metadata"]["name"]
        eventually(lambda: {p.name for p in (self.data / "data" / "vms").iterdir()} ==
                   {i["metadata"]["uid"] for i in instances}, what="removal of old disks")
        children = host.run("ps", "--no-headers", "-o", "comm", "--ppid", str(self.daemon.pid),
                            check=False).split()
        assert children == [], "processes were left behind"
        assert self.bound.violations == []

    def check_restart(self):
        """P3."""
        before = qemu_processes()
        uptimes = {i["metadata"]["name"]: float(http_get(address_of(i), "/uptime"))
                   for i in self.api.list("vmi")}
        self.daemon.kill()
        self.daemon.start()
        for name in SETS:
            self.api.wait_ready(name, self.replicas[name], timeout=60)
        assert qemu_processes() == before
        for instance in self.api.list("vmi"):
            assert float(http_get(address_of(instance), "/uptime")) > \
                uptimes[instance["metadata"]["name"]]


@pytest.fixture
def machine(libvirt, registry, request):
    pid = host.start_foreign_domain("other")
    machine = Host(libvirt, registry, request.config.getoption("--seed"))
    for name in SETS:
        machine.create(name, 2)
    machine.bound.start()
    yield machine
    machine.bound.ending = True
    machine.bound.join()
    # P4.
    assert qemu_processes("other") == pid
    virsh("destroy", "other")
    for name in SETS:
        machine.api.delete("vmirs", name)
    machine.api.wait("vmi", lambda objects: not objects)
    eventually(lambda: not qemu_processes(), what="the end of all QEMU processes")
    machine.daemon.stop()
    virsh("net-destroy", "virtset0")
    assert list((machine.data / "data" / "vms").iterdir()) == []
    host.run("umount", "-l", machine.data)


def test_promises_hold_under_random_faults(machine, request):
    count = request.config.getoption("--faults")
    begun = time.monotonic()
    machine.check()
    for number in range(1, count + 1):
        fault = machine.random.choice(Host.FAULTS)
        print(f"{time.monotonic() - begun:7.1f} s  {number:3}  {fault.__name__}  {machine.replicas}",
              flush=True)
        fault(machine)
        time.sleep(machine.random.choice((0, 0.1, 0.5, 2)))
        if number % 8 == 0 or number == count:
            machine.check()
            machine.check_restart()
    print(f"{count} faults in {time.monotonic() - begun:.0f} s; at most {machine.bound.most} "
          "processes of a set at a time, never more than it may have")
