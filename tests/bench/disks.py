"""Disks that stay: filled from the web and from each other, beside the tools one would take instead."""

import os
import subprocess
import sys
import time

import host
from measure import Row, median, ratio_of_neighbours

MIB = 1 << 20
SIZE = 512 * MIB
TURNS = 3


def volume(name, source):
    return {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": {"name": name},
            "spec": {"source": source,
                     "storage": {"resources": {"requests": {"storage": str(SIZE)}}}}}


def filled_by_us(api, name, source):
    begun = time.monotonic()
    api.create("dv", volume(name, source))
    api.wait("dv", lambda objects: objects[name].get("status", {}).get("phase") == "Succeeded", 120)
    return time.monotonic() - begun


def remove(api, name):
    api.delete("dv", name)
    api.wait("pvc", lambda objects: name not in objects)


def filled_by_shell(directory, script):
    """The disk must be on the disk when it is said to be there."""
    begun = time.monotonic()
    subprocess.run(["bash", "-ec", f"cd {directory}; {script}; sync disk.img"], check=True,
                   timeout=120)
    took = time.monotonic() - begun
    subprocess.run(["bash", "-ec", f"cd {directory}; rm -f disk.img got"], check=True)
    return took


def by_turns(api, directory, source, script):
    ours, theirs = [], []
    for _ in range(TURNS):
        ours.append(filled_by_us(api, "measured", source))
        remove(api, "measured")
        theirs.append(filled_by_shell(directory, script))
    return ours, theirs


def row(what, tool, ours, theirs):
    rate = SIZE / MIB
    return Row(what, f"{rate / median(ours):.0f} MiB/s", f"{rate / median(theirs):.0f} MiB/s {tool}",
               ratio_of_neighbours(ours, theirs))


def disks(ground):
    api = ground.guests.api
    directory = host.DIR / "web"
    directory.mkdir()
    # One half is data that does not compress, the other is holes.
    with open(directory / "raw.img", "wb") as file:
        for _ in range(SIZE // 2 // MIB):
            file.write(os.urandom(MIB))
        file.truncate(SIZE)
    host.run("qemu-img", "convert", "-O", "qcow2", directory / "raw.img", directory / "small.qcow2")
    server = host.Process("web", sys.executable, "-m", "http.server", "-b", "127.0.0.1", "-d",
                          directory, "7998")
    url = "http://127.0.0.1:7998/"
    host.wait_for_answer("127.0.0.1:7998")
    raw = by_turns(api, directory, {"http": {"url": url + "raw.img"}},
                   f"curl -sSfo disk.img {url}raw.img")
    qcow2 = by_turns(api, directory, {"http": {"url": url + "small.qcow2"}},
                     f"curl -sSfo got {url}small.qcow2; qemu-img convert -f qcow2 -O raw got disk.img")
    filled_by_us(api, "origin", {"http": {"url": url + "raw.img"}})
    uid = api.get("pvc", "origin")["metadata"]["uid"]
    origin = ground.guests.directory / "data" / "volumes" / uid / "disk.img"
    clone = by_turns(api, directory, {"pvc": {"namespace": "default", "name": "origin"}},
                     f"cp --reflink=auto --sparse=always {origin} disk.img")
    remove(api, "origin")
    server.end()
    return [row("512 MiB disk from a web server, raw", "curl", *raw),
            row("512 MiB disk from a web server, qcow2", "curl, qemu-img convert", *qcow2),
            row("512 MiB disk cloned", "cp", *clone)]
