"""kubectl over time: watches, a restart of the daemon, wait, delete, events; and real guests at the end."""

import itertools
import re

import pytest

import host
from client import address_of
from compatibility import row
from kubectls import BINARIES, CM, NEWEST, VMIRS, Kubectl, config_map

DAEMON_OPTIONS = ["--node-name", "house"]
# Never pulled: its replicas are there, but no guest ever starts.
NO_IMAGE = "localhost/virtset-none:1"


def without_guests(kubectl, name, replicas):
    document = host.demo_set(name, replicas, image=NO_IMAGE)
    document["spec"]["template"]["spec"]["volumes"][0]["containerDisk"]["imagePullPolicy"] = "Never"
    kubectl.api("POST", VMIRS, "", document)
    host.eventually(lambda: len(instances(kubectl, name)) == replicas, what="its instances")


def instances(kubectl, name):
    """Of a set, as kubectl names them."""
    path = f"/apis/kubevirt.io/v1/namespaces/{kubectl.namespace}/virtualmachineinstances"
    found = kubectl.daemon.api.call("GET", f"{path}?labelSelector=app={name}")["items"]
    return ["vmi/" + each["metadata"]["name"] for each in found]


def once(lines):
    """Without repetitions: a set changes also when its status does."""
    return [line for line, _ in itertools.groupby(lines)]


@row("get -w, --watch-only", VMIRS, CM)
def test_watch(kubectl, subject, name):
    selector = ("-l", f"app={name}")
    kubectl.make(subject, name)
    with kubectl.stream("get", subject.label, *selector, "-w") as table, \
            kubectl.stream("get", subject.label, *selector, "-w", "--output-watch-events") as events, \
            kubectl.stream("get", subject.label, *selector, "--watch-only", "-o", "name") as later, \
            kubectl.stream("get", subject.label, *selector, "-w", "-o",
                           f"jsonpath={{{subject.field}}}{{'\\n'}}") as values:
        table.until(lambda lines: len(lines) == 2)
        events.until(lambda lines: len(lines) == 2)
        values.until(lambda lines: lines == ["1"])
        # That the last one watches is seen by what it prints; it must not miss all of them.
        value = 2
        while not later.lines:
            kubectl.change(subject, name, value)
            values.until(lambda lines: lines[-1] == str(value))
            later.look()
            value += 1
        kubectl("delete", subject.label, name)
        events.until(lambda lines: lines[-1].startswith("DELETED"))
        assert once(values.lines) == [str(i) for i in range(1, value)]
        header, first, second, *_ = table.until(lambda lines: len(lines) > 2)
        assert header.split()[0] == "NAME" and first.split()[0] == second.split()[0] == name
        assert events.lines[0].split()[:2] == ["EVENT", "NAME"]
        words = [line.split()[0] for line in events.lines[1:]]
        assert words == ["ADDED", *["MODIFIED"] * (len(words) - 2), "DELETED"], words
        assert set(later.lines) == {f"{subject.full}/{name}"}


@row("get NAME -w", VMIRS, CM)
def test_watch_of_one(kubectl, subject, name):
    other = name + "-other"
    for each in (name, other):
        kubectl.make(subject, each)
    with kubectl.stream("get", subject.label, name, "-w") as table, \
            kubectl.stream("get", subject.label, name, "-w", "-o",
                           f"jsonpath={{.metadata.name}}={{{subject.field}}}{{'\\n'}}") as values:
        table.until(lambda lines: len(lines) == 2)
        values.until(lambda lines: lines == [f"{name}=1"])
        # Between its GET and its watch kubectl sees nothing: changes until both are seen to watch.
        value = 2
        while len(table.lines) == 2 or len(values.lines) == 1:
            kubectl.change(subject, other, value)
            kubectl.change(subject, name, value)
            for stream in (table, values):
                stream.look(0.05)
            value += 1
        for value in range(value, value + 3):
            kubectl.change(subject, other, value)
            kubectl.change(subject, name, value)
        values.until(lambda lines: lines[-1] == f"{name}={value}")
        seen = [int(line.removeprefix(f"{name}=")) for line in once(values.lines[1:])]
        assert seen == list(range(seen[0], value + 1))
        header, *rows = table.lines
        assert header.split()[0] == "NAME" and {r.split()[0] for r in rows} == {name}


@pytest.fixture(scope="module")
def restarted(daemon, namespaces):
    """What every version's watches of a set and of a ConfigMap came to when the daemon was restarted."""
    streams = {}
    for version in BINARIES:
        kubectl = Kubectl(version, daemon)
        namespaces(kubectl.namespace)
        for subject in (VMIRS, CM):
            kubectl.make(subject, "restarted")
            streams[version, subject.label] = kubectl.stream(
                "get", subject.label, "-l", "app=restarted", "-w")
    for (version, label), stream in streams.items():
        stream.until(lambda lines: len(lines) == 2)
        Kubectl(version, daemon).change(VMIRS if label == "vmirs" else CM, "restarted", 2)
        stream.until(lambda lines: len(lines) >= 3)
    daemon.stop()
    ends = {key: stream.end() for key, stream in streams.items()}
    daemon.start()
    return ends


@row("get -w over a restart of the daemon", VMIRS, CM)
def test_watch_over_a_restart(kubectl, subject, restarted):
    code, lines, errors = restarted[kubectl.version, subject.label]
    assert (code, errors) == (0, "")
    assert {line.split()[0] for line in lines[1:]} == {"restarted"}
    kubectl.change(subject, "restarted", 3)
    assert kubectl("get", subject.label, "restarted", "-o", f"jsonpath={{{subject.field}}}") == "3"


@row("delete (any cascade, force, now)", VMIRS, CM)
def test_delete(kubectl, subject, name):
    for options in ((), ("--cascade=foreground",), ("--cascade=background",), ("--cascade=orphan",),
                    ("--now",), ("--grace-period=0", "--force"), ("--wait=false",)):
        kubectl.make(subject, name)
        said = kubectl("delete", subject.label, name, *options)
        assert said.startswith(f'{subject.full} "{name}" ') and "deleted" in said, options
        if "--wait=false" in options:
            host.eventually(lambda: not kubectl.live(subject, name), what="its end")
        assert kubectl.live(subject, name) is None, options
    assert kubectl.fails("delete", subject.label, name) == \
        f'Error from server (NotFound): {subject.plural} "{name}" not found'
    assert kubectl("delete", subject.label, name, "--ignore-not-found") == ""
    names = [f"{name}-{i}" for i in range(3)]
    for each in names:
        kubectl.make(subject, each)
    assert len(kubectl("delete", subject.label, "-l", f"app in ({','.join(names[:2])})").splitlines()) == 2
    kubectl("delete", "-f", "-", input=subject.manifest(names[2]))
    assert [kubectl.live(subject, each) for each in names] == [None] * 3


@row("delete (any cascade, force, now)")
def test_delete_waits_for_finalizers(kubectl, name):
    document = config_map(name)
    document["metadata"]["finalizers"] = ["example.org/hold"]
    kubectl.api("POST", CM, "", document)
    with kubectl.stream("delete", "cm", name) as stream:
        host.eventually(lambda: "deletionTimestamp" in kubectl.live(CM, name)["metadata"],
                        what="the deletion")
        assert stream.process.poll() is None
        kubectl("patch", "cm", name, "--type=json", "-p",
                '[{"op": "remove", "path": "/metadata/finalizers"}]')
        assert stream.end()[0] == 0
    assert kubectl.live(CM, name) is None


@row("delete (any cascade, force, now)")
def test_delete_of_a_namespace_and_what_is_in_it(kubectl, name):
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]
    items += [{**config_map(each), "metadata": {"name": each, "namespace": name}} for each in "ab"]
    bundle = {"apiVersion": "v1", "kind": "List", "items": items}
    kubectl("apply", "-n", name, "-f", "-", input=bundle)
    assert len(kubectl("delete", "-n", name, "-f", "-", input=bundle).splitlines()) == 3
    assert f'namespaces "{name}" not found' in kubectl.fails("get", "ns", name)


@row("delete (any cascade, force, now)")
def test_delete_and_what_belongs_to_it(kubectl, name):
    without_guests(kubectl, name + "-f", 2)
    kubectl("delete", "vmirs", name + "-f", "--cascade=foreground")
    assert instances(kubectl, name + "-f") == []
    without_guests(kubectl, name + "-o", 2)
    kubectl("delete", "vmirs", name + "-o", "--cascade=orphan")
    orphans = instances(kubectl, name + "-o")
    assert len(orphans) == 2
    assert kubectl("get", *orphans, "-o", "jsonpath={.items[*].metadata.ownerReferences}") == ""
    kubectl("delete", *orphans)
    assert instances(kubectl, name + "-o") == []


def not_met(kubectl, *what):
    """Without waiting; 1.20 says it in other words."""
    return re.fullmatch("error: (timed out waiting for the condition on|condition not met for) "
                        r"[a-z]+/[-a-z]+", kubectl.fails("wait", *what, "--timeout=0s"))


@row("wait --for=condition, delete")
def test_wait(kubectl, name):
    kubectl.make(VMIRS, name)
    met = f"{VMIRS.full}/{name} condition met"
    assert kubectl("wait", "vmirs", name, "--for=condition=ReplicaPaused", "--timeout=20s") == met
    assert kubectl("wait", f"vmirs/{name}", "--for=condition=replicapaused=True", "--timeout=20s") == met
    assert not_met(kubectl, "vmirs", name, "--for=condition=ReplicaPaused=False")
    kubectl.make(CM, name)
    for subject in (VMIRS, CM):
        with kubectl.stream("wait", subject.label, name, "--for=delete", "--timeout=20s") as stream:
            kubectl("delete", subject.label, name)
            code, _, errors = stream.end()
            # 1.20 wants to have seen it.
            assert code == 0 or "no matching resources found" in errors and kubectl.minor == 20, errors
    assert "not found" in kubectl.fails("wait", "vmirs", "nope", "--for=condition=Ready", "--timeout=5s")


@row("wait --for=jsonpath", VMIRS, CM)
def test_wait_for_a_value(kubectl, subject, name):
    kubectl.make(subject, name)
    # From 1.35 on lists are watches that begin with all there is; 1.32 and 1.33 do that if asked to.
    for value, way in ((5, "false"), (9, "true")):
        with kubectl.stream("wait", subject.label, name, f"--for=jsonpath={{{subject.field}}}={value}",
                            "--timeout=20s", KUBE_FEATURE_WatchListClient=way) as stream:
            for i in range(value - 3, value + 1):
                kubectl.change(subject, name, i)
            assert stream.end()[:2] == (0, [f"{subject.full}/{name} condition met"])
    assert not_met(kubectl, subject.label, name, f"--for=jsonpath={{{subject.field}}}=6")
    assert "condition met" in kubectl("wait", "ns/default", "--for=jsonpath={.status.phase}=Active")


@row("wait --for=create", VMIRS, CM)
def test_wait_for_creation(kubectl, subject, name):
    with kubectl.stream("wait", f"{subject.label}/{name}", "--for=create", "--timeout=20s") as stream:
        kubectl.make(subject, name)
        assert stream.end()[:2] == (0, [f"{subject.full}/{name} condition met"])


@row("get events")
def test_get_events(kubectl, name):
    without_guests(kubectl, name, 2)
    of_it = ("--field-selector", f"involvedObject.name={name},involvedObject.kind="
             "VirtualMachineInstanceReplicaSet,reason=SuccessfulCreate,type=Normal")
    with kubectl.stream("get", "events", *of_it, "-w") as stream:
        header, *rows = stream.until(lambda lines: len(lines) >= 2)
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert re.split(r"\s{2,}", rows[0])[1:4] == [
        "Normal", "SuccessfulCreate", f"virtualmachineinstancereplicaset/{name}"]
    assert "<unknown>" not in kubectl("get", "events", *of_it, "--sort-by=.lastTimestamp")
    said = kubectl("describe", "vmirs", name)
    assert re.search(r"^Events:\n  Type +Reason +Age +From +Message\n", said, re.M)
    assert re.search(r"^  Normal +SuccessfulCreate ", said, re.M)
    assert "SuccessfulCreate" not in kubectl("describe", "vmirs", name, "--show-events=false")


@row("events, events --for, events -w")
def test_events(kubectl, name):
    without_guests(kubectl, name, 1)
    with kubectl.stream("events", "--for", f"vmirs/{name}", "-w") as stream:
        header, first, *_ = stream.until(lambda lines: len(lines) >= 2)
        assert header.split()[:4] == ["LAST", "SEEN", "TYPE", "REASON"]
        assert f"VirtualMachineInstanceReplicaSet/{name}" in first
        kubectl("scale", "vmirs", name, "--replicas=2")
        assert stream.until(lambda lines: len(lines) >= 3)[-1].split()[1:3] == [
            "Normal", "SuccessfulCreate"]
    listed = kubectl("events", "--for", f"vmirs/{name}", "--no-headers").splitlines()
    assert listed and all(f"/{name}" in line for line in listed)
    assert name in kubectl("events", "--types=Normal")
    assert name in kubectl("events", "-A", "-o", "yaml")
    assert kubectl("events", "--for", "cm/nothing") == ""


@pytest.mark.parametrize("kubectl", NEWEST, indirect=True)
def test_real_guests(kubectl, daemon, name):
    """What the seeds' commands mean when guests run."""
    kubectl("apply", "-f", "-", input=host.demo_set(name, 1))
    host.eventually(lambda: instances(kubectl, name), what="an instance")
    kubectl("wait", "vmi", "-l", f"app={name}", "--for=condition=Ready", "--timeout=120s", timeout=150)
    assert kubectl("scale", "vmirs", name, "--replicas=2", "--timeout=60s").endswith("scaled")
    kubectl("wait", "vmi", "-l", f"app={name}", "--for=condition=Ready", "--timeout=120s", timeout=150)
    rows = kubectl.rows("get", "vmi", "-l", f"app={name}")
    assert [(r[2], r[-1]) for r in rows] == [("Running", "True")] * 2
    for document in kubectl.json("get", "vmi", "-l", f"app={name}")["items"]:
        assert host.http_get(address_of(document)) == document["metadata"]["name"]
        assert "Ip Address" in kubectl("describe", "vmi", document["metadata"]["name"])
    prefix = f"{kubectl.namespace}_"
    assert len(host.qemu_processes(prefix)) == 2
    kubectl("delete", "vmirs", name, "--cascade=foreground", "--wait")
    assert instances(kubectl, name) == [] and host.qemu_processes(prefix) == {}
