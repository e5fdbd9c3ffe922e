"""Runs the benches inside tests/sandbox.sh and prints one table. See run.sh."""

import argparse
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

NAMES = ("order", "n_running", "http", "kill", "ten_thousand", "pool", "online", "disks", "writes",
         "watch", "floors")


def benches():
    # Not above: what they use wants the sandbox's environment.
    import api_load
    import disks
    import guests
    import http_load
    import pools
    import ten_thousand
    return {"order": guests.order, "n_running": guests.n_running, "http": guests.http,
            "kill": guests.kill, "ten_thousand": ten_thousand.ten_thousand,
            "pool": pools.pool, "online": pools.online, "disks": disks.disks,
            "writes": api_load.writes, "watch": api_load.watch,
            "floors": http_load.floors}


def run_all(names):
    """All rows, and whether every bench came to its end."""
    from ground import Ground
    ground = Ground()
    functions = benches()
    rows = []
    whole = True
    for name in names:
        begun = time.monotonic()
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        try:
            rows += functions[name](ground)
        except Exception:  # the others are worth having
            traceback.print_exc()
            whole = False
        print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)
    return rows, whole


def busy_cores():
    """For a second, while nothing of ours runs: a busy host makes the numbers worthless."""
    def idle():
        return float(pathlib.Path("/proc/uptime").read_text().split()[1])

    begun, before = time.monotonic(), idle()
    time.sleep(1)  # what is measured
    return max(0, os.cpu_count() - (idle() - before) / (time.monotonic() - begun))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--strict", action="store_true", help="a missed budget is a failure")
    parser.add_argument("--print-names", action="store_true")
    arguments = parser.parse_args()
    if arguments.print_names:
        print("\n".join(NAMES))
        return 0
    for name in arguments.names:
        if name not in NAMES:
            parser.error(f"there is no bench {name}, but: {' '.join(NAMES)}")
    begun = time.monotonic()
    before = busy_cores()
    rows, whole = run_all(arguments.names or NAMES)
    after = busy_cores()
    from measure import print_table
    print_table(rows)
    print(f"{time.monotonic() - begun:.0f} s on {os.cpu_count()} cores, of which others kept "
          f"{before:.1f} busy before and {after:.1f} after")
    missed = any(row.ok is False for row in rows)
    return 1 if not whole or (arguments.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
