"""The unix socket for curl, TLS for kubectl: who gets in, what is refused, and how it is said."""

import json
import stat

import pytest
import yaml

import host
from client import MERGE_PATCH
from host import demo_set

BAD = sorted((host.ROOT / "tests" / "manifests" / "bad").glob("*.yaml"))


def curl(daemon, *arguments, check=True):
    return host.run("curl", "-sS", "--unix-socket", daemon.directory / "virtset.sock", *arguments,
                    check=check)


def test_socket_is_for_its_group_alone(daemon):
    mode = (daemon.directory / "virtset.sock").stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
    for private in ("virtset.db", "pki/server.key", "pki/ca.key", "pki/admin.token"):
        assert stat.S_IMODE((daemon.directory / private).stat().st_mode) == 0o600, private
    assert stat.S_IMODE((daemon.directory / "kubeconfig").stat().st_mode) == 0o640


def test_tls_wants_a_token(daemon):
    base = "https://127.0.0.1:7443"
    ca = daemon.directory / "pki" / "ca.crt"

    def code(path, *options):
        return host.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", ca,
                        *options, base + path)

    config = yaml.safe_load((daemon.directory / "kubeconfig").read_text())
    token = config["users"][0]["user"]["token"]
    for path in ("/healthz", "/readyz", "/livez", "/version"):
        assert code(path) == "200", path
    for path in ("/api", "/apis", "/api/v1/events", "/openapi/v2", "/"):
        assert code(path) == "401", path
        assert code(path, "-H", "Authorization: Bearer wrong") == "401"
    assert code("/api/v1/events", "-H", f"Authorization: Bearer {token}") == "200"
    # Nobody speaks to it without TLS.
    assert host.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
                    base.replace("https", "http"), check=False) in ("000", "400")


def test_answers_for_people_and_for_programs(daemon, api):
    url = "http://localhost" + api.path("vmirs")
    assert json.loads(curl(daemon, url))["kind"] == "VirtualMachineInstanceReplicaSetList"
    assert yaml.safe_load(curl(daemon, "-H", "Accept: application/yaml", url))["items"] == []
    api.create("vmirs", demo_set(replicas=0))
    table = curl(daemon, "-H", "Accept: text/plain", url).splitlines()
    assert table[0].split() == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert table[1].split()[:2] == ["web", "0"]


def test_head_is_an_answer_without_its_body(daemon, api):
    api.create("vmirs", demo_set(replicas=0))
    base = "http://localhost"
    for path, code in ((api.path("vmirs", "web"), "200"), (api.path("vmirs"), "200"),
                       (api.path("vmirs", "none"), "404"), ("/", "200")):
        # Two on one connection: a body that is sent nevertheless would be taken for the second answer.
        head = curl(daemon, "--head", base + path, base + path)
        assert head.count(f"HTTP/1.1 {code} ") == 2, head


def test_bodies_of_unknown_length_are_taken(daemon, api):
    document = json.dumps(demo_set("chunked", 0))
    answer = host.run("curl", "-sS", "--unix-socket", daemon.directory / "virtset.sock",
                      "-H", "Transfer-Encoding: chunked", "-H", "Content-Type: application/json",
                      "--data-binary", "@-", "http://localhost" + api.path("vmirs"), input=document)
    assert json.loads(answer)["metadata"]["name"] == "chunked"


def test_long_lists_are_compressed_for_who_takes_it(daemon, api):
    for number in range(60):
        document = demo_set(f"long-{number}", 0)
        document["metadata"]["annotations"] = {"padding": "x" * 3000}
        api.create("vmirs", document)
    # So that nothing changes any more.
    api.wait("vmirs", lambda sets: len(sets) == 60 and all("status" in s for s in sets.values()))
    url = "http://localhost" + api.path("vmirs")
    plain = curl(daemon, url)
    assert curl(daemon, "--compressed", url) == plain
    sizes = [int(curl(daemon, "-o", "/dev/null", "-w", "%{size_download}", *options, url))
             for options in ((), ("-H", "Accept-Encoding: gzip"))]
    assert sizes[1] * 5 < sizes[0], sizes


def test_yaml_and_json_are_taken(daemon, api):
    document = demo_set(replicas=0)
    url = "http://localhost" + api.path("vmirs")
    for name, text, media_type in (("one", json.dumps, "application/json"),
                                   ("two", yaml.safe_dump, "application/yaml")):
        document["metadata"]["name"] = name
        answer = json.loads(curl(daemon, "-H", f"Content-Type: {media_type}", "--data-binary",
                                 text(document), url))
        assert answer["metadata"]["name"] == name, answer


def test_replace_conflicts_on_an_old_revision(api):
    api.create("vmirs", demo_set(replicas=0))
    old = api.get("vmirs", "web")
    api.patch("vmirs", "web", {"metadata": {"labels": {"a": "b"}}})
    old["spec"]["replicas"] = 1
    code, _, text = api.request("PUT", api.path("vmirs", "web"), old)
    assert code == 409 and json.loads(text)["reason"] == "Conflict"
    assert api.get("vmirs", "web")["spec"]["replicas"] == 0


def test_namespaces_have_their_own_sets(daemon, api):
    daemon.kubectl("create", "namespace", "lab")
    document = demo_set(replicas=0)
    path = api.path("vmirs").replace("/default/", "/lab/")
    api.call("POST", path, document)
    api.create("vmirs", document)
    assert len(daemon.kubectl("get", "vmirs", "-A", "--no-headers").splitlines()) == 2
    daemon.kubectl("delete", "namespace", "lab", "--wait")
    assert api.request("GET", path + "/web")[0] == 404
    assert api.get("vmirs", "web")["metadata"]["namespace"] == "default"
    assert api.request("POST", path, document)[0] == 404


def test_pause_and_resume(api):
    api.create("vmirs", demo_set(replicas=0))
    api.patch("vmirs", "web", {"spec": {"paused": True, "replicas": 2}})
    api.wait("vmirs", lambda sets: "ReplicaPaused" in str(sets["web"].get("status")))
    assert api.list("vmi") == []
    api.patch("vmirs", "web", {"spec": {"paused": False}})
    api.wait("vmi", lambda objects: len(objects) == 2)


def expected_answer(path):
    """Code, reason, field and message, from the comments at the top of a manifest."""
    first, second = path.read_text().splitlines()[:2]
    code, reason, field, *_ = *first.removeprefix("# expected: ").split(), "", ""
    return int(code), reason, field, second.removeprefix("# message: ")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_manifest_is_refused_and_changes_nothing(daemon, api, path):
    code, reason, field, message = expected_answer(path)
    before = api.call("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"]
    answer_code, _, text = api.request("POST", api.path("vmirs"), path.read_bytes(),
                                       "application/yaml")
    status = json.loads(text)
    assert answer_code == status["code"] == code, text
    assert message in status["message"], text
    if field:
        assert (reason, field) in [(c["reason"], c["field"]) for c in status["details"]["causes"]], text
    after = api.call("GET", "/api/v1/namespaces")["metadata"]["resourceVersion"]
    assert before == after, "something was written"


def test_unsupported_patch_says_what_is(api):
    api.create("vmirs", demo_set(replicas=0))
    code, _, text = api.request("PATCH", api.path("vmirs", "web"), "{}", "text/csv")
    assert code == 415 and MERGE_PATCH in text


def test_kubectl_and_curl_of_the_seed_documents(daemon, api):
    """Every manifest the project was founded on is taken as it is."""
    for path in sorted((host.ROOT / "tests" / "manifests" / "seeds").glob("*.yaml")):
        assert "created" in daemon.kubectl("create", "-f", path)
        daemon.kubectl("delete", "-f", path)
    assert api.list("vmirs") == []
