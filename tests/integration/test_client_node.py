"""@kubernetes/client-node: its informer stays right whatever happens to the daemon; its patches and errors.

client_node/client.mjs does what it is told here; install_clients (systemd/host.sh) installs the library."""

import json
import shutil
import signal
import subprocess
import time

import pytest

import host
from kubectls import CLIENTS, CM, VMIRS, Stream, config_map, paused_set

LIBRARY = CLIENTS / "client-node"


class Node:
    """The library in a process of its own."""

    def __init__(self, daemon):
        assert (LIBRARY / "node_modules").is_dir(), "see install_clients of systemd/host.sh"
        # Node looks for a library beside the program that uses it.
        folder = host.DIR / "client-node"
        if not folder.exists():
            folder.mkdir()
            shutil.copy(host.ROOT / "tests" / "integration" / "client_node" / "client.mjs", folder)
            (folder / "node_modules").symlink_to(LIBRARY / "node_modules")
        self.stream = Stream(["node", folder / "client.mjs", daemon.directory / "kubeconfig"],
                             stdin=subprocess.PIPE)
        self.objects = {}
        self.errors = []
        self.lists = 0

    def tell(self, **command):
        self.stream.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.stream.process.stdin.flush()

    def said(self, deadline):
        """The next line; what informers say goes into their objects."""
        self.stream.until(lambda lines: lines, max(0.001, deadline - time.monotonic()))
        line = json.loads(self.stream.lines.pop(0))
        if "informer" in line:
            of = self.objects.setdefault(line["informer"], {})
            if "object" in line:
                self.follow(of, line["event"], line["object"])
            elif line["event"] == "error":
                self.errors.append(line["error"])
            elif line["event"] == "list":
                self.lists += 1
        return line

    @staticmethod
    def follow(objects, event, seen):
        name = seen["name"]
        if event == "delete":
            del objects[name]
        else:
            assert (event == "update") == (name in objects), f"{event} of {name}: {objects.get(name)}"
            objects[name] = seen["value"]

    def until(self, condition, timeout=60):
        """The first line that meets it."""
        deadline = time.monotonic() + timeout
        while not condition(line := self.said(deadline)):
            pass
        return line

    def ask(self, **command):
        self.tell(**command)
        return self.until(lambda line: not line.keys() & {"informer", "watch"})

    def call(self, api, method, content_type=None, **parameters):
        return self.ask(do="call", api=api, method=method, contentType=content_type,
                        parameters=parameters)


@pytest.fixture
def node(daemon):
    node = Node(daemon)
    with node.stream:
        yield node
        assert node.stream.process.poll() is None, node.stream.process.stderr.read()


@pytest.fixture
def space(request, namespaces):
    """A namespace for the test alone."""
    name = request.node.name.removeprefix("test_").translate(str.maketrans("_[", "--", "]"))
    namespaces(name)
    return name


class Cluster:
    """Changes objects, and knows what there should be."""

    def __init__(self, daemon, subject, space):
        self.api, self.subject, self.space = daemon.api, subject, space
        self.path = subject.path.format(space)
        self.objects = {}

    def create(self, name, value=1):
        self.api.call("POST", self.path, self.subject.manifest(name, value))
        self.objects[name] = str(value)

    def change(self, name, value, **more):
        patch = self.subject.patch(value)
        if more:
            patch["data"].update(more)
        self.api.call("PATCH", f"{self.path}/{name}", patch, "application/merge-patch+json")
        self.objects[name] = str(value)

    def delete(self, name):
        self.api.call("DELETE", f"{self.path}/{name}")
        del self.objects[name]


@pytest.mark.parametrize("subject", [CM, VMIRS], ids=str)
def test_informer_stays_right(daemon, node, subject, space):
    cluster, kind = Cluster(daemon, subject, space), subject.manifest("x")
    informer = subject.label

    def agree():
        """What the informer told and what it holds are what the daemon has."""
        if node.objects.get(informer) != cluster.objects:
            node.until(lambda _: node.objects.get(informer) == cluster.objects)
        state = node.ask(do="state", name=informer)["state"]
        assert {each["name"]: each["value"] for each in state} == cluster.objects
        listed = daemon.api.call("GET", cluster.path)["items"]
        assert {each["name"]: each["revision"] for each in state} == {
            o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in listed}

    for i in range(20):
        cluster.create(f"n{i}")
    node.tell(do="inform", name=informer, path=cluster.path, apiVersion=kind["apiVersion"],
              kind=kind["kind"], namespace=space)
    agree()
    for i in range(1000):
        cluster.change(f"n{i % 20}", i + 2)
    agree()
    assert (node.errors, node.lists) == ([], 1)

    # Killed, and stopped, with changes before the client is back, and after.
    for end in (daemon.kill, daemon.stop):
        end()
        daemon.start()
        cluster.create("z-" + end.__name__)
        cluster.delete(min(cluster.objects))
        agree()
        cluster.change("z-" + end.__name__, 2)
        agree()

    # After a start only what comes then is known: the revision that the informer has is too old by
    # what other objects did meanwhile.
    for i in range(3):
        daemon.api.call("PATCH", "/api/v1/namespaces/default",
                        {"metadata": {"annotations": {"change": f"{subject} {i}"}}},
                        "application/merge-patch+json")
    lists = node.lists
    daemon.stop()
    daemon.start()
    cluster.delete(min(cluster.objects))
    agree()
    assert node.lists > lists
    cluster.change(max(cluster.objects), 9)
    agree()


def test_informer_that_was_too_slow(daemon, node, space):
    """It stops reading for so long that the daemon forgets what it has not read: 410, a new list."""
    cluster = Cluster(daemon, CM, space)
    for name in ("large", "goes", "stays"):
        cluster.create(name)
    node.tell(do="inform", name="cm", path=cluster.path, apiVersion="v1", kind="ConfigMap",
              namespace=space)
    node.until(lambda _: node.objects.get("cm") == cluster.objects)
    node.stream.process.send_signal(signal.SIGSTOP)
    # More than the sockets and the history (16 MiB) hold.
    for i in range(45):
        cluster.change("large", i, text="x" * 900_000)
    cluster.delete("goes")
    cluster.create("comes")
    cluster.change("stays", 2)
    node.stream.process.send_signal(signal.SIGCONT)
    node.until(lambda _: node.objects["cm"] == cluster.objects)
    assert node.lists == 2
    cluster.change("stays", 3)
    node.until(lambda _: node.objects["cm"] == cluster.objects)


def test_watch(daemon, node, space):
    cluster = Cluster(daemon, CM, space)
    cluster.create("watched")
    revision = daemon.api.call("GET", cluster.path)["metadata"]["resourceVersion"]
    node.tell(do="watch", path=cluster.path, query={"resourceVersion": revision})
    for value in range(2, 12):
        cluster.change("watched", value)
    for value in range(2, 12):
        line = node.until(lambda line: "watch" in line)
        assert (line["watch"], line["object"]["value"]) == ("MODIFIED", str(value))
    cluster.delete("watched")
    assert node.until(lambda line: "watch" in line)["watch"] == "DELETED"
    node.tell(do="stop", name="watch")
    node.until(lambda line: line.get("watch") == "END")
    # One that began before anything was known.
    node.tell(do="watch", path=cluster.path, query={"resourceVersion": "1"})
    line = node.until(lambda line: "watch" in line)
    if line["watch"] == "ERROR":
        assert line["object"]["code"] == 410 and line["object"]["reason"] == "Expired"
    else:
        assert line["watch"] == "END" and line["error"] == "Gone"


def test_patches(node, space):
    at = {"namespace": space, "name": "patched"}
    node.call("CoreV1Api", "createNamespacedConfigMap", namespace=space, body=config_map("patched"))
    for content_type, body, value in (
            ("application/json-patch+json", [{"op": "replace", "path": "/data/value", "value": "2"}], "2"),
            ("application/merge-patch+json", {"data": {"value": "3"}}, "3"),
            ("application/strategic-merge-patch+json", {"data": {"value": "4"}}, "4")):
        answer = node.call("CoreV1Api", "patchNamespacedConfigMap", content_type, **at, body=body)
        assert answer["result"]["data"]["value"] == value, answer
    answer = node.call("CoreV1Api", "patchNamespacedConfigMap", "application/apply-patch+yaml", **at,
                       body=config_map("patched", 5), fieldManager="node", force=True)
    assert answer["result"]["data"]["value"] == "5", answer
    # Its default is a JSON patch.
    answer = node.call("CoreV1Api", "patchNamespacedConfigMap", **at,
                       body=[{"op": "add", "path": "/data/more", "value": "x"}])
    assert answer["result"]["data"] == {"value": "5", "more": "x"}
    custom = {"group": "kubevirt.io", "version": "v1", "namespace": space,
              "plural": "virtualmachineinstancereplicasets"}
    node.call("CustomObjectsApi", "createNamespacedCustomObject", **custom, body=paused_set("patched"))
    for content_type, body in (
            ("application/json-patch+json", [{"op": "replace", "path": "/spec/replicas", "value": 2}]),
            ("application/merge-patch+json", {"spec": {"replicas": 2}})):
        answer = node.call("CustomObjectsApi", "patchNamespacedCustomObject", content_type, **custom,
                           name="patched", body=body)
        assert answer["result"]["spec"]["replicas"] == 2, answer
    answer = node.call("CustomObjectsApi", "patchNamespacedCustomObject",
                       "application/strategic-merge-patch+json", **custom, name="patched", body={})
    assert answer["error"]["code"] == 415


def test_exceptions_carry_a_status(node, space):
    node.call("CoreV1Api", "createNamespacedConfigMap", namespace=space, body=config_map("there"))

    def status(method, **parameters):
        error = node.call("CoreV1Api", method, namespace=space, **parameters)["error"]
        body = json.loads(error["body"]) if isinstance(error["body"], str) else error["body"]
        assert body["kind"] == "Status" and body["code"] == error["code"], error
        return body

    missing = status("readNamespacedConfigMap", name="nope")
    assert (missing["code"], missing["reason"]) == (404, "NotFound")
    assert missing["details"]["name"] == "nope" and missing["details"]["kind"] == "configmaps"
    twice = status("createNamespacedConfigMap", body=config_map("there"))
    assert (twice["code"], twice["reason"]) == (409, "AlreadyExists")
    wrong = status("createNamespacedConfigMap", body={**config_map("x"), "data": {"a b": "c"}})
    assert (wrong["code"], wrong["reason"]) == (422, "Invalid")
    assert wrong["details"]["causes"][0]["field"] == "data[a b]"
    stale = status("replaceNamespacedConfigMap", name="there", body={
        **config_map("there"), "metadata": {"name": "there", "resourceVersion": "1"}})
    assert (stale["code"], stale["reason"]) == (409, "Conflict")
