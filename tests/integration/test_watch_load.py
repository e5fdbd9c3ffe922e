"""A hundred watches while 1,000 objects are changed 10,000 times: all see all of it, once, in order."""

import bisect
import json
import pathlib
import re
import select
import socket
import time

OBJECTS, CHANGES, WATCHERS, WRITERS = 1_000, 10_000, 100, 8
# The history is bounded (16 MiB), and so is what waits for each client.
MEMORY_MIB = 64
PATH = "/api/v1/namespaces/default/configmaps"
REVISION = re.compile(rb'"resourceVersion":"(\d+)"')
END = b"\r\n0\r\n\r\n"  # of a stream, which leaves the connection open
now = time.monotonic


def request(method, path, document=None, content_type="application/json"):
    body = b"" if document is None else json.dumps(document).encode()
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


class Client:
    """A connection of its own in the one loop of all of them, which is what 1,000,000 lines take."""

    def __init__(self, loop, socket_path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(socket_path))
        self.buffer = b""
        self.ended = False
        loop.add(self)

    def head(self):
        """The answer's head, once it is there; it is taken from the buffer."""
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return None
        self.buffer = rest
        return head


class Loop:
    def __init__(self):
        self.epoll = select.epoll()
        self.clients = {}

    def add(self, client):
        self.clients[client.socket.fileno()] = client
        self.epoll.register(client.socket, select.EPOLLIN)

    def until(self, condition, timeout=300):
        deadline = now() + timeout
        while not condition():
            assert now() < deadline, f"not within {timeout} s"
            for fd, events in self.epoll.poll(1):
                client = self.clients[fd]
                if events & select.EPOLLIN:
                    client.ready()
                if events & select.EPOLLHUP or client.ended:
                    client.ended = True
                    self.epoll.unregister(fd)
                    del self.clients[fd]

    def close(self):
        for client in self.clients.values():
            client.socket.close()
        self.epoll.close()


class Writer(Client):
    """Sends its requests one after the other, and notes when which revision was asked for and promised."""

    def __init__(self, loop, socket_path, requests):
        super().__init__(loop, socket_path)
        self.requests = iter(requests)
        self.answered = {}
        self.done = False
        self.next()

    def next(self):
        following = next(self.requests, None)
        self.done = following is None
        if following:
            self.asked = now()
            self.socket.sendall(following)

    def ready(self):
        self.buffer += self.socket.recv(65536)
        head, _, body = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        if length and len(body) >= int(length[1]):
            assert re.match(rb"HTTP/1.1 20[01] ", head), self.buffer
            self.answered[int(REVISION.search(body)[1])] = self.asked, now()
            self.buffer = b""
            self.next()


class Stream:
    """What all watches must see, as those that are ahead have seen it."""

    def __init__(self):
        self.text = bytearray()
        self.ends = []

    def append(self, text):
        at = len(self.text)
        self.text += text
        while (at := self.text.find(b"\n", at) + 1):
            self.ends.append(at)


class Watch(Client):
    """Compares its bytes with everybody's, so that only one of them has to be understood."""

    def __init__(self, loop, socket_path, stream, query):
        super().__init__(loop, socket_path)
        self.stream = stream
        self.at = 0
        self.times = []
        self.begun = False
        self.socket.sendall(request("GET", f"{PATH}?watch=1&timeoutSeconds=600&{query}"))

    def ready(self):
        received = self.socket.recv(1 << 18)
        self.ended = not received
        self.buffer += received
        if not self.begun:
            head = self.head()
            if head is None:
                return
            assert head.startswith(b"HTTP/1.1 200 ") and b"chunked" in head.lower(), head
            self.begun = True
        self.take(self.unchunked())

    def unchunked(self):
        parts, at, buffer = [], 0, self.buffer
        while (end := buffer.find(b"\r\n", at)) >= 0:
            after = end + 2 + int(buffer[at:end], 16)
            if len(buffer) < after + 2:
                break
            parts.append(buffer[end + 2:after])
            at = after + 2
        self.buffer = buffer[at:]
        return b"".join(parts)

    def take(self, text):
        known = self.stream.text[self.at:self.at + len(text)]
        assert text.startswith(known), f"{text[:2000]} instead of {known[:2000]}"
        self.stream.append(text[len(known):])
        self.at += len(text)
        seen = bisect.bisect_right(self.stream.ends, self.at)
        self.times += [now()] * (seen - len(self.times))


class Unread(Client):
    """Asks for a watch, and reads it only when told to."""

    def __init__(self, loop, socket_path, query):
        super().__init__(loop, socket_path)
        loop.epoll.modify(self.socket, 0)
        self.socket.sendall(request("GET", f"{PATH}?watch=1&{query}"))

    def read(self):
        """All that still comes, and whether its end was said or the connection cut."""
        text = b""
        self.socket.settimeout(30)
        while not text.endswith(END) and (received := self.socket.recv(1 << 18)):
            text += received
        return text, text.endswith(END)


def memory_mib(daemon, field):
    status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M)[1]) // 1024


def names(of):
    return [f"load-{i:04}" for i in range(OBJECTS) if i % WRITERS == of]


def creations(of):
    return [request("POST", PATH, {"metadata": {"name": name}, "data": {"change": "0"}})
            for name in names(of)]


def changes(of):
    return [request("PATCH", f"{PATH}/{name}", {"data": {"change": str(change)}},
                    "application/merge-patch+json")
            for change in range(1, CHANGES // OBJECTS + 1) for name in names(of)]


def test_every_watch_sees_every_change(daemon):
    loop, stream, path = Loop(), Stream(), daemon.api.socket_path

    def write(requests):
        writers = [Writer(loop, path, requests(i)) for i in range(WRITERS)]
        loop.until(lambda: all(w.done for w in writers))
        return {revision: times for w in writers for revision, times in w.answered.items()}

    write(creations)
    start = daemon.api.call("GET", PATH + "?limit=1")["metadata"]["resourceVersion"]
    pathlib.Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")  # forgets the peak so far
    memory = memory_mib(daemon, "VmRSS")
    query = f"resourceVersion={start}"
    watches = [Watch(loop, path, stream, query) for _ in range(WATCHERS)]
    stuck, late = (Unread(loop, path, query) for _ in range(2))
    loop.until(lambda: all(w.begun for w in watches))

    begun = now()
    answered = write(changes)
    written = now()
    loop.until(lambda: all(len(w.times) >= CHANGES for w in watches))
    took = now() - begun
    # More than is remembered, so that who has not read until now never can.
    daemon.api.call("DELETE", PATH)
    loop.until(lambda: all(len(w.times) >= CHANGES + OBJECTS for w in watches))

    events = [json.loads(line) for line in stream.text.splitlines()]
    assert all(w.at == len(stream.text) for w in watches), "somebody saw more than the others"
    revisions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert revisions == sorted(set(revisions))
    assert revisions[:CHANGES] == sorted(answered), "what was promised was seen, and nothing else"
    counters = {}
    for event in events[:CHANGES]:
        name, data = event["object"]["metadata"]["name"], event["object"]["data"]
        assert event["type"] == "MODIFIED" and int(data["change"]) == counters.get(name, 0) + 1
        counters[name] = int(data["change"])
    assert list(counters.values()) == [CHANGES // OBJECTS] * OBJECTS
    assert sorted(e["object"]["metadata"]["name"] for e in events[CHANGES:]) == sorted(counters)
    assert {e["type"] for e in events[CHANGES:]} == {"DELETED"}

    def delays(since):
        """p50 and p99 of all receipts since the request (0) or its answer (1)."""
        starts = [answered[revision][since] for revision in revisions[:CHANGES]]
        all_of_them = sorted(seen - at for w in watches for seen, at in zip(w.times, starts))
        return " and ".join(f"{1000 * all_of_them[len(all_of_them) * part // 100]:.1f} ms"
                            for part in (50, 99))

    grown = memory_mib(daemon, "VmHWM") - memory
    print(f"\n{CHANGES} durable changes by {WRITERS} writers in {written - begun:.1f} s, seen by "
          f"{WATCHERS} watches in {took:.1f} s ({CHANGES * WATCHERS / took:,.0f} events/s); p50 and "
          f"p99 until it is seen: {delays(0)} from the request, {delays(1)} from its answer (less "
          f"than 0: seen before); memory grew by {grown} MiB at most")
    assert grown < MEMORY_MIB

    # Who comes back to reading finds the beginning, then that the rest is gone; or was cut meanwhile.
    text, ended = late.read()
    assert len(text) < len(stream.text)
    assert not ended or (b'"type":"ERROR"' in text and b'"code":410' in text)
    # Who never does is cut.
    loop.until(lambda: stuck.ended, timeout=90)
    loop.close()
