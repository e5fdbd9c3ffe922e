"""Runs the fuzzers, two at a time, and prints a table. See CONTRIBUTING.md."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/fuzz"
BUILD = ROOT / "build/fuzz"

# How long an input may become, in bytes. What grows with the input costs speed.
FUZZERS = {
    "admission": 8 << 10,
    "apply": 8 << 10,
    "body": 512,
    "headers": 1 << 10,
    "http": 2 << 10,
    "list_options": 1 << 10,
    "patch": 4 << 10,
    "protobuf": 8 << 10,
    "request": 2 << 10,
    "selectors": 1 << 10,
    "strategic": 8 << 10,
}
MANIFESTS = {"admission", "body"}  # whose inputs are manifests
AT_A_TIME = 2
SECONDS_PER_INPUT = 30  # on a host that is busy with something else, too
MOST_MEBIBYTES = 1024


@dataclasses.dataclass
class Result:
    name: str
    executions: str = "?"
    speed: str = "?"
    memory: str = "?"
    finding: str = ""


def command(name, runs):
    """What is found on the way is kept, so that the next run begins where this one ended."""
    found = BUILD / "corpus" / name
    found.mkdir(parents=True, exist_ok=True)
    seeds = [HERE / "corpus" / name]
    if name in MANIFESTS:
        seeds += [ROOT / "tests/manifests/seeds", ROOT / "tests/manifests/bad"]
    dictionary = HERE / "dictionaries" / name
    options = [f"-runs={runs}", f"-max_len={FUZZERS[name]}", f"-timeout={SECONDS_PER_INPUT}",
               f"-rss_limit_mb={MOST_MEBIBYTES}", "-print_final_stats=1", "-verbosity=1",
               # Weighing inputs by how rare their features are takes longer than running them.
               "-entropic=0",
               f"-artifact_prefix={BUILD}/{name}-"]
    # Objects live on in the store of the fuzzer; what leaks is seen at its end.
    if name == "request":
        options.append("-detect_leaks=0")
    if dictionary.exists():
        options.append(f"-dict={dictionary}")
    return [BUILD / "tests/fuzz" / f"fuzz_{name}", *options, found,
            *(seed for seed in seeds if seed.exists())]


def run(name, runs):
    log = BUILD / f"{name}.log"
    with open(log, "wb") as output:
        process = subprocess.run(command(name, runs), stdout=output, stderr=output, check=False,
                                 env=os.environ | {
                                     # Freed memory is kept for reports; more of it is only slow.
                                     "ASAN_OPTIONS": "quarantine_size_mb=16:malloc_context_size=6:"
                                                     "allocator_may_return_null=0",
                                     "UBSAN_OPTIONS": "print_stacktrace=1"})
    text = log.read_text(errors="replace")
    result = Result(name)
    for field, stat in (("executions", "number_of_executed_units"),
                        ("speed", "average_exec_per_sec"), ("memory", "peak_rss_mb")):
        if found := re.search(rf"stat::{stat}: *(\d+)", text):
            setattr(result, field, found[1])
    if process.returncode != 0:
        kept = re.search(r"Test unit written to (\S+)", text)
        result.finding = kept[1] if kept else str(log)
    return result


def main():
    parser = argparse.ArgumentParser(prog="run.sh fuzz --")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs for each fuzzer")
    parser.add_argument("names", nargs="*", metavar="FUZZER", help=", ".join(FUZZERS))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(FUZZERS)
    if unknown:
        parser.error("there is no fuzzer " + ", ".join(sorted(unknown)))
    print(f"{'fuzzer':14}{'executions':>12}{'per second':>12}{'peak MiB':>10}  finding")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        for result in pool.map(lambda name: run(name, arguments.runs), arguments.names or FUZZERS):
            print(f"{result.name:14}{result.executions:>12}{result.speed:>12}{result.memory:>10}  "
                  f"{result.finding or 'none'}", flush=True)
            failed = failed or bool(result.finding)
    sys.exit(failed)


if __name__ == "__main__":
    main()
