"""Pools: what a virtual machine costs beyond an instance, and what memory that is kept saves."""

import time

import host
import recorder
from ground import VIRSH, remove_set
from guests import boot
from host import demo_pool, pool_of
from measure import Row, median, spawned
from ten_thousand import IDLE_SECONDS, bare_set, idle_ticks

COUNT = 1_000
SAVES = 3


def pool_says(**fields):
    """Of an own status that is of the newest spec."""
    def check(objects):
        document = objects["many"]
        status = document.get("status", {})
        return (status.get("observedGeneration") == document["metadata"]["generation"]
                and all(status.get(field, 0) == count for field, count in fields.items()))
    return check


def took(action, api, kind, condition):
    begun = time.monotonic()
    action()
    api.wait(kind, condition, timeout=180)
    return time.monotonic() - begun


def pool(_):
    daemon = host.Daemon("pool-test-driver", "--libvirt-uri", "test:///default", "--guest-memory",
                         "-1", "--listen", "off", "--log-level", "warning").start()
    api = daemon.api
    begun = time.monotonic()
    api.create("vmirs", bare_set(COUNT))
    api.wait_ready("many", COUNT, timeout=120)
    as_set = time.monotonic() - begun
    remove_set(daemon, "many")

    document = pool_of(bare_set(COUNT), maxUnavailable="100%")
    created = took(lambda: api.create("vmpool", document), api, "vmpool",
                   pool_says(replicas=COUNT, readyReplicas=COUNT))
    idle = idle_ticks(daemon.pid)
    patch = {"virtualMachineTemplate": {"spec": {"template": {"spec": {"hostname": "next"}}}}}
    rolled = took(lambda: api.patch("vmpool", "many", {"spec": patch}), api, "vmpool",
                  pool_says(readyReplicas=COUNT, updatedReadyReplicas=COUNT))
    scaled = took(lambda: api.patch("vmpool", "many", {"spec": {"replicas": 0}}, "scale"), api,
                  "vmpool", pool_says(replicas=0))
    daemon.stop()

    def rate(seconds):
        return f"{COUNT / seconds:.0f}/s"

    return [
        Row(f"pool of {COUNT} on test:/// until ready", rate(created),
            f"{rate(as_set)} a set of bare instances", as_set / created),
        Row("  all restarted with another template", rate(rolled), f"{rate(created)} made",
            created / rolled),
        Row("  scaled to 0", rate(scaled)),
        Row(f"  CPU in {IDLE_SECONDS} idle seconds at count", f"{idle} ticks", "-", None, "<= 1",
            idle <= 1),
    ]


def kept_by_us(daemon):
    """Seconds from the PATCH until it is saved and gone, and from the next until it runs; of each."""
    api = daemon.api
    api.create("vmpool", demo_pool("kept", 1, scaleInStrategy={
        "proactive": {"statePreservation": "Online"}}))
    times = []
    with recorder.Recorder(api, "vmi") as changes:
        for _ in range(SAVES):
            api.wait_ready("kept", 1, kind="vmpool")
            since = changes.mark()
            begun = time.monotonic()
            api.patch("vmpool", "kept", {"spec": {"replicas": 0}}, "scale")
            gone, _ = changes.wait(lambda change, _: change == "DELETED", since)
            saved = api.wait("savedvm", lambda objects: next(
                (o for o in objects.values() if o.get("status", {}).get("phase") == "Saved"), None))
            assert saved["status"]["memoryBytes"] > 0, saved
            since = changes.mark()
            again = time.monotonic()
            api.patch("vmpool", "kept", {"spec": {"replicas": 1}}, "scale")
            runs, _ = changes.wait(lambda _, o: recorder.phase_of(o) == "Running", since)
            times.append((gone - begun, runs - again))
    api.delete("vmpool", "kept")
    api.wait("vmi", lambda objects: not objects)
    return times


def kept_by_virsh(copies):
    copy = copies.make(1)[0]
    memory = copies.directory / "memory"
    boot(copy)
    times = []
    for _ in range(SAVES):
        saved = spawned(*VIRSH, "save", copy.name, memory)
        times.append((saved, spawned(*VIRSH, "restore", memory)))
        memory.unlink()
    copies.remove([copy])
    return times


def online(ground):
    ours = kept_by_us(ground.guests)
    theirs = kept_by_virsh(ground.copies)
    rows = []
    for column, (what, command) in enumerate((("scale-in that keeps the memory", "save"),
                                              ("scale-out that goes on with it", "restore"))):
        our, their = (median(times[column] for times in all_times) for all_times in (ours, theirs))
        rows.append(Row(what, f"{our:.2f} s", f"{their:.2f} s virsh {command}", our / their))
    return rows
