"""Pools of real guests: rolled out, stopped by a bad template, scaled in with their state."""

import re
import threading
import time

import pytest

import host
from client import ApiError, address_of, condition
from host import demo_pool

# Says by its host name what its disk says, and writes that on a new disk: something that is unique.
TOKEN = """#!/bin/sh
if [ "$(head -c 1 /dev/vdc)" != T ]; then
printf T%s "$(cut -d- -f1 /proc/sys/kernel/random/uuid)" | dd of=/dev/vdc conv=notrunc,fsync; fi
hostname "$(head -c 9 /dev/vdc)"
"""


def with_data(document, preservation):
    """Gives each guest a disk of its own with a token on it."""
    spec = document["spec"]["virtualMachineTemplate"]["spec"]
    guest = spec["template"]["spec"]
    guest["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
    guest["volumes"][1]["cloudInitNoCloud"]["userData"] = TOKEN
    guest["volumes"].append({"name": "data", "dataVolume": {"name": "data"}})
    spec["dataVolumeTemplates"] = [{"metadata": {"name": "data"}, "spec": {
        "source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "16Mi"}}}}}]
    document["spec"]["scaleInStrategy"] = {"proactive": {
        "selectionPolicy": {"sortPolicy": "DescendingOrder"}, "statePreservation": preservation}}
    return document


def at_count(name, replicas):
    def check(objects):
        status = objects.get(name, {}).get("status", {})
        return status.get("replicas", 0) == replicas == status.get("readyReplicas", 0)
    return check


def wait_rolled_out(api, name, replicas):
    def check(objects):
        status = objects[name].get("status", {})
        return (status.get("observedGeneration") == objects[name]["metadata"]["generation"]
                and status.get("updatedReplicas") == replicas and at_count(name, replicas)(objects)
                and (condition(objects[name], "Progressing") or {}).get("status") == "True"
                and objects[name])
    return api.wait("vmpool", check, 300)


def wait_ready(api, name, replicas, timeout=240):
    api.wait_ready(name, replicas, timeout, "vmpool")


def scale(api, name, replicas):
    api.patch("vmpool", name, {"spec": {"replicas": replicas}}, "scale")


def says(api, name, path="/"):
    return host.http_get(address_of(api.get("vmi", name)), path)


def tokens(api, names):
    def all_tokens():
        found = {name: says(api, name) for name in names}
        return found if all(t.startswith("T") and len(t) == 9 for t in found.values()) else None
    return host.eventually(all_tokens, what="the guests' tokens")


@pytest.fixture
def pools(api):
    yield api
    for document in api.list("vmpool"):
        api.delete("vmpool", document["metadata"]["name"])
    for kind in ("vmpool", "vm", "dv", "pvc", "savedvm"):
        for document in api.list(kind):
            try:
                api.delete(kind, document["metadata"]["name"])
            except ApiError as error:
                assert error.code in (404, 405), error
        api.wait(kind, lambda objects: not objects, timeout=90)


class Answering:
    """Counts from outside, again and again, how many of these addresses answer."""

    def __init__(self, addresses):
        self.counts = []
        self.addresses = addresses
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            answers = 0
            for address in self.addresses:
                # A busy guest may lose a packet: asked twice it answers.
                answers += any(self.answers(address) for _ in range(2))
            self.counts.append(answers)

    @staticmethod
    def answers(address):
        try:
            return host.http_get(address, timeout=2) != ""
        except OSError:
            return False

    def end(self):
        self.ended.set()
        self.thread.join()
        return self.counts


def test_the_seed_document_line_by_line(daemon, pools, tmp_path):
    """../shared/seeds: what its commands print, but for the image, the autoscaler and the Service."""
    text = (host.ROOT / "tests/manifests/seeds/vm-pool-cirros.yaml").read_text()
    manifest = tmp_path / "vm-pool-cirros.yaml"
    manifest.write_text(text.replace("kubevirt/cirros-container-disk-demo:latest", host.DEMO_IMAGE))
    assert daemon.kubectl("create", "-f", manifest) == \
        "virtualmachinepool.pool.kubevirt.io/vm-pool-cirros created\n"
    wait_ready(pools, "vm-pool-cirros", 3)
    said = re.sub(r" +", " ", daemon.kubectl("describe", "vmpool", "vm-pool-cirros"))
    for line in ("Name: vm-pool-cirros", "Namespace: default", "Labels: <none>",
                 "Kind: VirtualMachinePool", "Generation: 1", "Running: true", "Memory: 128Mi",
                 "Label Selector: kubevirt.io/vmpool=vm-pool-cirros", "Ready Replicas: 3",
                 "Replicas: 3"):
        assert f"{line}\n" in said, (line, said)
    for index in range(3):
        assert re.search(r"Normal SuccessfulCreate \S+ virtualmachinepool-controller "
                         f"Created VM default/vm-pool-cirros-{index}\n", said)
    assert daemon.kubectl("get", "vmpool").split()[:5] == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert daemon.kubectl("scale", "vmpool", "vm-pool-cirros", "--replicas", "5") == \
        "virtualmachinepool.pool.kubevirt.io/vm-pool-cirros scaled\n"
    wait_ready(pools, "vm-pool-cirros", 5)
    uid = pools.get("vmi", "vm-pool-cirros-0")["metadata"]["uid"]
    assert daemon.kubectl("patch", "vm", "vm-pool-cirros-0", "--type", "merge", "--patch",
                          '{"metadata":{"ownerReferences":null}}') == \
        "virtualmachine.kubevirt.io/vm-pool-cirros-0 patched\n"
    pools.wait("vm", lambda objects: "vm-pool-cirros-5" in objects)
    wait_ready(pools, "vm-pool-cirros", 5)
    # It runs on, alone, and can be deleted without anybody's help.
    assert pools.get("vmi", "vm-pool-cirros-0")["metadata"]["uid"] == uid
    detached = pools.get("vm", "vm-pool-cirros-0")
    assert "ownerReferences" not in detached["metadata"]
    assert "pool.kubevirt.io/finalizer" not in detached["metadata"]["finalizers"]
    daemon.kubectl("delete", "vm", "vm-pool-cirros-0", "--wait", "--timeout=60s")
    assert pools.get("vmpool", "vm-pool-cirros")["status"]["replicas"] == 5
    assert daemon.kubectl("delete", "vmpool", "vm-pool-cirros") == \
        'virtualmachinepool.pool.kubevirt.io "vm-pool-cirros" deleted\n'
    pools.wait("vm", lambda objects: not objects)


@pytest.mark.parametrize("spelling", ["nameGeneration", "AppendPostfix"])
def test_each_guest_has_its_own_secret_and_config_map(pools, spelling):
    document = demo_pool(replicas=2)
    if spelling == "nameGeneration":
        document["spec"]["nameGeneration"] = {"appendIndexToSecretRefs": True,
                                              "appendIndexToConfigMapRefs": True}
    else:
        document["spec"].update(AppendPostfixToSecretReferences=True,
                                AppendPostfixToConfigMapReferences=True)
    guest = document["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]
    guest["volumes"][1] = {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "seed"}}}
    guest["volumes"].append({"name": "words", "configMap": {"name": "words"}})
    guest["domain"]["devices"]["disks"].append({"name": "words", "disk": {"bus": "virtio"}})
    script = ("#!/bin/sh\nmodprobe isofs; mount -t iso9660 -o ro /dev/vdc /mnt && "
              "hostname {}-$(cat /mnt/word)\n")
    pools.create("vmpool", document)
    # What is not there yet is waited for, and named.
    waiting = pools.wait("vmi", lambda objects: condition(objects.get("web-1", {}), "Synchronized")
                         and objects["web-1"])
    assert re.search(r"(seed|words)-1", condition(waiting, "Synchronized")["message"])
    for index in range(2):
        pools.create("secrets", {"metadata": {"name": f"seed-{index}"},
                                 "stringData": {"userdata": script.format(f"s{index}")}})
        pools.create("configmaps", {"metadata": {"name": f"words-{index}"},
                                    "data": {"word": f"c{index}"}})
    wait_ready(pools, "web", 2)
    for index in range(2):
        host.eventually(lambda: says(pools, f"web-{index}") == f"s{index}-c{index}")
    for index in range(2):
        pools.delete("secrets", f"seed-{index}")
        pools.delete("configmaps", f"words-{index}")


def test_update_whose_guests_never_get_ready_stops_after_one(daemon, pools):
    pools.create("vmpool", demo_pool(replicas=4, maxUnavailable=1))
    wait_ready(pools, "web", 4)
    uids = {v["metadata"]["name"]: v["metadata"]["uid"] for v in pools.list("vmi")}
    good = pools.get("vmpool", "web")["spec"]["virtualMachineTemplate"]
    answering = Answering([address_of(v) for v in pools.list("vmi")])

    pools.patch("vmpool", "web", {
        "metadata": {"annotations": {"virtset.io/progress-deadline-seconds": "15"}},
        "spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {
            "readinessProbe": {"httpGet": {"port": 81}, "periodSeconds": 1}}}}}}})
    stopped = pools.wait("vmpool", lambda objects: (condition(objects["web"], "Progressing") or {})
                         .get("reason") == "ProgressDeadlineExceeded" and objects["web"], 90)
    progressing = condition(stopped, "Progressing")
    assert progressing["status"] == "False"
    changed = [v["metadata"]["name"] for v in pools.list("vmi")
               if v["metadata"]["uid"] != uids[v["metadata"]["name"]]]
    assert len(changed) == 1, "more than one was taken down"
    assert changed[0] in progressing["message"]
    assert stopped["status"]["readyReplicas"] == 3 and stopped["status"]["updatedReplicas"] == 1
    assert stopped["status"]["observedGeneration"] == stopped["metadata"]["generation"]

    pools.patch("vmpool", "web", {"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {
        "readinessProbe": good["spec"]["template"]["spec"]["readinessProbe"]}}}}}})
    healed = wait_rolled_out(pools, "web", 4)
    counts = answering.end()
    assert min(counts) >= 3, f"only {min(counts)} of 4 answered"
    assert len(counts) > 20 and healed["status"]["readyReplicas"] == 4
    same = [v for v in pools.list("vmi") if v["metadata"]["uid"] == uids[v["metadata"]["name"]]]
    assert len(same) == 3, "guests that were well were restarted by going back"


def test_good_update_reaches_all_one_after_the_other(pools):
    pools.create("vmpool", demo_pool(replicas=3, maxUnavailable=1))
    wait_ready(pools, "web", 3)
    uids = {v["metadata"]["uid"] for v in pools.list("vmi")}
    answering = Answering([address_of(v) for v in pools.list("vmi")])
    pools.patch("vmpool", "web", {"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {
        "domain": {"memory": {"guest": "136Mi"}}}}}}}})
    wait_rolled_out(pools, "web", 3)
    counts = answering.end()
    assert min(counts) >= 2
    assert not uids & {v["metadata"]["uid"] for v in pools.list("vmi")}
    assert {v["status"]["memory"]["guestAtBoot"] for v in pools.list("vmi")} == {"136Mi"}


def test_disks_that_were_kept_are_found_again(pools):
    pools.create("vmpool", with_data(demo_pool(), "Offline"))
    wait_ready(pools, "web", 3)
    names = ["web-0", "web-1", "web-2"]
    before = tokens(pools, names)
    assert len(set(before.values())) == 3
    identity = says(pools, "web-1", "/instance")
    address = address_of(pools.get("vmi", "web-1"))
    scale(pools, "web", 1)
    pools.wait("vm", lambda objects: list(objects) == ["web-0"])
    assert {d["metadata"]["name"] for d in pools.list("dv")} == {"data-0", "data-1", "data-2"}
    scale(pools, "web", 3)
    wait_ready(pools, "web", 3)
    assert tokens(pools, names) == before
    # So that cloud-init does not take it for a new machine, nor its network for another.
    assert says(pools, "web-1", "/instance") == identity
    assert address_of(pools.get("vmi", "web-1")) == address


def test_memory_that_was_kept_goes_on(daemon, pools):
    pools.create("vmpool", with_data(demo_pool(), "Online"))
    wait_ready(pools, "web", 3)
    before = tokens(pools, ["web-1", "web-2"])
    up = float(says(pools, "web-1", "/uptime"))
    boots = {name: says(pools, name, "/boot") for name in ("web-1", "web-2")}
    scale(pools, "web", 1)
    saved = pools.wait("savedvm", lambda objects: len(objects) == 2 and all(
        o.get("status", {}).get("phase") == "Saved" for o in objects.values()) and objects)
    assert all(o["status"]["memoryBytes"] > 0 for o in saved.values())
    assert len(host.qemu_processes()) == 1
    # Also over a crash of the daemon.
    daemon.kill()
    daemon.start()
    time_apart = time.monotonic()
    scale(pools, "web", 3)
    wait_ready(pools, "web", 3)
    assert tokens(pools, ["web-1", "web-2"]) == before
    for name, boot in boots.items():
        assert says(pools, name, "/boot") == boot, "the guest booted"
    assert float(says(pools, "web-1", "/uptime")) > up
    assert time.monotonic() - time_apart < 60
    pools.wait("savedvm", lambda objects: not objects)


def test_disks_go_with_their_machine_unless_they_are_kept(pools):
    pools.create("vmpool", with_data(demo_pool(replicas=2), "Disabled"))
    wait_ready(pools, "web", 2)
    before = tokens(pools, ["web-0", "web-1"])
    scale(pools, "web", 1)
    pools.wait("dv", lambda objects: list(objects) == ["data-0"])
    scale(pools, "web", 2)
    wait_ready(pools, "web", 2)
    after = tokens(pools, ["web-0", "web-1"])
    assert after["web-0"] == before["web-0"] and after["web-1"] != before["web-1"]


def test_daemon_killed_all_along_a_roll_out_and_a_scale_in_ends_right(daemon, pools):
    pools.create("vmpool", with_data(demo_pool(maxUnavailable=1), "Offline"))
    wait_ready(pools, "web", 3)
    before = tokens(pools, ["web-0", "web-1", "web-2"])
    pools.patch("vmpool", "web", {"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {
        "domain": {"memory": {"guest": "136Mi"}}}}}}}})
    for pause in (0.0, 0.05, 0.2, 1.0, 3.0):
        time.sleep(pause)  # some moment of it
        daemon.kill()
        daemon.start()
    wait_rolled_out(pools, "web", 3)
    assert tokens(pools, ["web-0", "web-1", "web-2"]) == before
    scale(pools, "web", 1)
    for pause in (0.0, 0.05, 0.2):
        time.sleep(pause)  # some moment of it
        daemon.kill()
        daemon.start()
    pools.wait("vm", lambda objects: list(objects) == ["web-0"], 90)
    scale(pools, "web", 3)
    wait_ready(pools, "web", 3)
    assert tokens(pools, ["web-0", "web-1", "web-2"]) == before
    assert len(host.qemu_processes()) == 3
