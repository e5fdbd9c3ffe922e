"""Each fault by itself: the set is back at count and ready without anybody's help, nothing is left over."""

import os
import pathlib
import signal
import threading
import time

import pytest

import host
from client import address_of, condition
from host import demo_set, eventually, http_get, qemu_processes, virsh


@pytest.fixture
def web(api):
    """A set of two that is ready; returns the pids by domain."""
    api.create("vmirs", demo_set(replicas=2))
    api.wait_ready("web", 2)
    return qemu_processes("default_web")


def instance_of(domain):
    return domain.removeprefix("default_")


def wait_for_replacement(api, lost, others, replicas=2):
    """`lost` is gone with its disks, the others were let be, the set is ready again."""
    api.wait("vmi", lambda objects: instance_of(lost) not in objects)
    api.wait_ready("web", replicas)
    now = qemu_processes("default_web")
    assert len(now) == replicas and lost not in now
    assert {d: p for d, p in now.items() if d in others} == others, "another guest was restarted"


def test_killed_qemu_is_replaced_at_once(daemon, api, web):
    (lost, pid), (kept, kept_pid) = sorted(web.items())
    revision = api.call("GET", api.path("vmi"))["metadata"]["resourceVersion"]
    disks = {p.name for p in (daemon.directory / "data" / "vms").iterdir()}
    created = []

    def await_creation():
        for change, document in api.watch("vmi", revision, time.monotonic() + 20):
            if change == "ADDED":
                created.append(time.monotonic())
                return

    watcher = threading.Thread(target=await_creation)
    watcher.start()
    time.sleep(0.5)  # so that the watch is there; the test does not depend on it
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    watcher.join()
    assert created, "no replacement within 20 s"
    # Commands of libvirt to the other guests may be under way on this slow host.
    assert created[0] - killed < 0.25
    wait_for_replacement(api, lost, {kept: kept_pid})
    after = {p.name for p in (daemon.directory / "data" / "vms").iterdir()}
    assert len(after) == len(disks) == 2 and after != disks, "the old disks are still there"
    reasons = [e["reason"] for e in api.events_of(instance_of(lost))]
    assert "Stopped" in reasons, reasons


def test_guest_that_powers_itself_off_is_replaced(api, web):
    (lost, _), (kept, kept_pid) = sorted(web.items())
    terminal = virsh("ttyconsole", lost).strip()
    # Held open: QEMU looks only now and then whether someone is there.
    with open(terminal, "w", encoding="ascii") as console:
        console.write("\npoweroff\n")
        console.flush()
        wait_for_replacement(api, lost, {kept: kept_pid})


def test_domain_destroyed_from_outside_is_replaced(api, web):
    (lost, _), (kept, kept_pid) = sorted(web.items())
    virsh("destroy", lost)
    wait_for_replacement(api, lost, {kept: kept_pid})


def test_other_domains_and_networks_are_let_be(daemon, api, web):
    virsh("create", "/dev/stdin", check=False)  # an empty one is refused, and harms nothing
    # A name as ours are: only the mark counts.
    pid = host.start_foreign_domain("default_web-other")
    try:
        api.scale("web", 3)
        api.wait_ready("web", 3)
        daemon.stop()
        daemon.start()
        api.delete("vmirs", "web")
        api.wait("vmi", lambda objects: not objects)
        eventually(lambda: qemu_processes("default_web") == pid)
        assert "default_web-other" not in daemon.process.log()
    finally:
        virsh("destroy", "default_web-other")


def test_killed_daemon_adopts_what_runs_and_replaces_what_died(daemon, api):
    api.create("vmirs", demo_set(replicas=5))
    api.wait_ready("web", 5)
    before = {i["metadata"]["name"]: (i["metadata"]["uid"], address_of(i))
              for i in api.replicas("web")}
    uptimes = {name: float(http_get(address, "/uptime")) for name, (_, address) in before.items()}
    processes = qemu_processes("default_web")
    daemon.kill()
    lost, pid = sorted(processes.items())[0]
    os.kill(pid, signal.SIGKILL)
    kept = {d: p for d, p in processes.items() if d != lost}
    for domain in kept:
        name = instance_of(domain)
        assert float(http_get(before[name][1], "/uptime")) > uptimes[name]
    daemon.start()
    wait_for_replacement(api, lost, kept, replicas=5)
    for domain in kept:
        name = instance_of(domain)
        assert api.get("vmi", name)["metadata"]["uid"] == before[name][0]
        assert float(http_get(before[name][1], "/uptime")) > uptimes[name]


def test_stopped_daemon_finds_its_guests_again(daemon, api, web):
    daemon.stop()
    assert qemu_processes("default_web") == web
    daemon.start()
    api.wait_ready("web", 2)
    assert qemu_processes("default_web") == web


def test_daemon_killed_while_guests_start_makes_none_twice(daemon, api):
    for delay in (0.02, 0.15, 0.4, 0.8):
        api.create("vmirs", demo_set(replicas=4))
        time.sleep(delay)  # a moment like any other
        daemon.kill()
        daemon.start()
        api.wait_ready("web", 4)
        assert len(qemu_processes("default_web")) == 4
        api.delete("vmirs", "web")
        api.wait("vmi", lambda objects: not objects)
        eventually(lambda: not qemu_processes("default_web"))


def test_libvirt_away_is_said_and_harms_nobody(libvirt, daemon, api, web):
    libvirt.stop()
    try:
        # Said on what waits for it; nothing is believed dead.
        api.scale("web", 3)
        waiting = api.wait("vmi", lambda objects: [
            v for v in objects.values() if "libvirt" in str(condition(v, "PodScheduled"))
            or "hypervisor" in str(v.get("status", {}).get("conditions")).lower()])
        assert len(waiting) == 1
        assert qemu_processes("default_web") == web
        lost, pid = sorted(web.items())[0]
        os.kill(pid, signal.SIGKILL)
    finally:
        libvirt.start()
    api.wait_ready("web", 3)
    assert {d: p for d, p in qemu_processes("default_web").items() if d in web} == \
        {d: p for d, p in web.items() if d != lost}


def test_libvirt_killed_while_guests_start(libvirt, api):
    for _ in range(2):
        api.create("vmirs", demo_set(replicas=4))
        eventually(lambda: qemu_processes("default_web"), what="the first QEMU")
        libvirt.stop(signal.SIGKILL)
        libvirt.start()
        api.wait_ready("web", 4, timeout=180)
        assert len(qemu_processes("default_web")) == 4
        assert len(virsh("list", "--name").split()) == 4
        api.delete("vmirs", "web")
        api.wait("vmi", lambda objects: not objects)


def test_crash_loop_backs_off_and_says_so(api):
    document = demo_set(replicas=1)
    # A guest that powers off as soon as it is up.
    document["spec"]["template"]["spec"]["volumes"][1]["cloudInitNoCloud"]["userData"] = \
        "#!/bin/sh\npoweroff\n"
    document["spec"]["template"]["spec"].pop("readinessProbe")
    api.create("vmirs", document)
    api.wait("vmirs", lambda objects: "BackOff" in str(objects["web"].get("status", {}))
             or any("BackOff" in e["reason"] for e in api.events_of("web")), timeout=120)


def test_full_disk_is_said_and_mends_itself(libvirt):
    # A daemon of its own, on a file system that a test can fill.
    directory = host.DIR / "full"
    directory.mkdir(mode=0o711)
    host.run("mount", "-t", "tmpfs", "-o", "size=80m,mode=0711", "tmpfs", directory)
    daemon = host.Daemon("small-state", "--data-dir", directory / "data", "--listen", "off",
                         "--network-name", "small0", "--network-cidr", "10.115.8.0/24",
                         "--image-high-water", "100", "--image-low-water", "100").start()
    try:
        daemon.import_demo(directory / "data")
        (directory / "data" / "import" / "demo.oci.tar").unlink()
        filler = directory / "filler"
        with open(filler, "wb") as file, pytest.raises(OSError):
            while True:
                os.write(file.fileno(), bytes(4096))
        api = daemon.api
        api.create("vmirs", demo_set("full", 1))
        api.wait("vmi", lambda objects: [
            v for v in objects.values() if "No space left" in str(v.get("status"))])
        assert any(e["type"] == "Warning" and "No space left" in e["message"]
                   for e in api.list("events"))
        filler.unlink()
        api.wait_ready("full", 1)
        api.delete("vmirs", "full")
        api.wait("vmi", lambda objects: not objects)
        daemon.stop()
        assert list((directory / "data" / "vms").iterdir()) == []
    finally:
        if daemon.process.alive():
            daemon.kill()
        virsh("net-destroy", "small0", check=False)
        host.run("umount", "-l", directory)
        directory.rmdir()


def test_nothing_runs_on_when_nothing_happens(daemon, api, web):
    """Also after clients that were killed, which once left the loop spinning."""
    descriptors = pathlib.Path(f"/proc/{daemon.pid}/fd")
    at_first = len(list(descriptors.iterdir()))
    for command in (["kubectl", "--kubeconfig", daemon.directory / "kubeconfig", "get", "vmi", "-w"],
                    ["curl", "-sN", "--unix-socket", daemon.directory / "virtset.sock",
                     "http://localhost" + api.path("vmi") + "?watch=1"]):
        client = host.Process("client", *command)
        eventually(lambda: client.log_file.stat().st_size > 0)
        client.end(signal.SIGKILL)
    # Now and then a probe has a socket open.
    eventually(lambda: len(list(descriptors.iterdir())) <= at_first, what="closing of connections")
    before = daemon.cpu_seconds()
    time.sleep(3)  # what is measured
    # Two readiness probes every five seconds, and nothing else.
    assert daemon.cpu_seconds() - before <= 0.1
