"""A set of 10,000 on libvirt's test driver: what each replica costs when nothing else does."""

import os
import pathlib
import re
import subprocess
import time
import uuid

import host
from measure import Row, memory_mib

COUNT = 10_000
IDLE_SECONDS = 5
# What the daemon makes of bare_set(), but for numbers.
MINIMAL = pathlib.Path(__file__).parents[1] / "unit" / "hypervisor" / "golden" / "minimal.xml"


def bare_set(count):
    """No disks, no network: all that is left is ours."""
    document = host.demo_set("many", count)
    spec = document["spec"]["template"]["spec"]
    for field in ("readinessProbe", "networks", "volumes"):
        del spec[field]
    spec["domain"]["devices"] = {"autoattachPodInterface": False}
    return document


def ticks(pid):
    fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")")[1].split()
    return int(fields[11]) + int(fields[12])


def idle_ticks(pid):
    """Of its CPU time, once it has come to rest."""
    last = -1

    def rests():
        nonlocal last
        time.sleep(0.5)  # what is measured
        before, last = last, ticks(pid)
        return last == before

    host.eventually(rests, 30, "rest")
    before = ticks(pid)
    time.sleep(IDLE_SECONDS)  # what is measured
    return ticks(pid) - before


def create_and_delete(daemon):
    """Seconds to count and, after a rest, to none; memory and idle ticks at count."""
    api = daemon.api
    begun = time.monotonic()
    api.create("vmirs", bare_set(COUNT))
    api.wait_ready("many", COUNT, timeout=120)
    created = time.monotonic() - begun
    idle = idle_ticks(daemon.pid)
    memory = memory_mib(daemon.pid)
    begun = time.monotonic()
    # The set goes last, so that one watch of one object sees the end.
    api.delete("vmirs", "many", propagationPolicy="Foreground")
    api.wait("vmirs", lambda objects: "many" not in objects, timeout=120)
    deleted = time.monotonic() - begun
    assert api.list("vmi") == []
    return created, deleted, memory, idle


def create_by_virsh(count):
    """Seconds and MiB of one virsh that is told so many times, in the words that the daemon uses."""
    xml = MINIMAL.read_text()
    known = {tag: re.search(f"<{tag}>(.*)</{tag}>", xml).group(1) for tag in ("name", "uuid")}
    folder = host.DIR / "test-domains"
    folder.mkdir(exist_ok=True)
    commands = []
    for number in range(count):
        file = folder / f"{number}.xml"
        file.write_text(xml.replace(known["name"], f"many{number}")
                        .replace(known["uuid"], str(uuid.uuid4())))
        commands.append(f"create {file}\n")
    batch = host.DIR / "test-domains.batch"
    batch.write_text("".join(commands))
    with open(batch, encoding="ascii") as commands:
        begun = time.monotonic()
        virsh = subprocess.Popen(["virsh", "-q", "-c", "test:///default"], stdin=commands,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = virsh.stderr.read()
        _, status, usage = os.wait4(virsh.pid, 0)
    took = time.monotonic() - begun
    virsh.returncode = os.waitstatus_to_exitcode(status)
    assert virsh.returncode == 0 and not errors, errors
    return took, usage.ru_maxrss / 1024


def ten_thousand(ground):
    libvirtd = memory_mib(ground.libvirt.libvirtd.popen.pid)
    fresh = host.Daemon("fresh").start()
    fresh_memory = memory_mib(fresh.pid)
    fresh_private = memory_mib(fresh.pid, "RssAnon")
    fresh.stop()
    daemon = host.Daemon("test-driver", "--libvirt-uri", "test:///default", "--guest-memory",
                         "-1", "--listen", "off", "--log-level", "warning").start()
    created, deleted, memory, idle = create_and_delete(daemon)
    peak = memory_mib(daemon.pid, "VmHWM")
    left = memory_mib(daemon.pid)
    daemon.stop()
    virsh_took, virsh_memory = create_by_virsh(COUNT)
    # The test driver keeps its domains in the process that asks for them.
    domains = virsh_memory - create_by_virsh(1)[1]
    return [
        Row(f"{COUNT} replicas on test:/// until ready", f"{COUNT / created:.0f}/s",
            f"{COUNT / virsh_took:.0f}/s one virsh, told by a file", virsh_took / created,
            ">= 3000/s", COUNT / created >= 3000),
        Row(f"  CPU in {IDLE_SECONDS} idle seconds then", f"{idle} ticks", "-", None, "<= 1",
            idle <= 1),
        Row("  memory then, without the driver's", f"{memory - domains:.0f} MiB",
            f"{domains:.0f} MiB the driver's", (memory - domains) / domains, "<= 150 MiB",
            memory - domains <= 150),
        Row("  memory at its peak, and when all are deleted", f"{peak:.0f}, {left:.0f} MiB"),
        Row("  all deleted", f"{COUNT / deleted:.0f}/s"),
        Row("memory of a fresh daemon, qemu:///system, TLS",
            f"{fresh_memory:.1f} MiB, {fresh_private:.1f} not shared",
            f"{libvirtd:.0f} MiB libvirtd", fresh_memory / libvirtd, "<= 20 MiB",
            fresh_memory <= 20),
    ]
