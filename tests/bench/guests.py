"""Real guests: how soon they are ordered, run, answer, and are replaced."""

import os
import random
import re
import select
import signal
import subprocess
import time

import host
from ground import VIRSH, remove_set, still_set
from host import demo_set, eventually, qemu_processes, virsh
from measure import CommitFloor, Row, median, milliseconds, ratio_of_neighbours, spawned
from recorder import Recorder, name_of, phase_of

ORDERS = 16
STARTS = 3
BOOTS = 3
KILLS = 10


def is_scheduled(_, document):
    # Written right before the start is ordered.
    return phase_of(document) == "Scheduled"


def is_running(_, document):
    return phase_of(document) == "Running"


def is_ready(document):
    return any(c["type"] == "Ready" and c["status"] == "True"
               for c in document.get("status", {}).get("conditions", []))


class Unavoidable:
    """What lies between a request and a start and is not our own time: the disk and qemu-img."""

    def __init__(self, ground):
        self.copies = ground.copies
        self.floor = CommitFloor(ground.guests.directory)
        self.overlay = self.copies.directory / "unavoidable.qcow2"
        self.commits = []
        self.overlays = []

    def sample(self):
        self.commits += [self.floor.commit() for _ in range(3)]
        self.overlays.append(spawned("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw",
                                     "-b", self.copies.base, self.overlay))

    def seconds(self, commits, overlays):
        return commits * median(self.commits) + overlays * median(self.overlays)

    def close(self):
        self.floor.close()
        self.overlay.unlink()


def order(ground):
    """From the PATCH of the scale until the start of the domain is ordered. In between: the PATCH's
    commit, the instance's, qemu-img, the seed, and the commit of phase Scheduled."""
    daemon = ground.guests
    api = daemon.api
    unavoidable = Unavoidable(ground)
    whole, by_hand = [], []
    api.create("vmirs", demo_set("order", 0))
    with Recorder(api, "vmi") as changes:
        for _ in range(ORDERS):
            unavoidable.sample()
            # A virsh that only connects has come as far as the moment before it sends the domain.
            by_hand.append(unavoidable.overlays[-1] + spawned(*VIRSH, "hostname"))
            since = changes.mark()
            begun = time.monotonic()
            api.scale("order", 1)
            seen, _ = changes.wait(is_scheduled, since)
            whole.append(seen - begun)
            changes.wait(is_running, since)
            api.scale("order", 0)
            changes.wait(lambda change, _: change == "DELETED", since)
            eventually(lambda: not qemu_processes(), what="the end of QEMU")
    remove_set(daemon, "order")
    unavoidable.close()
    own = median(whole) - unavoidable.seconds(commits=3, overlays=1)
    return [
        Row("scale 0 to 1 until the start is ordered", milliseconds(median(whole)),
            f"{milliseconds(median(by_hand))} qemu-img, virsh connects",
            median(whole) / median(by_hand)),
        Row("  without 3 commits and qemu-img: own time", milliseconds(own),
            f"{milliseconds(unavoidable.seconds(3, 0))} + {milliseconds(unavoidable.seconds(0, 1))}",
            None, "<= 10 ms", own <= 0.010),
    ]


def start_by_us(daemon, document):
    """Seconds from POST until a watch showed all of them running, which is after libvirt says so."""
    count = document["spec"]["replicas"]
    with Recorder(daemon.api, "vmi") as changes:
        begun = time.monotonic()
        daemon.api.create("vmirs", document)
        running = set()

        def all_run(_, document):
            if phase_of(document) == "Running":
                running.add(name_of(document))
            return len(running) == count

        seen, _ = changes.wait(all_run, timeout=120)
    assert len(virsh("list", "--name", "--state-running").split()) == count
    remove_set(daemon, "many")
    return seen - begun


def start_by_virsh(copies, count):
    """Disks and XML are there beforehand; a parallel loop as wide as ours."""
    made = copies.make(count)
    files = "\n".join(str(copy.file) for copy in made)
    begun = time.monotonic()
    subprocess.run(["xargs", "-P", "2", "-n", "1", *VIRSH, "create"], input=files, text=True,
                   check=True, stdout=subprocess.DEVNULL, timeout=120)
    took = time.monotonic() - begun
    assert len(virsh("list", "--name", "--state-running").split()) == count
    copies.remove(made)
    return took


def n_running(ground):
    kinds = ((8, "boot", demo_set, ground.copies), (16, "boot", demo_set, ground.copies),
             (16, "do not boot", still_set, ground.still_copies))
    rows = []
    for count, what, make, copies in kinds:
        ours, theirs = [], []
        for turn in range(STARTS):
            # By turns first, so that neither is always measured on the warmer host.
            if turn % 2:
                theirs.append(start_by_virsh(copies, count))
            ours.append(start_by_us(ground.guests, make("many", count)))
            if not turn % 2:
                theirs.append(start_by_virsh(copies, count))
        ratio = ratio_of_neighbours(ours, theirs)
        rows.append(Row(f"{count} replicas that {what}, until all run", f"{median(ours):.2f} s",
                        f"{median(theirs):.2f} s xargs -P 2 virsh create", ratio, "<= 1.05",
                        ratio <= 1.05))
    return rows


def boot_by_us(daemon):
    with Recorder(daemon.api, "vmi") as changes:
        begun = time.monotonic()
        daemon.api.create("vmirs", demo_set("boot", 1))
        _, instance = changes.wait(is_scheduled)
        host.wait_for_answer(instance["status"]["interfaces"][0]["ipAddress"], patience=0.25)
        took = time.monotonic() - begun
    remove_set(daemon, "boot")
    return took


def boot(copy):
    """Until it answers HTTP."""
    def address():
        return re.search(r"ipv4\s+([0-9.]+)/", virsh("domifaddr", copy.name))

    virsh("create", copy.file)
    host.wait_for_answer(eventually(address, 60, "an address").group(1), patience=0.25)


def boot_by_virsh(copies, network):
    made = copies.make(1, network)
    begun = time.monotonic()
    boot(made[0])
    took = time.monotonic() - begun
    copies.remove(made)
    return took


def http(ground):
    ours, theirs = [], []
    for _ in range(BOOTS):
        ours.append(boot_by_us(ground.guests))
        theirs.append(boot_by_virsh(ground.copies, ground.stock_network))
    ratio = ratio_of_neighbours(ours, theirs)
    return [Row("POST until a guest answers HTTP 200", f"{median(ours):.2f} s",
                f"{median(theirs):.2f} s virsh, stock network", ratio, "<= 0.6", ratio <= 0.6)]


def kill_one(pids):
    """When it was dead: the kernel takes its time to free a guest's memory."""
    pid = random.choice(sorted(pids.values()))
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([descriptor], [], [], 10)
    dead = time.monotonic()
    os.close(descriptor)
    return dead


def replaced_by_us(daemon, unavoidable):
    """Seconds from kill -9 until the process is dead, the replacement is there, is ordered, is ready;
    of each kill."""
    api = daemon.api
    times = []
    api.create("vmirs", demo_set("kill", 3))
    api.wait_ready("kill", 3)
    with Recorder(api, "vmi") as changes:
        for _ in range(KILLS):
            unavoidable.sample()
            since = changes.mark()
            killed = time.monotonic()
            dead = kill_one(qemu_processes("default_kill"))
            created, instance = changes.wait(lambda change, _: change == "ADDED", since)

            def of_replacement(condition, name=name_of(instance)):
                return lambda _, o: name_of(o) == name and condition(o)

            ordered, _ = changes.wait(of_replacement(lambda o: phase_of(o) == "Scheduled"), since)
            ready, _ = changes.wait(of_replacement(is_ready), since)
            times.append((dead - killed, created - killed, ordered - killed, ready - killed))
            eventually(lambda: len(qemu_processes("default_kill")) == 3)
            api.wait_ready("kill", 3)
    remove_set(daemon, "kill")
    return times


def replaced_by_loop(copies):
    """Seconds from kill -9 until virsh_loop.sh calls `virsh create`; of each kill."""
    made = copies.make(3)
    script = host.ROOT / "tests" / "bench" / "virsh_loop.sh"
    loop = host.Process("virsh_loop", script, *(copy.file for copy in made))
    times = []

    def lines():
        return loop.log().splitlines()

    def all_run():
        # The loop has to have seen it: a kill in the middle of a start is another story.
        return lines()[-1:] == ["all run"] and len(qemu_processes(copies.PREFIX)) == 3

    for _ in range(KILLS):
        eventually(all_run, what="the start of what the loop watches")
        # At any moment of the loop's second.
        time.sleep(random.random())
        before = len(lines())
        killed = time.time()
        kill_one(qemu_processes(copies.PREFIX))
        eventually(lambda: any(l.startswith("create") for l in lines()[before:]),
                   what="the replacement")
        line = next(l for l in lines()[before:] if l.startswith("create"))
        times.append(float(line.split()[1]) - killed)
    loop.end()
    copies.remove(made)
    return times


def kill(ground):
    unavoidable = Unavoidable(ground)
    ours = replaced_by_us(ground.guests, unavoidable)
    loop = median(replaced_by_loop(ground.copies))
    dead, created, ordered, ready = (median(column) for column in zip(*ours))
    # The loss is noted, the replacement is made, its phase is noted.
    own_created = created - dead - unavoidable.seconds(commits=2, overlays=0)
    own_ordered = ordered - dead - unavoidable.seconds(commits=3, overlays=1)
    instead = f"{loop * 1000:.0f} ms loop: virsh list, sleep 1"
    waits = f"{milliseconds(dead)} + {milliseconds(unavoidable.seconds(2, 0))}"
    more_waits = f"{milliseconds(dead)} + {milliseconds(unavoidable.seconds(3, 1))}"
    unavoidable.close()
    return [
        Row("kill -9 of QEMU until its replacement is there", milliseconds(created), instead,
            created / loop),
        Row("  without its dying, 2 commits: own time", milliseconds(own_created), waits, None,
            "<= 10 ms", own_created <= 0.010),
        Row("kill -9 of QEMU until the start is ordered", milliseconds(ordered), instead,
            ordered / loop),
        Row("  without its dying, 3 commits, qemu-img: own time", milliseconds(own_ordered),
            more_waits, None, "<= 10 ms", own_ordered <= 0.010),
        Row("kill -9 of QEMU until its replacement is ready", f"{ready:.2f} s"),
    ]
