"""kubectl writes: create, replace, edit, patch, label, scale, taint, and what is refused."""

import json
import re

import host
from compatibility import row
from kubectls import CM, VMIRS, config_map, editor, paused_set

DAEMON_OPTIONS = ["--node-name", "house"]


@row("create -f", VMIRS, CM)
def test_create(kubectl, subject, name):
    document = subject.manifest(name)
    assert kubectl("create", "-f", "-", input=document) == f"{subject.full}/{name} created"
    assert kubectl.fails("create", "-f", "-", input=document) == (
        f'Error from server (AlreadyExists): error when creating "STDIN": {subject.plural} "{name}" '
        "already exists")
    document["metadata"]["namespace"] = "nowhere"
    assert kubectl.fails("create", "-n", "nowhere", "-f", "-", input=document) == (
        'Error from server (NotFound): error when creating "STDIN": namespaces "nowhere" not found')
    generated = subject.manifest("x")
    del generated["metadata"]["name"]
    generated["metadata"]["generateName"] = name + "-"
    names = {kubectl("create", "-f", "-", "-o", "name", input=generated) for _ in range(2)}
    assert len(names) == 2
    for each in names:
        assert re.fullmatch(f"{subject.full}/{name}-[bcdfghjklmnpqrstvwxz2456789]{{5}}", each)
    # A dump is taken back; its status is no part of what is wished.
    dump = kubectl.live(subject, name)
    dump["metadata"] = {"name": name + "-again", "creationTimestamp": None}
    if subject is VMIRS:
        dump["status"] = {"replicas": 77}
    kubectl("create", "-f", "-", input=dump)
    assert kubectl.live(subject, name + "-again").get("status", {}).get("replicas") != 77


@row("create -f")
def test_what_is_wrong_is_said(kubectl, name):
    document = paused_set(name, -1)
    said = kubectl.fails("create", "-f", "-", input=document)
    assert said.startswith(f'The VirtualMachineInstanceReplicaSet "{name}" is invalid: ')
    assert "spec.replicas: Invalid value: " in said
    document = config_map(name)
    document["data"] = {"not a key": "x", "nor/this": "y"}
    said = kubectl.fails("create", "-f", "-", input=document)
    assert said.startswith(f'The ConfigMap "{name}" is invalid: \n* data[')
    for key in document["data"]:
        assert f'* data[{key}]: Invalid value: "{key}": a valid ' in said
    document = config_map("Upper_Case")
    assert 'metadata.name: Invalid value: "Upper_Case": a lowercase RFC 1123 subdomain must' in \
        kubectl.fails("create", "-f", "-", input=document)


@row("--validate=strict, warn, ignore", VMIRS, CM)
def test_unknown_fields(kubectl, subject, name):
    document = subject.manifest(name)
    document["colour"] = "red"
    if subject is VMIRS:
        document["spec"]["template"]["spec"]["colour"] = "red"
    for strict in ((), ("--validate=strict",), ("--validate=true",)):
        said = kubectl.fails("create", "-f", "-", *strict, input=document)
        assert "strict decoding error: unknown field " in said and '"colour"' in said
        assert subject is CM or '"spec.template.spec.colour"' in said
    done = kubectl.run("create", "-f", "-", "--validate=warn", input=document)
    assert done.stdout == f"{subject.full}/{name} created\n", done.stderr
    assert 'Warning: unknown field "colour"' in done.stderr
    done = kubectl.run("apply", "-f", "-", "--validate=ignore", input={
        **document, "metadata": {"name": name + "-ignored"}})
    assert (done.stdout, done.stderr) == (f"{subject.full}/{name}-ignored created\n", "")


@row("--validate=strict, warn, ignore")
def test_key_twice(kubectl, name):
    path = f"/api/v1/namespaces/{kubectl.namespace}/configmaps?fieldValidation="
    twice = '{"metadata": {"name": "%s"}, "data": {"a": "1", "a": "2"}}' % name
    assert 'strict decoding error: duplicate field "data.a"' in kubectl.fails(
        "create", "--raw", path + "Strict", "-f", "-", input=twice)
    done = kubectl.run("create", "--raw", path + "Warn", "-f", "-", input=twice)
    assert done.returncode == 0 and 'Warning: duplicate field "data.a"' in done.stderr
    assert kubectl.live(CM, name)["data"] == {"a": "2"}


@row("--dry-run=server", VMIRS, CM)
def test_dry_run(kubectl, subject, name):
    dry = "--dry-run=server"
    document = subject.manifest(name)
    said = f"{subject.full}/{name} "
    for verb in ("create", "apply"):
        assert kubectl(verb, dry, "-f", "-", input=document) == said + "created (server dry run)"
        assert kubectl.live(subject, name) is None
    kubectl("apply", "-f", "-", input=document)
    before = kubectl.settled(subject, name)
    assert "(AlreadyExists)" in kubectl.fails("create", dry, "-f", "-", input=document)
    changed = subject.manifest(name, 2)
    assert kubectl("apply", dry, "-f", "-", input=changed) == said + "configured (server dry run)"
    assert kubectl("apply", dry, "--server-side", "--force-conflicts", "-f", "-",
                   input=changed) == said + "serverside-applied (server dry run)"
    assert kubectl("patch", subject.label, name, dry, "--type=merge", "-p",
                   json.dumps(subject.patch(2))) == said + "patched"
    assert kubectl("label", subject.label, name, dry, "a=b").startswith(said + "labeled")
    assert kubectl("delete", subject.label, name, dry).endswith("deleted (server dry run)")
    assert kubectl.live(subject, name) == before


@row("create configmap, secret, namespace")
def test_generators(kubectl, name):
    binary = host.DIR / "binary"
    binary.write_bytes(b"\xff\0\xfe")
    assert kubectl("create", "configmap", name, "--from-literal=a=b", "--from-literal=empty=",
                   f"--from-file=raw={binary}") == f"configmap/{name} created"
    made = kubectl.live(CM, name)
    assert made["data"] == {"a": "b", "empty": ""} and made["binaryData"] == {"raw": "/wD+"}
    assert kubectl.fails("create", "configmap", name).endswith(f'configmaps "{name}" already exists')
    assert kubectl("create", "secret", "generic", name, "--from-literal=user=Zoë") == \
        f"secret/{name} created"
    secret = kubectl.json("get", "secret", name)
    assert (secret["type"], secret["data"]) == ("Opaque", {"user": "Wm/Dqw=="})
    kubectl("create", "secret", "docker-registry", name + "-pull", "--docker-username=u",
            "--docker-password=p", "--docker-server=localhost:5000")
    secret = kubectl.json("get", "secret", name + "-pull")
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    space = f"{kubectl.namespace}-{name}"
    assert kubectl("create", "namespace", space) == f"namespace/{space} created"
    assert kubectl.fails("create", "ns", space).endswith(f'namespaces "{space}" already exists')
    assert "(server dry run)" in kubectl("create", "ns", space + "-2", "--dry-run=server")
    assert kubectl("delete", "ns", space) == f'namespace "{space}" deleted'
    assert "(NotFound)" in kubectl.fails("get", "ns", space)


@row("replace, replace --force", VMIRS, CM)
def test_replace(kubectl, subject, name):
    kubectl.make(subject, name)
    old = kubectl.live(subject, name)
    said = f"{subject.full}/{name} replaced"
    assert kubectl("replace", "-f", "-", input=subject.manifest(name, 2)) == said
    assert kubectl.value(subject, name) == "2"
    assert kubectl.fails("replace", "-f", "-", input=old) == (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on '
        f'{subject.plural} "{name}": the object has been modified; please apply your changes to the '
        "latest version and try again")
    now = kubectl.live(subject, name)
    now["metadata"]["labels"]["new"] = "label"
    if subject is VMIRS:
        now["status"] = {"replicas": 77}
    assert kubectl("replace", "-f", "-", input=now) == said
    now = kubectl.live(subject, name)
    assert now["metadata"]["labels"]["new"] == "label" and now.get("status", {}).get("replicas") != 77
    file = host.DIR / f"{name}.json"
    file.write_text(json.dumps(subject.manifest(name, 3)))
    before = kubectl.live(subject, name)["metadata"]["uid"]
    assert kubectl("replace", "--force", "-f", file).splitlines()[-1] == said
    now = kubectl.live(subject, name)
    assert now["metadata"]["uid"] != before and subject.value_of(now) == "3"
    assert "(NotFound)" in kubectl.fails("replace", "-f", "-", input=subject.manifest(name + "-none"))


@row("edit", VMIRS, CM)
def test_edit(kubectl, subject, name):
    def edit(script, *options):
        return kubectl.run("edit", subject.label, name, *options, EDITOR=editor(script))

    kubectl.make(subject, name)
    value = subject.field.rpartition(".")[2]
    done = edit("true")
    assert (done.returncode, done.stdout + done.stderr) == (0, "Edit cancelled, no changes made.\n")
    done = edit(f"sed -i 's/  {value}: .*/  {value}: \"2\"/' $1" if subject is CM
                else f"sed -i 's/^  {value}: .*/  {value}: 2/' $1")
    assert (done.returncode, done.stdout) == (0, f"{subject.full}/{name} edited\n"), done.stderr
    assert kubectl.value(subject, name) == "2"
    # At first a mistake; the editor comes again, with the cause as a comment, and it is mended.
    seen = host.DIR / f"seen-{name}-{kubectl.version}"
    wrong, right = (("  not a key: x", "data[not a key]: Invalid value") if subject is CM else
                    (f"  {value}: -1", "spec.replicas: Invalid value"))
    done = edit(f"if grep -q 'Invalid value' $1; then [ ! -e {seen} ]; cp $1 {seen}; "
                f"sed -i -e 's/^{wrong}/  {value}: {'x' if subject is CM else 4}/' $1; "
                f"else sed -i 's/^  {value}: .*/{wrong}/' $1; fi")
    assert (done.returncode, done.stdout) == (0, f"{subject.full}/{name} edited\n"), done.stderr
    assert right in seen.read_text() and seen.read_text().startswith("# Please edit the object below")
    assert kubectl.value(subject, name) == ("x" if subject is CM else "4")


@row("patch (strategic, merge, json)", VMIRS, CM)
def test_patch(kubectl, subject, name):
    def arguments(kind, body):
        return ("patch", subject.label, name, f"--type={kind}", "-p", json.dumps(body))

    def patch(kind, body):
        return kubectl(*arguments(kind, body)).removeprefix(f"{subject.full}/{name} ")

    def refused(kind, body):
        return kubectl.fails(*arguments(kind, body))

    kubectl.make(subject, name)
    path = subject.field.replace(".", "/")
    assert patch("merge", subject.patch(2)) == "patched"
    assert patch("merge", subject.patch(2)) == "patched (no change)"
    replace = {"op": "replace", "path": path, "value": subject.value(3)}
    assert patch("json", [{"op": "test", "path": path, "value": subject.value(2)}, replace]) == "patched"
    assert kubectl.value(subject, name) == "3"
    replace["value"] = subject.value(4)
    assert "request is invalid" in refused("json", [replace, {"op": "test", "path": path, "value": None}])
    assert "request is invalid" in refused("json", [replace, {"op": "remove", "path": "/metadata/no"}])
    assert kubectl.value(subject, name) == "3", "all of it or nothing"
    stale = {**subject.patch(7), "metadata": {"resourceVersion": "1"}}
    said = refused("merge", stale)
    assert "(Conflict)" in said and "the object has been modified" in said
    if subject is CM:
        for body in (subject.patch(4), {"data": {"other": "x"}}, {"data": {"other": None}},
                     {"data": {"$patch": "replace", "value": "5"}}):
            assert patch("strategic", body) == "patched"
        assert kubectl.live(CM, name)["data"] == {"value": "5"}
    else:
        # As with any custom resource; 1.20 leaves it at the server's words.
        assert re.search(r"application/strategic-merge-patch\+json is not supported by kubevirt.io/v1"
                         r"|\(UnsupportedMediaType\)", refused("strategic", subject.patch(4)))


@row("patch --subresource=status")
def test_patch_status(kubectl, name):
    kubectl.make(VMIRS, name)
    kubectl.make(CM, name)
    body = '{"status": {"labelSelector": "x=y"}, "spec": {"replicas": 9}}'
    assert kubectl("patch", "vmirs", name, "--subresource=status", "--type=merge", "-p", body) == \
        f"{VMIRS.full}/{name} patched"
    assert kubectl.value(VMIRS, name) == "1", "of a status only the status is taken"
    status = kubectl.json("get", "vmirs", name, "--subresource=status")
    assert status["kind"] == "VirtualMachineInstanceReplicaSet"
    assert "(NotFound)" in kubectl.fails("patch", "cm", name, "--subresource=status",
                                         "--type=merge", "-p", body)


@row("label, annotate", VMIRS, CM)
def test_label(kubectl, subject, name):
    kubectl.make(subject, name)
    said = f"{subject.full}/{name} "
    assert kubectl("label", subject.label, name, "colour=red", "example.org/size=9") == said + "labeled"
    assert "'colour' already has a value (red)" in kubectl.fails("label", subject.label, name, "colour=blue")
    assert kubectl("label", subject.label, name, "colour=blue", "--overwrite") == said + "labeled"
    assert kubectl("get", subject.label, "-l", f"colour=blue,app={name}", "-o", "name") == said.strip()
    assert "labeled" in kubectl("label", subject.label, name, "colour-")
    assert kubectl.live(subject, name)["metadata"]["labels"] == {
        "app": name, "example.org/size": "9"}
    assert kubectl("annotate", subject.label, name, "note=a\nb").startswith(said + "annotate")
    assert kubectl.live(subject, name)["metadata"]["annotations"]["note"] == "a\nb"
    kubectl("annotate", subject.label, name, "note-")
    assert "note" not in kubectl.live(subject, name)["metadata"].get("annotations", {})
    kubectl("label", subject.label, "-l", f"app={name}", "by=selector")
    now = kubectl.live(subject, name)["metadata"]["resourceVersion"]
    kubectl("annotate", subject.label, name, "a=b", f"--resource-version={now}")
    assert "(Conflict)" in kubectl.fails("label", subject.label, name, "a=b", f"--resource-version={now}")
    assert "metadata.labels: Invalid value" in kubectl.fails(
        "patch", subject.label, name, "--type=merge", "-p", '{"metadata": {"labels": {"a b": "c"}}}')


@row("scale")
def test_scale(kubectl, name):
    kubectl.make(VMIRS, name)
    said = f"{VMIRS.full}/{name} scaled"
    assert kubectl("scale", "vmirs", name, "--replicas=3") == said
    assert kubectl.fails("scale", "vmirs", name, "--replicas=4", "--current-replicas=2") == \
        "error: Expected replicas to be 2, was 3"
    assert kubectl("scale", "vmirs", name, "--replicas=4", "--current-replicas=3") == said
    assert "Expected resource version to be 1, was" in kubectl.fails(
        "scale", "vmirs", name, "--replicas=5", "--resource-version=1")
    now = kubectl.live(VMIRS, name)["metadata"]["resourceVersion"]
    assert kubectl("scale", "vmirs", name, "--replicas=5", f"--resource-version={now}") == said
    if kubectl.minor > 20:  # which has only --dry-run=client here
        assert kubectl("scale", "vmirs", name, "--replicas=9", "--dry-run=server").startswith(said)
    assert kubectl.value(VMIRS, name) == "5"
    assert kubectl("scale", "vmirs", name, "--replicas=0", "--timeout=20s") == said
    kubectl.make(CM, name)
    assert "could not find the requested resource" in kubectl.fails(
        "scale", "cm", name, "--replicas=1")


@row("cordon, uncordon, drain, taint")
def test_node(kubectl):
    def spec():
        return kubectl.json("get", "node", "house")["spec"]

    assert kubectl("cordon", "house") == "node/house cordoned"
    assert kubectl("cordon", "house") == "node/house already cordoned"
    assert spec()["unschedulable"] is True
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "house")
    assert "node/house drained" in kubectl("drain", "house") or kubectl.minor == 20
    assert kubectl("uncordon", "house") == "node/house uncordoned"
    assert "unschedulable" not in spec()
    assert kubectl("taint", "node", "house", "a=b:NoSchedule", "c=d:NoExecute") == "node/house tainted"
    assert [(t["key"], t["value"], t["effect"]) for t in spec()["taints"]
            if t["key"] in "ac"] == [("a", "b", "NoSchedule"), ("c", "d", "NoExecute")]
    assert kubectl("taint", "node", "house", "a:NoSchedule-", "c-") == "node/house untainted"
    assert "taints" not in spec()
    kubectl("label", "node", "house", "rack=one")
    assert kubectl("get", "nodes", "-l", "rack=one", "-o", "name") == "node/house"
    kubectl("label", "node", "house", "rack-")
    assert kubectl.fails("cordon", "nowhere").endswith('nodes "nowhere" not found')
