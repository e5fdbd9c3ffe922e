"""A watch that notes when each change was seen."""

import json
import socket
import threading
import time

from client import UnixConnection


class Recorder:
    """Records on a thread of its own from the list at the start until it is closed."""

    def __init__(self, api, kind):
        revision = api.call("GET", api.path(kind))["metadata"]["resourceVersion"]
        self.connection = UnixConnection(api.socket_path, timeout=600)
        self.connection.request("GET", f"{api.path(kind)}?watch=1&resourceVersion={revision}")
        # Its head comes at once: from here on nothing is missed.
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        self.changes = []  # (time.monotonic(), type, object)
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._record, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Not close(): the thread still reads from it.
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)

    def _record(self):
        try:
            for line in self.response:
                seen = time.monotonic()
                event = json.loads(line)
                with self.changed:
                    self.changes.append((seen, event["type"], event["object"]))
                    self.changed.notify_all()
        except (OSError, ValueError):
            pass  # closed

    def mark(self):
        """Where wait() is to begin."""
        return len(self.changes)

    def wait(self, condition, since=0, timeout=60):
        """The first change with condition(type, object): when it was seen, and the object."""
        deadline = time.monotonic() + timeout
        position = since
        with self.changed:
            while True:
                while position < len(self.changes):
                    seen, kind, document = self.changes[position]
                    position += 1
                    if condition(kind, document):
                        return seen, document
                left = deadline - time.monotonic()
                assert left > 0, f"no such change within {timeout} s"
                self.changed.wait(left)


def name_of(document):
    return document["metadata"]["name"]


def phase_of(document):
    return document.get("status", {}).get("phase")
