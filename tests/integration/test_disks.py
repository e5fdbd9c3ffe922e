"""Disks that stay: filled from nothing, a registry, a web server and each other, and used by real guests."""

import hashlib
import http.server
import os
import re
import threading

import pytest

import host
from client import ApiError, address_of, condition
from host import demo_set

DAEMON_OPTIONS = ["--insecure-registry", "127.0.0.1:5000"]
MIB = 1 << 20

# Says over HTTP, by its name, what it found on its second disk, and leaves a note there.
NOTES = """#!/bin/sh
if [ "$(head -c 4 /dev/vdb)" = note ]; then hostname found; else
printf note | dd of=/dev/vdb conv=notrunc,fsync; hostname written; fi
"""


def data_volume(name, source, size="64Mi"):
    return {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": {"name": name},
            "spec": {"source": source, "storage": {"resources": {"requests": {"storage": size}}}}}


def guest(name, volumes, image=host.DEMO_IMAGE, user_data="#cloud-config\n", seed=None):
    """Boots from the image, or from the first of the volumes; has all of them and a seed."""
    spec = demo_set()["spec"]["template"]["spec"]
    sources = [{"containerDisk": {"image": image, "imagePullPolicy": "IfNotPresent"}}] if image else []
    sources += volumes + [seed or {"cloudInitNoCloud": {"userData": user_data}}]
    spec["volumes"] = [{"name": f"disk{i}", **source} for i, source in enumerate(sources)]
    spec["domain"]["devices"]["disks"] = [
        {"name": volume["name"], "disk": {"bus": "virtio"}} for volume in spec["volumes"]]
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
            "metadata": {"name": name}, "spec": spec}


def wait_ready(api, name, timeout=120):
    return api.wait("vmi", lambda objects: name in objects and
                    (condition(objects[name], "Ready") or {}).get("status") == "True"
                    and objects[name], timeout)


def wait_phase(api, name, phase, timeout=60):
    return api.wait("dv", lambda objects: objects.get(name, {}).get("status", {}).get("phase") == phase
                    and objects[name], timeout)


def remove(api, kind, name):
    api.delete(kind, name)
    api.wait(kind, lambda objects: name not in objects)


def volumes_of(daemon):
    """All that is in their directory but the mark that says whose it is."""
    return [p.name for p in (daemon.directory / "data" / "volumes").iterdir() if p.name != "installation"]


@pytest.fixture
def disks(daemon, api):
    """All disks go after the test, with their files."""
    yield api
    for vmi in api.list("vmi"):
        remove(api, "vmi", vmi["metadata"]["name"])
    for kind in ("dv", "pvc"):
        for document in api.list(kind):
            try:
                api.delete(kind, document["metadata"]["name"])
            except ApiError as error:
                assert error.code == 404, error
    api.wait("pvc", lambda objects: not objects)
    assert volumes_of(daemon) == [], "files were left behind"


class FileServer:
    """Serves the bytes it is given, in parts too, as slowly as it is told."""

    def __init__(self):
        self.content = b""
        self.gate = threading.Event()
        self.gate.set()
        self.starts = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                start = 0
                part = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
                if part:
                    start = int(part[1])
                outer.starts.append(start)
                rest = outer.content[start:]
                self.send_response(206 if part else 200)
                if part:
                    self.send_header("Content-Range",
                                     f"bytes {start}-{len(outer.content) - 1}/{len(outer.content)}")
                self.send_header("ETag", '"1"')
                self.send_header("Content-Length", str(len(rest)))
                self.end_headers()
                try:
                    self.wfile.write(rest[:len(rest) // 2])
                    outer.gate.wait(60)
                    self.wfile.write(rest[len(rest) // 2:])
                except OSError:
                    pass

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/disk.img"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.gate.set()
        self.server.shutdown()


@pytest.fixture
def web():
    server = FileServer()
    yield server
    server.close()


def test_data_outlives_the_guest(daemon, disks):
    disks.create("dv", data_volume("data", {"blank": {}}))
    volumes = [{"dataVolume": {"name": "data"}}]
    disks.create("vmi", guest("vm", volumes, user_data=NOTES))
    vmi = wait_ready(disks, "vm")
    host.wait_for_answer(address_of(vmi), "written")
    claim = disks.get("pvc", "data")
    assert claim["status"]["phase"] == "Bound"
    file = daemon.directory / "data" / "volumes" / claim["metadata"]["uid"] / "disk.img"
    assert file.stat().st_size == 64 * MIB
    # It stays while it is used.
    disks.delete("pvc", "data")
    assert "Terminating" in disks.table("pvc")
    assert file.exists()
    remove(disks, "vmi", "vm")
    disks.wait("pvc", lambda objects: objects.get("data", {}).get("metadata", {}).get("uid")
               not in (None, claim["metadata"]["uid"]))
    wait_phase(disks, "data", "Succeeded")

    for said in ("written", "found", "found"):
        disks.create("vmi", guest("vm", volumes, user_data=NOTES))
        vmi = wait_ready(disks, "vm")
        host.wait_for_answer(address_of(vmi), said)
        remove(disks, "vmi", "vm")


def test_guest_boots_from_an_imported_image_and_from_a_copy_of_it(disks, registry):
    image = registry.push_demo("golden:1")
    disks.create("dv", data_volume("golden", {"registry": {"url": f"docker://{image}"}}))
    disks.create("dv", data_volume("copy", {"pvc": {"name": "golden"}}, "80Mi"))
    disks.create("vmi", guest("copy", [{"dataVolume": {"name": "copy"}}], image=None))
    assert host.http_get(address_of(wait_ready(disks, "copy"))) == "copy"
    disks.create("vmi", guest("golden", [{"dataVolume": {"name": "golden"}}], image=None))
    vmi = wait_ready(disks, "golden")
    info = {v["name"]: v for v in vmi["status"]["volumeStatus"]}["disk0"]["persistentVolumeClaimInfo"]
    assert info["claimName"] == "golden" and info["capacity"] == {"storage": "64Mi"}
    # One at a time.
    disks.create("vmi", guest("second", [{"dataVolume": {"name": "golden"}}], image=None))
    waiting = disks.wait("vmi", lambda objects: condition(objects["second"], "Synchronized")
                         and objects["second"])
    assert condition(waiting, "Synchronized")["reason"] == "PvcInUse"
    remove(disks, "vmi", "golden")
    wait_ready(disks, "second")


def test_import_over_http_with_progress(daemon, disks, web):
    web.content = (host.DEMO / "demo.img").read_bytes()
    web.gate.clear()
    checksum = "sha256:" + hashlib.sha256(web.content).hexdigest()
    disks.create("vmi", guest("vm", [{"dataVolume": {"name": "root"}}], image=None))
    disks.wait("vmi", lambda objects: (condition(objects["vm"], "Synchronized") or {}).get("reason")
               == "FailedPvcNotFound")
    disks.create("dv", data_volume("root", {"http": {"url": web.url, "checksum": checksum}}))
    half = disks.wait("dv", lambda objects: re.fullmatch(
        r"[1-9]\d\.\d\d%", objects["root"].get("status", {}).get("progress", "")) and objects["root"])
    assert half["status"]["phase"] == "ImportInProgress"
    assert re.search(r"root +ImportInProgress +\d\d\.\d\d%", disks.table("dv"))
    waiting = disks.wait("vmi", lambda objects: condition(objects["vm"], "DataVolumesReady")
                         and objects["vm"])
    assert "ImportInProgress" in condition(waiting, "DataVolumesReady")["message"]
    # A daemon that is killed meanwhile goes on where it was, as far as that is durable.
    daemon.kill()
    web.gate.set()
    daemon.start()
    wait_ready(disks, "vm")
    assert disks.get("dv", "root")["status"]["progress"] == "100.0%"


def test_refused_import_says_why_and_mends_itself(disks, web, registry):
    web.content = os.urandom(2 * MIB)
    disks.create("dv", data_volume("none", {"registry": {"url": f"docker://{registry.address}/none:1"}}))
    disks.create("dv", data_volume("small", {"http": {"url": web.url}}, "1Mi"))
    failed = disks.wait("dv", lambda objects: all(
        (condition(objects[name], "Running") or {}).get("reason") in ("ImportFailed", "InvalidImage")
        for name in ("none", "small")) and objects)
    assert "none" in condition(failed["none"], "Running")["message"]
    assert "A larger PVC is required" in condition(failed["small"], "Running")["message"]
    disks.wait("events", lambda events: any(
        e["involvedObject"]["name"] == "small" and "larger PVC" in e["message"] for e in events.values()))
    web.content = os.urandom(MIB)
    wait_phase(disks, "small", "Succeeded")


def test_missing_secret_is_waited_for(disks):
    disks.create("vmi", guest("vm", [], seed={"cloudInitNoCloud": {"secretRef": {"name": "seed"}}}))
    waiting = disks.wait("vmi", lambda objects: condition(objects["vm"], "Synchronized")
                         and objects["vm"])
    assert condition(waiting, "Synchronized")["reason"] == "FailedReferenceNotFound"
    assert "Secret default/seed" in condition(waiting, "Synchronized")["message"]
    disks.create("secrets", {"metadata": {"name": "seed"},
                             "stringData": {"userdata": "#!/bin/sh\nhostname from-the-secret\n"}})
    vmi = wait_ready(disks, "vm")
    host.wait_for_answer(address_of(vmi), "from-the-secret")
    disks.delete("secrets", "seed")


def test_configuration_is_found_on_disks(disks):
    disks.create("secrets", {"metadata": {"name": "s"}, "stringData": {"key": "in-the-secret"}})
    script = ("#!/bin/sh\nmodprobe isofs; mount -t iso9660 -o ro /dev/vdb /mnt && hostname $(cat /mnt/key)\n")
    disks.create("vmi", guest("vm", [{"secret": {"secretName": "s"}}], user_data=script))
    vmi = wait_ready(disks, "vm")
    host.wait_for_answer(address_of(vmi), "in-the-secret")
    disks.delete("secrets", "s")


def test_claim_grows(disks):
    disks.create("pvc", {"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}})
    script = "#!/bin/sh\nhostname s$(cat /sys/block/vdb/size)\n"
    volumes = [{"persistentVolumeClaim": {"claimName": "data"}}]
    for size, sectors in (("16Mi", 32768), ("32Mi", 65536)):
        disks.patch("pvc", "data", {"spec": {"resources": {"requests": {"storage": size}}}})
        disks.wait("pvc", lambda objects: objects["data"]["status"].get("capacity") == {"storage": size})
        disks.create("vmi", guest("vm", volumes, user_data=script))
        vmi = wait_ready(disks, "vm")
        host.wait_for_answer(address_of(vmi), f"s{sectors}")
        remove(disks, "vmi", "vm")


def test_disks_come_back_from_qemus_user(libvirt, virtset_user):
    """libvirt gives them to QEMU's user, and the daemon has no rights but its own."""
    daemon = host.Daemon("unprivileged", "--listen", "off", "--network-name", "virtset2",
                         "--network-cidr", "10.118.0.0/24")
    daemon.become_virtset()
    daemon.start()
    try:
        daemon.import_demo()
        api = daemon.api
        api.create("dv", data_volume("data", {"blank": {}}))
        for said in ("written", "found"):
            api.create("vmi", guest("vm", [{"dataVolume": {"name": "data"}}], user_data=NOTES))
            vmi = wait_ready(api, "vm")
            host.wait_for_answer(address_of(vmi), said)
            if said == "found":
                os.kill(host.qemu_processes("default_vm")["default_vm"], 9)
            remove(api, "vmi", "vm")
        api.create("dv", data_volume("copy", {"pvc": {"name": "data"}}))
        wait_phase(api, "copy", "Succeeded")
        api.patch("pvc", "data", {"spec": {"resources": {"requests": {"storage": "65Mi"}}}})
        api.wait("pvc", lambda objects: objects["data"]["status"]["capacity"]["storage"] == "65Mi")
        api.create("vmi", guest("reader", [{"ephemeral": {
            "persistentVolumeClaim": {"claimName": "copy"}}}], user_data=NOTES))
        vmi = wait_ready(api, "reader")
        host.wait_for_answer(address_of(vmi), "found")
        remove(api, "vmi", "reader")
        # libvirt does not give back what was only read.
        for size in ("65Mi", "66Mi"):
            api.patch("pvc", "copy", {"spec": {"resources": {"requests": {"storage": size}}}})
            api.wait("pvc", lambda objects: objects["copy"]["status"]["capacity"]["storage"] == size)
            api.create("vmi", guest("reader", [{"persistentVolumeClaim": {
                "claimName": "copy", "readOnly": True}}], user_data=NOTES))
            vmi = wait_ready(api, "reader")
            host.wait_for_answer(address_of(vmi), "found")
            remove(api, "vmi", "reader")
        api.create("dv", data_volume("another", {"pvc": {"name": "copy"}}, "66Mi"))
        wait_phase(api, "another", "Succeeded")
        for name in ("data", "copy", "another"):
            remove(api, "dv", name)
        api.wait("pvc", lambda objects: not objects)
        assert volumes_of(daemon) == []
        daemon.stop()
    finally:
        if daemon.process.alive():
            daemon.kill()
        host.virsh("net-destroy", "virtset2", check=False)


@pytest.fixture
def small_daemon(libvirt):
    """One whose data is on a small file system of its own."""
    place = host.DIR / "small-disk"
    place.mkdir()
    image = host.DIR / "small-disk.img"
    host.run("truncate", "-s", "320M", image)
    host.run("mkfs.ext4", "-q", "-m", "0", image)
    host.run("mount", "-o", "loop", image, place)
    place.chmod(0o711)
    daemon = host.Daemon("small-daemon", "--data-dir", place / "data", "--listen", "off",
                         "--network-name", "virtset1", "--network-cidr", "10.117.0.0/24").start()
    yield daemon, place
    for kind in ("vmi", "dv"):
        for document in daemon.api.list(kind):
            remove(daemon.api, kind, document["metadata"]["name"])
    daemon.stop()
    host.virsh("net-destroy", "virtset1")
    host.run("umount", place)
    place.rmdir()
    image.unlink()


def test_full_disk_stops_the_import_alone(small_daemon, web):
    daemon, place = small_daemon
    api = daemon.api
    daemon.import_demo(place / "data")
    api.create("vmi", guest("other", []))
    other = wait_ready(api, "other")
    filler = place / "filler"
    host.run("fallocate", "-l", "150M", filler)
    web.content = os.urandom(100 * MIB)
    api.create("dv", data_volume("big", {"http": {"url": web.url}}, "100Mi"))
    failed = api.wait("dv", lambda objects: (condition(objects["big"], "Running") or {}).get("reason")
                      == "NoSpaceLeft" and objects["big"])
    assert "running virtual machines" in condition(failed, "Running")["message"]
    assert condition(failed, "Running")["status"] == "False"
    # Nothing of it takes the room of others, and those run on.
    free = os.statvfs(place)
    assert free.f_bavail * free.f_frsize > 20 * MIB
    assert host.http_get(address_of(other)) == "other"
    uid = api.get("pvc", "big")["metadata"]["uid"]
    assert not (place / "data" / "volumes" / uid / "disk.img").exists()
    filler.unlink()
    wait_phase(api, "big", "Succeeded", 90)
    disk = (place / "data" / "volumes" / uid / "disk.img").read_bytes()
    assert hashlib.sha256(disk).digest() == hashlib.sha256(web.content).digest()
    assert api.get("vmi", "other")["status"]["phase"] == "Running"
