"""What the benches have in common: rows, statistics, and floors that times are compared with."""

import dataclasses
import os
import pathlib
import sqlite3
import statistics
import time

median = statistics.median


@dataclasses.dataclass
class Row:
    path: str
    ours: str
    instead: str = "-"
    ratio: float | None = None
    budget: str = "-"
    ok: bool | None = None  # None: there is no budget; the number explains another


def ratio_of_neighbours(ours, theirs):
    """Of what was measured one right after the other, so that a host that is busy for some seconds
    slows both."""
    return median(our / their for our, their in zip(ours, theirs))


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms"


def print_table(rows):
    verdicts = {True: "ok", False: "MISSED", None: "-"}
    table = [("path", "ours", "instead", "ratio", "budget", "")]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
        table.append((row.path, row.ours, row.instead, ratio, row.budget, verdicts[row.ok]))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


class CommitFloor:
    """One durable commit per row, as simple as it can be: what a write costs on this disk."""

    def __init__(self, directory, row_bytes=3000, rows=256):
        self.file = pathlib.Path(directory) / "floor.db"
        self.row_bytes = row_bytes
        self.rows = rows
        self.turn = 0
        self.database = sqlite3.connect(self.file, isolation_level=None)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=FULL")
        self.database.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, document)")

    def commit(self):
        """Seconds."""
        self.turn += 1
        document = f"{self.turn:0{self.row_bytes}}"
        begun = time.perf_counter()
        self.database.execute("REPLACE INTO rows VALUES (?, ?)", (self.turn % self.rows, document))
        return time.perf_counter() - begun

    def rate(self, seconds):
        """Commits per second, one after the other."""
        begun = time.perf_counter()
        count = 0
        while time.perf_counter() - begun < seconds:
            self.commit()
            count += 1
        return count / (time.perf_counter() - begun)

    def close(self):
        self.database.close()
        for file in self.file.parent.glob(self.file.name + "*"):
            file.unlink()


def spawned(*command):
    """Seconds that a process takes. Not subprocess: that is Python's own time, too."""
    arguments = [str(part) for part in command]
    begun = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    pid = os.posix_spawnp(arguments[0], arguments, os.environ, file_actions=silent)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - begun
    assert status == 0, f"{arguments} ended with {status}"
    return took


def memory_mib(pid, what="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no {what}")
