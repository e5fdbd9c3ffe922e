"""Container disks from a real registry."""

import json
import os

import pytest

import host
import oci
from client import condition
from host import demo_set

DAEMON_OPTIONS = ["--insecure-registry", "127.0.0.1:5000"]


@pytest.fixture(scope="module")
def pushed(registry):
    return registry.push_demo("demo:1")


def pull_trouble(api, text):
    """Waits until an instance and an event say `text`; returns the instance."""
    found = api.wait("vmi", lambda objects: [
        v for v in objects.values() if text in str((condition(v, "Synchronized") or {}).get("message"))])
    assert condition(found[0], "Synchronized")["reason"] in (
        "ErrImagePull", "ImagePullBackOff", "InvalidImage")
    name = found[0]["metadata"]["name"]
    api.wait("events", lambda events: any(
        e["involvedObject"]["name"] == name and text in e["message"] and e["type"] == "Warning"
        for e in events.values()))
    return found[0]


def test_one_pull_for_all_replicas(daemon, api, registry, pushed):
    before = registry.pulls_of("demo")
    api.create("vmirs", demo_set(replicas=3, image=pushed))
    api.wait_ready("web", 3)
    # The configuration and the layer.
    assert registry.pulls_of("demo") - before <= 2
    disks = [json.loads(host.run("qemu-img", "info", "-U", "--output=json", d))
             for d in (daemon.directory / "data" / "vms").glob("*/*.qcow2")]
    assert len(disks) == 3
    images = {os.stat(d["full-backing-filename"]).st_ino for d in disks}
    assert len(images) == 1, "each replica has a copy of the image"


def test_image_by_digest(api, registry, pushed):
    digest = json.loads(host.run("skopeo", "inspect", "--tls-verify=false",
                                 f"docker://{pushed}"))["Digest"]
    api.create("vmirs", demo_set(replicas=1, image=f"{registry.address}/demo@{digest}"))
    api.wait_ready("web", 1)


def test_unknown_tag_is_said_in_the_registrys_words(api, registry):
    api.create("vmirs", demo_set(replicas=1, image=f"{registry.address}/demo:none"))
    pull_trouble(api, "manifest unknown")


def test_registry_that_is_gone_and_comes_back(api, registry):
    image = registry.push_demo("late:1")
    registry.stop()
    try:
        api.create("vmirs", demo_set(replicas=2, image=image))
        waiting = pull_trouble(api, "connection refused")
        api.wait("vmi", lambda objects: condition(
            objects[waiting["metadata"]["name"]], "Synchronized")["reason"] == "ImagePullBackOff")
    finally:
        registry.start()
    api.wait_ready("web", 2)


def test_registry_without_tls_needs_configuration(api, pushed):
    api.create("vmirs", demo_set(replicas=1, image=pushed.replace("127.0.0.1", "127.0.0.2")))
    pull_trouble(api, "server gave HTTP response to HTTPS client")


def qcow2_with_backing_file():
    path = host.DIR / "backed.qcow2"
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/shadow", "-F", "raw", path,
             "1M")
    return path.read_bytes()


RAW = bytes(1 << 20)
BAD = {
    "nothing": ([oci.file("other/x.img", RAW)], "no disk"),
    "two": ([oci.file("disk/a.img", RAW), oci.file("disk/b.img", RAW)], "more than one file"),
    "backing": (qcow2_with_backing_file, "backing file"),
    "traversal": ([oci.file("disk/../../../escaped.img", RAW)], "climbs"),
    "symlink": ([oci.link("disk/a.img", "/etc/passwd")], "link"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_image_is_refused_with_a_reason(daemon, api, registry, name):
    entries, reason = BAD[name]
    if callable(entries):
        entries = [oci.file("disk/a.qcow2", entries())]
    image = registry.push(oci.archive(host.DIR / f"{name}.tar", entries), f"bad-{name}:1")
    known = set((daemon.directory / "data" / "images").rglob("*"))
    api.create("vmirs", demo_set(replicas=1, image=image))
    trouble = pull_trouble(api, reason)
    assert trouble["status"]["phase"] in ("Pending", "Scheduling")
    api.delete("vmirs", "web")
    api.wait("vmi", lambda objects: not objects)
    assert set((daemon.directory / "data" / "images").rglob("*")) == known, "something was left behind"
    assert not host.qemu_processes()


def test_truncated_blob_is_refused_and_mends_itself(api, registry):
    source = oci.archive(host.DIR / "cut.tar", [oci.file("disk/a.img", os.urandom(1 << 20))])
    image = registry.push(source, "cut:1")
    layers = json.loads(host.run("skopeo", "inspect", "--tls-verify=false",
                                 f"docker://{image}"))["Layers"]
    digest = layers[0].removeprefix("sha256:")
    blob = registry.directory / f"docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"
    whole = blob.read_bytes()
    blob.write_bytes(whole[:len(whole) // 2])
    document = demo_set(replicas=1, image=image)
    document["spec"]["template"]["spec"].pop("readinessProbe")  # there is nothing to boot on it
    api.create("vmirs", document)
    pull_trouble(api, "127.0.0.1:5000/cut:1")
    assert not host.qemu_processes()
    blob.write_bytes(whole)
    api.wait_ready("web", 1)
