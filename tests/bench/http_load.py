"""The API beside libwebsockets alone: the same bytes on the same kind of socket, and no one thinking
about them. Alternating, so that a busy host slows both."""

import subprocess
import time

import host
from api_load import CLIENTS, ROUNDS, SECONDS, padded_set, quiet_daemon, watch_latencies
from keep_alive import connect, drive_in_processes, request_bytes
from measure import Row, median, milliseconds, percentile, ratio_of_neighbours

OBJECTS = 1000


class Floor:
    """tests/bench/http_floor.cpp, with as much of the API's client as watch_latencies needs."""

    def __init__(self):
        self.socket_path = str(host.DIR / "floor.sock")
        self.process = subprocess.Popen([host.BUILD / "tests" / "bench" / "http_floor",
                                         self.socket_path], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def create(self, *_):
        return {"metadata": {"resourceVersion": "0"}}

    patch = create

    def path(self, *_):
        return "/watch"

    def stop(self):
        self.process.kill()
        self.process.wait()


def list_rate(socket_path, path):
    """Lists per second, one after the other over one connection, and the bytes of one."""
    connection = connect(socket_path)
    connection.setblocking(True)
    request = request_bytes("GET", path)
    begun = time.perf_counter()
    count = size = 0
    while time.perf_counter() < begun + SECONDS:
        connection.send(request)
        size, tail = 0, b""
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            data = connection.recv(1 << 20)
            assert data, "the connection was closed"
            size += len(data)
            tail = (tail + data)[-16:]
        count += 1
    took = time.perf_counter() - begun
    connection.close()
    return count / took, size


def floors(ground):
    assert ground.libvirt
    daemon = quiet_daemon("floors", "--listen", "off")
    for number in range(OBJECTS):
        daemon.api.create("vmirs", padded_set(f"object{number:03}"))
    floor = Floor()
    one = daemon.api.path("vmirs", "object000")
    gets, get_floors, lists, list_floors = [], [], [], []
    for _ in range(ROUNDS):
        for path, target, rates in ((one, daemon.api, gets), ("/get", floor, get_floors)):
            rates.append(drive_in_processes(target.socket_path,
                                            [[request_bytes("GET", path)]] * CLIENTS, SECONDS, 1)[0])
        for path, target, rates in ((daemon.api.path("vmirs"), daemon.api, lists),
                                    ("/list", floor, list_floors)):
            rate, size = list_rate(target.socket_path, path)
            rates.append(rate * size)
    ours = watch_latencies(daemon.api)
    theirs = watch_latencies(floor)
    floor.stop()
    daemon.stop()
    mb = 1e6
    return [
        Row(f"GET of 3 kB, {CLIENTS} connections", f"{median(gets):.0f}/s",
            f"{median(get_floors):.0f}/s libwebsockets alone",
            ratio_of_neighbours(gets, get_floors)),
        Row(f"list of {OBJECTS}, 3 MB", f"{median(lists) / mb:.0f} MB/s",
            f"{median(list_floors) / mb:.0f} MB/s libwebsockets alone",
            ratio_of_neighbours(lists, list_floors)),
        Row("PATCH sent until read by 100 watchers, p99", milliseconds(percentile(ours, 99)),
            f"{milliseconds(percentile(theirs, 99))} libwebsockets alone, no disk",
            percentile(ours, 99) / percentile(theirs, 99)),
    ]
