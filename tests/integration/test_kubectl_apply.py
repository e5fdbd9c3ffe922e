"""kubectl apply and diff, client-side and server-side."""

import json
import re

import yaml

from client import MERGE_PATCH
from compatibility import row
from kubectls import CM, VMIRS, config_map, paused_set


@row("apply", VMIRS, CM)
def test_apply(kubectl, subject, name):
    def apply(document):
        return kubectl("apply", "-f", "-", input=document).removeprefix(f"{subject.full}/{name} ")

    document = subject.manifest(name)
    document["metadata"]["annotations"] = {"note": "temporary"}
    assert apply(document) == "created"
    first = kubectl.settled(subject, name)["metadata"]["resourceVersion"]
    assert apply(document) == "unchanged"
    assert kubectl.live(subject, name)["metadata"]["resourceVersion"] == first
    changed = subject.manifest(name, 2)
    assert apply(changed) == "configured"
    now = kubectl.live(subject, name)
    assert subject.value_of(now) == "2" and "note" not in now["metadata"]["annotations"]
    assert apply(changed) == "unchanged"
    last = yaml.safe_load(kubectl("apply", "view-last-applied", subject.label, name))
    assert last["metadata"]["labels"] == {"app": name}
    raw = now["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert raw.endswith("}\n")
    # What others set stays, what the file says is set again.
    kubectl.api("PATCH", subject, name, {**subject.patch(3), "metadata": {"labels": {"other": "stays"}}},
                MERGE_PATCH)
    assert apply(changed) == "configured"
    assert kubectl.value(subject, name) == "2"
    assert kubectl.live(subject, name)["metadata"]["labels"]["other"] == "stays"


@row("apply --prune --prune-allowlist")
def test_prune(kubectl, name):
    def apply(*names):
        items = [{**config_map(each), "metadata": {"name": each, "labels": {"of": name}}}
                 for each in names]
        flag = "--prune-allowlist" if kubectl.minor >= 26 else "--prune-whitelist"
        return kubectl("apply", "-f", "-", "--prune", "-l", f"of={name}", f"{flag}=core/v1/ConfigMap",
                       input={"apiVersion": "v1", "kind": "List", "items": items}).splitlines()

    one, two = name + "-1", name + "-2"
    assert apply(one, two) == [f"configmap/{one} created", f"configmap/{two} created"]
    assert apply(one) == [f"configmap/{one} unchanged", f"configmap/{two} pruned"]
    assert kubectl("get", "cm", "-l", f"of={name}", "-o", "name") == f"configmap/{one}"


@row("apply")
def test_apply_of_a_kind_that_is_not_there(kubectl, name):
    said = kubectl.fails("apply", "-f", "-", input={"apiVersion": "apps/v1", "kind": "Deployment",
                                                    "metadata": {"name": name}})
    assert 'no matches for kind "Deployment" in version "apps/v1"' in said


@row("apply of a List")
def test_apply_list(kubectl, name):
    documents = {"apiVersion": "v1", "kind": "List", "items": [paused_set(name), config_map(name)]}
    names = [f"{VMIRS.full}/{name}", f"configmap/{name}"]
    for outcome in ("created", "unchanged"):
        assert kubectl("apply", "-f", "-", input=documents).splitlines() == [
            f"{each} {outcome}" for each in names]
    documents["items"][1]["data"]["value"] = "2"
    assert kubectl("apply", "-f", "-", input=documents).splitlines() == [
        f"{names[0]} unchanged", f"{names[1]} configured"]
    # With what was applied last as it is in the dump, which is more than it was.
    dump = kubectl("get", "vmirs,cm", "-l", f"app={name}", "-o", "yaml")
    assert set(kubectl("apply", "-f", "-", input=dump).splitlines()) == {
        f"{each} configured" for each in names}


@row("apply --server-side", VMIRS, CM)
def test_server_side_apply(kubectl, subject, name):
    def apply(manager, document, *options, run=kubectl):
        return run("apply", "--server-side", f"--field-manager={manager}", *options, "-f", "-",
                   input=document)

    def refused(manager, document):
        return apply(manager, document, run=kubectl.fails)

    said = f"{subject.full}/{name} serverside-applied"
    assert apply("one", subject.manifest(name)) == said
    first = kubectl.settled(subject, name)["metadata"]["resourceVersion"]
    assert apply("one", subject.manifest(name)) == said
    assert kubectl.live(subject, name)["metadata"]["resourceVersion"] == first, "nothing was changed"
    # Two may want the same.
    assert apply("two", subject.manifest(name)) == said
    complaint = refused("two", subject.manifest(name, 2))
    assert complaint.startswith('error: Apply failed with 1 conflict: conflict with "one": '
                                + subject.field), complaint
    assert "--force-conflicts" in complaint
    assert kubectl.value(subject, name) == "1"
    assert apply("two", subject.manifest(name, 2), "--force-conflicts") == said
    assert kubectl.value(subject, name) == "2"
    assert f'conflict with "two": {subject.field}' in refused("one", subject.manifest(name))
    # Who wishes for less owns less; what nobody owns any more is gone.
    alone = subject.manifest(name, 2)
    alone["metadata"]["labels"]["mine"] = "x"
    assert apply("two", alone) == said
    del alone["metadata"]["labels"]["mine"]
    assert apply("two", alone) == said
    assert "mine" not in kubectl.live(subject, name)["metadata"]["labels"]
    managers = kubectl.live(subject, name)["metadata"]["managedFields"]
    assert {(m["manager"], m["operation"]) for m in managers} >= {("one", "Apply"), ("two", "Apply")}
    kubectl("patch", subject.label, name, "--type=merge", "-p", json.dumps(subject.patch(3)))
    api = subject.manifest("x")["apiVersion"]
    assert f'conflict with "kubectl-patch" using {api}: {subject.field}' in refused("two", alone)


@row("apply --server-side after apply", VMIRS, CM)
def test_moves_to_server_side_apply(kubectl, subject, name):
    document = subject.manifest(name)
    document["metadata"]["labels"]["dropped"] = "later"
    kubectl("apply", "-f", "-", input=document)
    changed = subject.manifest(name, 2)
    for _ in range(2):
        done = kubectl.run("apply", "--server-side", "-f", "-", input=changed)
        assert done.stdout == f"{subject.full}/{name} serverside-applied\n", done.stderr
        assert done.stderr == ""
        now = kubectl.live(subject, name)
        assert subject.value_of(now) == "2" and now["metadata"]["labels"] == {"app": name}
    managers = {(m["manager"], m["operation"]) for m in now["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in managers
    assert ("kubectl-client-side-apply", "Update") not in managers


@row("diff", VMIRS, CM)
def test_diff(kubectl, subject, name):
    field, quote = subject.field.rpartition(".")[2], '"' if subject is CM else ""
    for way in ((), ("--server-side",)):
        each = name + "".join(way)
        said = kubectl.run("diff", *way, "-f", "-", input=subject.manifest(each))
        assert said.returncode == 1 and f"+  name: {each}" in said.stdout, said.stderr
        kubectl("apply", *way, "-f", "-", input=subject.manifest(each))
        assert kubectl("diff", *way, "-f", "-", input=subject.manifest(each)) == ""
        said = kubectl.run("diff", *way, "-f", "-", input=subject.manifest(each, 2))
        assert said.returncode == 1, said.stderr
        # Not what belongs to metadata, such as the generation; 1.20 shows managedFields too.
        lines = [line for line in said.stdout.splitlines() if re.match(r"[+-]  (replicas|value):", line)]
        assert lines == [f"-  {field}: {quote}1{quote}", f"+  {field}: {quote}2{quote}"]
        assert subject is CM or "+  generation: 2" in said.stdout
        assert kubectl.value(subject, each) == "1"
