"""Virtual machines with real guests: started, stopped and restarted by curl, rebooted from inside."""

import json
import subprocess

import host
from client import address_of, condition
from host import demo_set

BASE = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/"

# Reboots once: what it has noted on its second disk says whether it did.
REBOOTS_ONCE = """#!/bin/sh
if [ "$(head -c 4 /dev/vdc)" = note ]; then hostname rebooted; else
printf note | dd of=/dev/vdc conv=notrunc,fsync; reboot -f; fi
"""


def machine(name="vm", user_data="#cloud-config\n", **spec):
    template = demo_set()["spec"]["template"]["spec"]
    template["terminationGracePeriodSeconds"] = 20
    template["volumes"][1]["cloudInitNoCloud"]["userData"] = user_data
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name},
            "spec": {"runStrategy": "Always", "template": {"spec": template}, **spec}}


def put(daemon, name, action, body=None):
    """As a person would: curl on the socket. Returns the code and the answer."""
    command = ["curl", "-sS", "--unix-socket", daemon.directory / "virtset.sock", "-X", "PUT", "-w",
               "\n%{http_code}", f"http://localhost{BASE}{name}/{action}"]
    if body is not None:
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    text, code = host.run(*command).rsplit("\n", 1)
    return int(code), text


def wait_printed(api, name, status, timeout=60):
    return api.wait("vm", lambda objects: objects.get(name, {}).get("status", {})
                    .get("printableStatus") == status and objects[name], timeout)


def wait_ready(api, name, timeout=120):
    api.wait("vm", lambda objects: objects.get(name, {}).get("status", {}).get("ready"), timeout)
    return api.get("vmi", name)


def test_stop_start_and_restart_by_curl_keep_who_it_is(daemon, api):
    api.create("vm", machine())
    first = wait_ready(api, "vm")
    address = address_of(first)
    identity = host.http_get(address, "/instance")
    assert host.http_get(address) == "vm"
    table = api.table("vm").split()
    assert table[:4] == ["NAME", "AGE", "STATUS", "READY"] and table[-2:] == ["Running", "True"]

    code, text = put(daemon, "vm", "start")
    assert code == 409 and "Always does not support manual start requests" in text
    assert put(daemon, "vm", "stop")[0] == 202
    wait_printed(api, "vm", "Stopped")
    assert api.list("vmi") == [] and host.qemu_processes() == {}
    # It was asked, and had the time: its grace period is longer than this took.
    assert [e["reason"] for e in api.events_of("vm") if e["reason"] == "ShuttingDown"]
    # Whoever comes meanwhile does not get its address.
    other = machine("other")
    api.create("vm", other)
    assert address_of(wait_ready(api, "other")) != address
    assert put(daemon, "vm", "start")[0] == 202
    second = wait_ready(api, "vm")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert address_of(second) == address
    assert host.http_get(address, "/instance") == identity

    assert put(daemon, "vm", "restart")[0] == 202
    api.wait("vmi", lambda objects: objects.get("vm", second)["metadata"]["uid"]
             != second["metadata"]["uid"])
    third = wait_ready(api, "vm")
    assert address_of(third) == address and host.http_get(address, "/instance") == identity


def test_guest_that_reboots_has_not_ended(api):
    document = machine(user_data=REBOOTS_ONCE)
    template = document["spec"]["template"]["spec"]
    template["domain"]["devices"]["disks"].append({"name": "note", "disk": {"bus": "virtio"}})
    template["volumes"].append({"name": "note", "emptyDisk": {"capacity": "8Mi"}})
    api.create("vm", document)
    vmi = wait_ready(api, "vm")
    host.wait_for_answer(address_of(vmi), "rebooted")
    assert api.get("vmi", "vm")["metadata"]["uid"] == vmi["metadata"]["uid"]
    assert len(host.qemu_processes()) == 1


def test_killed_guest_is_restarted_and_a_loop_is_slowed(daemon, api):
    api.create("vm", machine())
    vmi = wait_ready(api, "vm")
    for _ in range(2):
        # The first time it is started again at once.
        subprocess.run(["kill", "-9", *map(str, host.qemu_processes("default_vm").values())], check=True)
        uid = vmi["metadata"]["uid"]
        vm = api.wait("vm", lambda objects: objects["vm"]["status"].get("startFailure", {})
                      .get("lastFailedVMIUID") == uid and objects["vm"])
        vmi = api.wait("vmi", lambda objects: "vm" in objects and
                       objects["vm"]["metadata"]["uid"] != uid and
                       (condition(objects["vm"], "Ready") or {}).get("status") == "True"
                       and objects["vm"])
    assert vm["status"]["startFailure"]["consecutiveFailCount"] == 2


def test_changed_template_is_said_to_need_a_restart(daemon, api):
    api.create("vm", machine())
    wait_ready(api, "vm")
    api.patch("vm", "vm", {"spec": {"template": {"spec": {"domain": {"memory": {"guest": "160Mi"}}}}}})
    api.wait("vm", lambda objects: (condition(objects["vm"], "RestartRequired") or {})
             .get("status") == "True")
    assert put(daemon, "vm", "restart", {"gracePeriodSeconds": 0})[0] == 202
    api.wait("vmi", lambda objects: "vm" in objects and objects["vm"]["status"].get("memory", {})
             .get("guestAtBoot") == "160Mi")
    api.wait("vm", lambda objects: condition(objects["vm"], "RestartRequired") is None)


def test_deletion_waits_for_the_guest_and_orphaning_leaves_it(daemon, api):
    api.create("vm", machine())
    wait_ready(api, "vm")
    before = host.qemu_processes("default_vm")
    assert daemon.kubectl("delete", "vm", "vm", "--cascade=orphan") == \
        'virtualmachine.kubevirt.io "vm" deleted\n'
    assert "ownerReferences" not in api.get("vmi", "vm")["metadata"]
    api.create("vm", machine())
    wait_ready(api, "vm")
    assert host.qemu_processes("default_vm") == before, "the guest was restarted"
    daemon.kubectl("delete", "vm", "vm", "--wait")
    assert api.list("vmi") == []
