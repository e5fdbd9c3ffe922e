"""The API under load, with nothing behind it: writes, reads, watches."""

import json
import os
import re
import select
import subprocess
import time

import yaml

import host
from ground import VIRSH
from host import demo_set, virsh
from keep_alive import answer_length, connect, drive_in_processes, request_bytes
from measure import CommitFloor, Row, median, milliseconds, percentile

OBJECTS = 256
CLIENTS = 64
ROUNDS = 3
SECONDS = 2  # of each kind of load, in each round
READS = 3000
WATCHERS = 100
CHANGES = 300
VIRSH_CHANGES = 50


def quiet_daemon(name, *options):
    return host.Daemon(name, "--libvirt-uri", "test:///default", "--log-level", "warning",
                       *options).start()


def padded_set(name):
    """About 3 kB, of which nothing has to be done."""
    document = demo_set(name, 0)
    document["metadata"]["annotations"] = {"padding": ""}
    missing = 3000 - len(json.dumps(document, separators=(",", ":")))
    document["metadata"]["annotations"]["padding"] = "x" * missing
    return document


def label_patches(api, name):
    """Two that alternate, so that each is a change."""
    return [request_bytes("PATCH", api.path("vmirs", name),
                          json.dumps({"metadata": {"labels": {"turn": turn}}}).encode())
            for turn in ("a", "b")]


def label_changes(api, names):
    """All objects by turns."""
    patches = [label_patches(api, name) for name in names]
    return [patch[turn] for turn in range(2) for patch in patches]


def write_rates(daemon):
    """Medians: one commit after the other without us, one client, 64 clients, and those's CPU."""
    api = daemon.api
    names = [f"object{number}" for number in range(OBJECTS)]
    for name in names:
        api.create("vmirs", padded_set(name))
    floor = CommitFloor(daemon.directory)
    alone = [label_changes(api, names)]
    many = [label_changes(api, names[number::CLIENTS]) for number in range(CLIENTS)]
    floors, ones, manys, shares = [], [], [], []
    for _ in range(ROUNDS):
        floors.append(floor.rate(SECONDS))
        ones.append(drive_in_processes(api.socket_path, alone, SECONDS, 1)[0])
        rate, share = drive_in_processes(api.socket_path, many, SECONDS, 1)
        manys.append(rate)
        shares.append(share)
    floor.close()
    return median(floors), median(ones), median(manys), median(shares)


def read_rate_tls(daemon, path):
    """By wrk, in C, on the other core."""
    kubeconfig = yaml.safe_load((daemon.directory / "kubeconfig").read_text())
    server = kubeconfig["clusters"][0]["cluster"]["server"]
    token = kubeconfig["users"][0]["user"]["token"]
    said = host.run("wrk", "-t", "1", "-c", CLIENTS, "-d", f"{SECONDS}s", "-H",
                    f"Authorization: Bearer {token}", server + path)
    assert "Non-2xx" not in said, said
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", said).group(1))


def read_rate_virsh():
    """A question of one virsh to libvirtd, over one connection: the least that it can be asked."""
    begun = time.monotonic()
    subprocess.run(VIRSH, input="nodememstats\n" * READS, text=True, check=True,
                   stdout=subprocess.DEVNULL, timeout=60)
    return READS / (time.monotonic() - begun)


def writes(ground):
    assert ground.libvirt
    daemon = quiet_daemon("writes")
    floor, one, many, client = write_rates(daemon)
    path = daemon.api.path("vmirs", "object0")
    tls, plain, shares, virsh_rates = [], [], [], []
    for _ in range(ROUNDS):
        tls.append(read_rate_tls(daemon, path))
        rate, share = drive_in_processes(daemon.api.socket_path,
                                         [[request_bytes("GET", path)]] * CLIENTS, SECONDS, 1)
        plain.append(rate)
        shares.append(share)
        virsh_rates.append(read_rate_virsh())
    daemon.stop()
    best = max(median(tls), median(plain))
    instead = f"{median(virsh_rates):.0f}/s virsh asks libvirtd"
    return [
        Row("durable PATCHes of 3 kB, 1 client", f"{one:.0f}/s", f"{floor:.0f}/s SQLite alone",
            one / floor),
        Row(f"durable PATCHes of 3 kB, {CLIENTS} clients", f"{many:.0f}/s",
            f"{floor:.0f}/s SQLite alone", many / floor, ">= 2", many >= 2 * floor),
        Row("  CPU of the client then", f"{client * 100:.0f} %"),
        Row(f"GET of 3 kB, {CLIENTS} connections, TLS, wrk", f"{median(tls):.0f}/s", instead,
            median(tls) / median(virsh_rates), ">= 40000/s", best >= 40_000),
        Row(f"GET of 3 kB, {CLIENTS} connections, unix socket", f"{median(plain):.0f}/s", instead,
            median(plain) / median(virsh_rates), "either", best >= 40_000),
        Row("  CPU of the client then", f"{median(shares) * 100:.0f} %"),
    ]


def open_watches(api, poll, revision):
    """All in this process: what they cost is part of what is measured."""
    watches = {}
    path = f"{api.path('vmirs')}?watch=1&resourceVersion={revision}"
    for _ in range(WATCHERS):
        connection = connect(api.socket_path)
        connection.send(request_bytes("GET", path))
        poll.register(connection, select.EPOLLIN)
        watches[connection.fileno()] = connection
    waiting = set(watches)
    deadline = time.monotonic() + 20
    while waiting:  # for the heads
        assert time.monotonic() < deadline, "not every watch was answered"
        for descriptor, _ in poll.poll(1):
            watches[descriptor].recv(1 << 16)
            waiting.discard(descriptor)
    return watches


def watch_latencies(api):
    """Of each change at each watcher, in seconds since the PATCH was sent: with its commit. (Since it
    was answered would be nothing: most have read it before the writer has its answer.)"""
    revision = api.create("vmirs", demo_set("watched", 0))["metadata"]["resourceVersion"]
    revision = api.patch("vmirs", "watched", {"metadata": {"labels": {"turn": "b"}}})["metadata"][
        "resourceVersion"]
    poll = select.epoll()
    watches = open_watches(api, poll, revision)
    writer = connect(api.socket_path)
    poll.register(writer, select.EPOLLIN)
    patches = label_patches(api, "watched")
    latencies = []
    for number in range(CHANGES):
        waiting = set(watches)
        answer = b""
        deadline = time.monotonic() + 20
        sent = time.perf_counter()
        writer.send(patches[number % 2])
        while waiting or not answer_length(answer):
            assert time.monotonic() < deadline, "a change was not seen"
            for descriptor, _ in poll.poll(1):
                if descriptor == writer.fileno():
                    answer += writer.recv(1 << 16)
                elif watches[descriptor].recv(1 << 16).endswith(b"}\n\r\n"):
                    latencies.append(time.perf_counter() - sent)
                    waiting.remove(descriptor)
    for connection in [writer, *watches.values()]:
        connection.close()
    return latencies


def virsh_latencies():
    """The same number of `virsh event`; the change is of a domain's metadata."""
    file = host.DIR / "watched.xml"
    file.write_text("<domain type='qemu'><name>watched</name><memory unit='MiB'>32</memory>"
                    "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>")
    virsh("create", "--paused", file)
    command = ["stdbuf", "-oL", *VIRSH, "event", "--domain", "watched", "--event",
               "metadata-change", "--loop"]
    watchers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(WATCHERS)]
    writer = subprocess.Popen(VIRSH, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    poll = select.epoll()
    for watcher in watchers:
        poll.register(watcher.stdout, select.EPOLLIN)

    def change(turn):
        """Until everybody has seen it, or the time is up."""
        writer.stdin.write(b"metadata watched --uri urn:bench --key bench --set "
                           b"<turn>%d</turn>\n" % turn)
        begun = time.perf_counter()
        writer.stdin.flush()
        waiting, latencies = {w.stdout.fileno() for w in watchers}, []
        while waiting and time.perf_counter() < begun + 2:
            for descriptor, _ in poll.poll(0.5):
                os.read(descriptor, 1 << 16)
                latencies.append(time.perf_counter() - begun)
                waiting.discard(descriptor)
        return latencies

    # They do not say when they are ready.
    host.eventually(lambda: len(change(0)) == WATCHERS, 60, "an event at every watcher")
    latencies = [latency for turn in range(VIRSH_CHANGES) for latency in change(turn)]
    for process in [writer, *watchers]:
        process.kill()
        process.wait()
    virsh("destroy", "watched")
    return latencies


def watch(ground):
    assert ground.libvirt
    daemon = quiet_daemon("watches", "--listen", "off")
    ours = watch_latencies(daemon.api)
    daemon.stop()
    theirs = virsh_latencies()
    rows = []
    for percent, limit in ((50, None), (99, 0.005)):
        our, their = percentile(ours, percent), percentile(theirs, percent)
        rows.append(Row(f"PATCH sent until read by {WATCHERS} watchers, p{percent}",
                        milliseconds(our), f"{milliseconds(their)} {WATCHERS} virsh event",
                        our / their, "<= 5 ms" if limit else "-", our <= limit if limit else None))
    return rows
