"""kubectl asks: discovery, lists and tables, describe, explain, auth. compatibility.py has the check-list."""

import json
import re

import yaml

import host
from compatibility import row
from kubectls import CM, VMIRS, config_map

DAEMON_OPTIONS = ["--node-name", "house"]


def five(kubectl, name):
    """Objects of both kinds, whose values are not in the order of their names."""
    names = [f"{name}-{i}" for i in range(5)]
    for subject in (VMIRS, CM):
        for each, value in zip(names, (3, 1, 5, 2, 4)):
            document = subject.manifest(each, value)
            document["metadata"]["labels"]["of"] = name
            kubectl.api("POST", subject, "", document)
    return names


@row("api-resources, api-versions")
def test_discovery(kubectl):
    rows = {line.split()[0]: line.split() for line in
            kubectl("api-resources", "--no-headers", "--namespaced=true").splitlines()}
    assert rows["virtualmachineinstancereplicasets"][1:] == [
        "vmirs,vmirss", "kubevirt.io/v1", "true", "VirtualMachineInstanceReplicaSet"]
    assert rows["configmaps"][1:] == ["cm", "v1", "true", "ConfigMap"]
    assert "namespaces" not in rows
    unnamespaced = kubectl("api-resources", "--namespaced=false", "-o", "name").splitlines()
    assert {"namespaces", "nodes"} <= set(unnamespaced) and "configmaps" not in unnamespaced
    of_kubevirt = kubectl("api-resources", "--api-group=kubevirt.io", "-o", "name").splitlines()
    assert {"virtualmachineinstances.kubevirt.io", VMIRS.plural} <= set(of_kubevirt)
    can_delete = kubectl("api-resources", "--verbs=list,delete", "-o", "name").splitlines()
    assert {"configmaps", "secrets", VMIRS.plural} <= set(can_delete) and "pods" not in can_delete
    wide = [line for line in kubectl("api-resources", "-o", "wide").splitlines()
            if line.startswith("configmaps ")]
    assert re.search("create.*delete.*deletecollection.*get.*list.*patch.*update.*watch", wide[0])
    versions = kubectl("api-versions").splitlines()
    assert {"v1", "apps/v1", "authorization.k8s.io/v1", "kubevirt.io/v1"} <= set(versions)


@row("version, cluster-info")
def test_version(kubectl):
    server = kubectl.json("version")["serverVersion"]
    assert server["major"] == "1" and server["minor"].isdigit()
    assert re.fullmatch(r"v1\.\d+\.\d+(-\S+|\+\S+)?", server["gitVersion"])
    assert server["gitVersion"] in kubectl("version")
    said = re.sub("\x1b\\[[0-9;]*m", "", kubectl("cluster-info"))
    assert re.match(r"Kubernetes (control plane|master) is running at https://127\.0\.0\.1:7443", said)


@row("get (table, wide, -A, -l, -L)")
def test_tables(kubectl, name):
    names = five(kubectl, name)
    app = f"of={name}"
    header, *rows = kubectl("get", "vmirs", "-l", app).splitlines()
    assert header.split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert [line.split()[:2] for line in rows] == [[n, v] for n, v in zip(names, "31524")]
    header, *rows = kubectl("get", "cm", "-l", app, "-o", "wide").splitlines()
    assert header.split() == ["NAME", "DATA", "AGE"]
    assert [line.split()[:2] for line in rows] == [[n, "1"] for n in names]
    for resource in ("vmirs", "cm"):
        header, *rows = kubectl("get", resource, "-A", "-l", app).splitlines()
        assert header.split()[:2] == ["NAMESPACE", "NAME"]
        assert [line.split()[1] for line in rows if line.split()[0] == kubectl.namespace] == names
    both = kubectl.rows("get", "vmirs,cm", "-l", app, "-L", "of", "--show-labels")
    assert [r[0] for r in both] == [f"{s.full}/{n}" for s in (VMIRS, CM) for n in names]
    assert {r[-2] for r in both} == {app[3:]} and f"app={names[-1]},{app}" == both[-1][-1]
    one = kubectl("get", "cm", names[1]).splitlines()
    assert len(one) == 2 and one[1].split()[0] == names[1]


@row("get (table, wide, -A, -l, -L)")
def test_label_selectors(kubectl, name):
    names = five(kubectl, name)
    of = f"of={name}"
    for selector, found in ((f"app in ({names[0]},{names[2]})", [names[0], names[2]]),
                            (f"{of},app notin ({names[0]}),app!={names[1]}", names[2:]),
                            (f"{of},!app", []), (f"{of},app", names),
                            (f"app=={names[3]}", [names[3]])):
        assert kubectl("get", "cm", "-l", selector, "-o", "name").splitlines() == [
            f"configmap/{n}" for n in found], selector
    assert "unable to parse" in kubectl.fails("get", "cm", "-l", "app in (")


@row("get (table, wide, -A, -l, -L)")
def test_nothing_is_found(kubectl):
    for resource in ("pods", "services", "vmi"):
        done = kubectl.run("get", resource)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"No resources found in {kubectl.namespace} namespace.\n"
    assert kubectl.fails("get", "cm", "nope") == \
        'Error from server (NotFound): configmaps "nope" not found'
    assert kubectl.fails("get", "vmirs/nope") == \
        f'Error from server (NotFound): {VMIRS.plural} "nope" not found'
    assert kubectl("get", "cm", "nope", "--ignore-not-found") == ""
    assert kubectl.fails("get", "unicorns") == \
        'error: the server doesn\'t have a resource type "unicorns"'


@row("get (table, wide, -A, -l, -L)")
def test_secrets_and_nodes_have_their_tables(kubectl, name):
    kubectl("create", "-f", "-", input={"apiVersion": "v1", "kind": "Secret", "stringData": {
        "user": "a", "password": "b"}, "metadata": {"name": name}})
    header, secret = kubectl("get", "secret", name).splitlines()
    assert header.split() == ["NAME", "TYPE", "DATA", "AGE"]
    assert secret.split()[:3] == [name, "Opaque", "2"]
    header, node = kubectl("get", "no").splitlines()
    assert header.split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert node.split()[:2] == ["house", "Ready"]
    header, node = kubectl("get", "node", "house", "-o", "wide").splitlines()
    for column in ("INTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"):
        assert column in header
    assert host.run("uname", "-r").strip() in node
    assert ["default", "Active"] in [r[:2] for r in kubectl.rows("get", "ns")]


@row("get --field-selector, --chunk-size")
def test_field_selectors_and_pages(kubectl, name):
    names = five(kubectl, name)
    for subject in (VMIRS, CM):
        assert kubectl("get", subject.label, "--field-selector", f"metadata.name={names[2]}",
                       "-o", "name") == f"{subject.full}/{names[2]}"
        assert names[2] not in kubectl("get", subject.label, "--field-selector",
                                      f"metadata.name!={names[2]},metadata.namespace={kubectl.namespace}")
        assert "field label not supported: spec.colour" in kubectl.fails(
            "get", subject.label, "--field-selector", "spec.colour=red")
        selector = f"of={name}"
        table = kubectl("get", subject.label, "-l", selector, "--chunk-size=2").splitlines()
        assert [line.split()[0] for line in table] == ["NAME", *names]
        pages = kubectl.json("get", subject.label, "-l", selector, "--chunk-size=2")
        assert [o["metadata"]["name"] for o in pages["items"]] == names
    assert kubectl("get", "ns", "--field-selector", "status.phase=Active,metadata.name=default",
                   "-o", "name") == "namespace/default"


@row("get -o yaml, json, jsonpath, name", VMIRS, CM)
def test_outputs(kubectl, subject, name):
    names = five(kubectl, name)
    kind = subject.manifest("x")["kind"]
    resource, app = subject.label, f"of={name}"
    one = yaml.safe_load(kubectl("get", resource, names[0], "-o", "yaml"))
    assert (one["kind"], one["metadata"]["name"]) == (kind, names[0])
    assert one["metadata"]["uid"] and one["metadata"]["resourceVersion"]
    many = kubectl.json("get", resource, "-l", app)
    assert (many["kind"], many["apiVersion"]) == ("List", "v1")
    assert [(o["kind"], o["metadata"]["name"]) for o in many["items"]] == [(kind, n) for n in names]
    assert kubectl("get", resource, "-l", app, "-o",
                   f"jsonpath={{.items[*]{subject.field}}}") == "3 1 5 2 4"
    assert kubectl("get", f"{resource}/{names[1]}", "-o", "name") == f"{subject.full}/{names[1]}"
    columns = f"custom-columns=N:.metadata.name,V:{subject.field}"
    assert kubectl("get", resource, names[4], "-o", columns).split() == ["N", "V", names[4], "4"]
    assert kubectl("get", resource, names[4], "-o", "go-template={{.kind}}") == kind
    plain = kubectl("get", resource, names[0], "--server-print=false").splitlines()
    assert plain[0].split() == ["NAME", "AGE"]
    kubectl.api("PATCH", subject, names[0] + "?fieldManager=me",
                {**subject.manifest(names[0], 3), "metadata": {"labels": {"applied": "yes"}}},
                "application/apply-patch+yaml")
    if kubectl.minor > 20:  # which shows them always
        assert "managedFields" not in kubectl("get", resource, names[0], "-o", "yaml")
    managers = kubectl.json("get", resource, names[0], *(
        ["--show-managed-fields"] if kubectl.minor > 20 else []))["metadata"]["managedFields"]
    assert ("me", "Apply") in [(m["manager"], m["operation"]) for m in managers]


@row("get --sort-by", VMIRS, CM)
def test_sorted(kubectl, subject, name):
    names = five(kubectl, name)
    app = f"of={name}"
    by_value = kubectl.rows("get", subject.label, "-l", app, f"--sort-by={subject.field}")
    assert [r[0] for r in by_value] == [names[i] for i in (1, 3, 0, 4, 2)]
    by_name = kubectl.rows("get", subject.label, "-l", app, "--sort-by=.metadata.name")
    assert [r[0] for r in by_name] == names


@row("get --raw")
def test_raw(kubectl, name):
    for path in ("/healthz", "/readyz", "/livez"):
        assert kubectl("get", "--raw", path) == "ok"
    resources = json.loads(kubectl("get", "--raw", "/api/v1"))
    assert resources["kind"] == "APIResourceList"
    assert "configmaps" in [r["name"] for r in resources["resources"]]
    assert json.loads(kubectl("get", "--raw", "/apis/kubevirt.io/v1"))["groupVersion"] == "kubevirt.io/v1"
    assert json.loads(kubectl("get", "--raw", "/apis/kubevirt.io"))["kind"] == "APIGroup"
    path = f"/api/v1/namespaces/{kubectl.namespace}/configmaps"
    kubectl("create", "--raw", path, "-f", "-", input=config_map(name))
    assert json.loads(kubectl("get", "--raw", f"{path}/{name}"))["data"] == {"value": "1"}
    kubectl("replace", "--raw", f"{path}/{name}", "-f", "-", input=config_map(name, 2))
    assert kubectl.value(CM, name) == "2"
    kubectl("delete", "--raw", f"{path}/{name}")
    assert kubectl.live(CM, name) is None
    assert "(NotFound)" in kubectl.fails("get", "--raw", "/nowhere")


@row("get all, delete all")
def test_all(kubectl, name):
    names = five(kubectl, name)
    listed = kubectl("get", "all", "-o", "name").splitlines()
    assert {f"{VMIRS.full}/{n}" for n in names} <= set(listed)
    assert not [line for line in listed if line.startswith(("configmap/", "event"))]
    header, first, *_ = kubectl("get", "all", "-l", f"of={name}").splitlines()
    assert header.split()[0] == "NAME" and first.split()[0] == f"{VMIRS.full}/{names[0]}"
    gone = kubectl("delete", "all", "-l", f"of={name}").splitlines()
    assert gone == [f'{VMIRS.full} "{n}" deleted' for n in names] or \
        gone == [f'{VMIRS.full} "{n}" deleted from {kubectl.namespace} namespace' for n in names]
    assert kubectl("get", "all", "-l", f"of={name}", "-o", "name") == ""
    assert len(kubectl.rows("get", "cm", "-l", f"of={name}")) == 5


@row("describe (kubevirt kinds, configmap, secret, namespace)")
def test_describe(kubectl, name):
    for subject in (VMIRS, CM):
        kubectl.make(subject, name)
    kubectl("create", "-f", "-", input={"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": name}, "stringData": {"password": "hidden"}})
    said = kubectl("describe", "vmirs", name)
    assert re.search(r"^Name: +" + name, said, re.M) and re.search(r"^Events:", said, re.M)
    assert re.search(r"^  Replicas: +1", said, re.M)
    said = kubectl("describe", "cm", name)
    assert re.search(r"^Data\n====\nvalue:\n----\n1\n", said, re.M) and "Events:" in said
    said = kubectl("describe", "secret", name)
    assert re.search(r"^password: +6 bytes", said, re.M) and "hidden" not in said
    said = kubectl("describe", "ns", kubectl.namespace)
    assert re.search(r"^Status: +Active", said, re.M)
    # A prefix describes all that begin with it.
    assert re.search(r"^Name: +" + name, kubectl("describe", "vmirs", name[:-1]), re.M)
    assert kubectl.fails("describe", "vmirs", "nope") == \
        f'Error from server (NotFound): {VMIRS.plural} "nope" not found'


@row("describe pvc")
def test_describe_pvc(kubectl, name):
    kubectl("create", "-f", "-", input={
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Mi"}}}})
    said = host.eventually(lambda: re.search(r"^Status: +Bound(.|\n)*", kubectl("describe", "pvc", name),
                                             re.M), what="a bound claim")[0]
    assert re.search(r"^Capacity: +8Mi", said, re.M) and re.search(r"^Access Modes: +RWO", said, re.M)
    assert re.search(r"^VolumeMode: +Filesystem", said, re.M)
    assert re.search(r"^(Used By|Mounted By): +<none>", said, re.M)
    kubectl("delete", "pvc", name)


@row("describe node")
def test_describe_node(kubectl):
    said = kubectl("describe", "node", "house")
    assert re.search(r"^Name: +house", said, re.M)
    assert re.search(r"^  Ready +True ", said, re.M)
    assert re.search(r"^Unschedulable: +false", said, re.M)
    capacity = re.search(r"^Capacity:\n((?:  .*\n)+)", said, re.M)[1]
    assert re.search(r"^  cpu: +" + host.run("nproc", "--all").strip(), capacity, re.M)
    assert re.search(r"^  memory: +\d+", capacity, re.M)
    assert "Non-terminated Pods:          (0 in total)" in said
    assert re.search(r"^Allocated resources:", said, re.M)


@row("explain")
def test_explain(kubectl):
    said = kubectl("explain", "vmirs.spec.template.spec.domain")
    assert re.search(r"KIND: +VirtualMachineInstanceReplicaSet", said)
    assert re.search(r"VERSION: +(kubevirt.io/)?v1", said) and re.search(r"^ +devices\t", said, re.M)
    every_field = kubectl("explain", "vmirs", "--recursive")
    assert re.search(r"^ +terminationGracePeriodSeconds\t<integer>", every_field, re.M)
    assert re.search(r"^ +data\t<map\[string\]string>", kubectl("explain", "cm"), re.M)
    assert "How many" in kubectl("explain", "vmirs.spec.replicas")
    assert "unschedulable" in kubectl("explain", "node.spec")
    assert "Where in its life" in kubectl("explain", "vmi.status.phase")
    assert "<no description>" not in kubectl("explain", "vmirs", "--recursive") + kubectl("explain", "vmi")
    assert 'field "nonsense" does not exist' in kubectl.fails("explain", "cm.nonsense")


@row("auth can-i, can-i --list")
def test_may_do_everything(kubectl):
    for question in (("create", "vmirs"), ("get", "cm", "-A"), ("delete", "cm/some"),
                     ("update", "vmirs", "--subresource=scale"), ("get", "/healthz"), ("*", "*")):
        assert kubectl("auth", "can-i", *question) == "yes", question
    header, *rules = kubectl("auth", "can-i", "--list").splitlines()
    assert header.split()[0] == "Resources"
    assert ["*.*", "[]", "[]", "[*]"] in [line.split() for line in rules]


@row("auth whoami")
def test_whoami(kubectl):
    assert re.search(r"^Username +\S+", kubectl("auth", "whoami"), re.M)
    assert kubectl.json("auth", "whoami")["status"]["userInfo"]["username"]
