"""The unix socket for curl, TLS for kubectl: who gets in, what is refused, and how it is said."""

import contextlib
import json
import pathlib
import re
import socket
import ssl
import stat
import time

import pytest
import yaml

import host
from client import MERGE_PATCH
from host import demo_set

BAD = sorted((host.ROOT / "tests" / "manifests" / "bad").glob("*.yaml"))


def curl(daemon, *arguments, **options):
    return host.run("curl", "-sS", "--unix-socket", daemon.directory / "virtset.sock", *arguments,
                    **options)


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
    assert api.list("vmirs") == [] and api.list("vmpool") == []
    api.wait("vm", lambda objects: not objects)


class Wire:
    """A connection to the unix socket, or to what else is given, that says exactly what it is told."""

    def __init__(self, daemon, connection=None):
        self.connection = connection
        if not connection:
            self.connection = socket.socket(socket.AF_UNIX)
            self.connection.connect(str(daemon.directory / "virtset.sock"))
        self.connection.settimeout(20)
        self.data = b""

    def send(self, *lines, body=b""):
        self.connection.sendall("\r\n".join((*lines, "", "")).encode("latin-1") + body)

    def until(self, mark):
        while mark not in self.data:
            received = self.connection.recv(1 << 16)
            assert received, (mark, self.data)
            self.data += received
        found, _, self.data = self.data.partition(mark)
        return found

    def answer(self):
        """Code, head and body of the next answer, which must be none in chunks."""
        head = self.until(b"\r\n\r\n").decode("latin-1")
        length = int(re.search(r"content-length: (\d+)", head)[1])
        while len(self.data) < length:
            self.data += self.connection.recv(1 << 16)
        body, self.data = self.data[:length], self.data[length:]
        return int(head.split(" ", 2)[1]), head, body.decode()

    def ask(self, *lines, body=b""):
        self.send(*lines, body=body)
        return self.answer()

    def is_closed(self):
        return not self.data and self.connection.recv(1) == b""


def test_paths_that_others_would_resolve_change_nothing(api, namespaces, daemon):
    namespaces("doors")
    path = "/api/v1/namespaces/doors/configmaps"
    for name in ("keep", "one"):
        api.call("POST", path, {"metadata": {"name": name}})
    wire = Wire(daemon)
    for end, why in (("/%2e%2e", "dots"), ("/..", "dots"), ("/.", "dots"), ("/%00", "control"),
                     ("/%0a", "control"), ("/keep%0a", "control"), ("/one%00x", "control"),
                     ("/..%2f..%2fx", "slash"), ("//keep", "empty"), ("/%zz", "escape"),
                     ("?labelSelector=%%%", "labelSelector"), ("?labelSelector=a%00", "NUL")):
        code, _, body = wire.ask(f"DELETE {path}{end} HTTP/1.1", "Accept: application/json")
        status = json.loads(body)
        assert code == status["code"] == 400 and why in status["message"], (end, body)
    assert {c["metadata"]["name"] for c in api.call("GET", path)["items"]} == {"keep", "one"}
    assert wire.ask("GET /%zz HTTP/1.1")[2].startswith("the path's segment")
    assert wire.ask("GET * HTTP/1.1")[0] == 400
    assert wire.ask("GET http://elsewhere/healthz HTTP/1.1")[0] == 200


def test_methods_that_are_none(daemon):
    wire = Wire(daemon)
    for method in ("FOO", "TRACE", "OPTIONS", "CONNECT"):
        for path in ("/api/v1/namespaces", "/api/v1/namespaces/default", "/healthz"):
            code, _, body = wire.ask(f"{method} {path} HTTP/1.1", "Accept: application/json")
            assert code == 405 and json.loads(body)["reason"] == "MethodNotAllowed", (method, body)


@pytest.mark.parametrize("lines, code", [
    (("GET / HTTP/1.1", "X: " + "x" * 20_000), 431),
    (("GET /" + "x" * 20_000 + " HTTP/1.1",), 431),
    (("GET / HTTP/3.0",), 400),
    (("GET / HTTP/1.1", "a: b", " c"), 400),
    (("POST / HTTP/1.1", "Content-Length: 1", "Content-Length: 1"), 400),
    (("POST / HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"), 400),
    (("POST / HTTP/1.1", "Transfer-Encoding: gzip"), 501),
    (("POST / HTTP/1.1", "Content-Length: 4000000"), 413),
    (("POST / HTTP/1.1", "Expect: miracles", "Content-Length: 1"), 417),
], ids=lambda value: "" if isinstance(value, int) else value[-1][:40])
def test_what_is_not_understood_is_answered_and_ends_the_connection(daemon, lines, code):
    wire = Wire(daemon)
    answer_code, head, body = wire.ask(*lines)
    assert answer_code == code and "connection: close" in head and len(body) > 10, (head, body)
    assert wire.is_closed()


def test_answer_arrives_although_the_body_is_not_read(daemon):
    """Closing while the client still sends would take the answer from it."""
    wire = Wire(daemon)
    wire.send("POST / HTTP/1.1", "Content-Length: 40000000")
    with contextlib.suppress(BrokenPipeError):
        for _ in range(40):
            wire.connection.sendall(b"x" * 1_000_000)
    assert wire.answer()[0] == 413


def test_expectation_is_met_at_once(daemon):
    wire = Wire(daemon)
    wire.send("POST /api/v1/namespaces/default/configmaps HTTP/1.1", "Expect: 100-continue",
              "Content-Type: application/json", "Content-Length: 2")
    assert wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    wire.connection.sendall(b"{}")
    assert wire.answer()[0] == 422
    padding = "x" * 2_000_000
    begun = time.monotonic()
    curl(daemon, "-H", "Content-Type: application/json", "--data-binary", "@-",
         "http://localhost/api/v1/namespaces/default/configmaps", input=json.dumps({"a": padding}))
    assert time.monotonic() - begun < 1, "curl waits a second for an answer to its expectation"


def test_requests_follow_one_another(daemon):
    wire = Wire(daemon)
    chunked = ("POST /api/v1/namespaces/default/configmaps HTTP/1.1", "Transfer-Encoding: chunked",
               "Content-Type: application/json")
    for _ in range(2):
        assert wire.ask(*chunked, body=b"1\r\n{\r\n1;x\r\n}\r\n0\r\nx: y\r\n\r\n")[0] == 422
    # None waits for the answer to the one before; changes are answered when they are on the disk.
    path = "/api/v1/namespaces/default/configmaps"
    many = 300
    for number in range(many):
        body = json.dumps({"metadata": {"name": f"piped-{number}"}}).encode()
        wire.send(f"POST {path} HTTP/1.1", "Content-Type: application/json",
                  f"Content-Length: {len(body)}", body=body)
        wire.send(f"DELETE {path}/piped-{number} HTTP/1.1")
    for number in range(many):
        for code in (201, 200):
            answer_code, _, body = wire.answer()
            assert answer_code == code and f"piped-{number}\"" in body, body
    wire.send("GET /healthz HTTP/1.1", "Connection: close")
    assert "connection: close" in wire.answer()[1] and wire.is_closed()


def test_http_1_0_is_answered_until_the_end_of_the_connection(daemon, api):
    path = api.path("vmirs")
    api.create("vmirs", demo_set(replicas=0))
    api.wait("vmirs", lambda sets: "status" in sets["web"])
    for end in ("", "/web"):
        url = f"http://localhost{path}{end}"
        assert curl(daemon, "--http1.0", url) == curl(daemon, url)
    wire = Wire(daemon)
    wire.send(f"GET {path} HTTP/1.0", "Connection: keep-alive")
    assert "chunked" not in wire.until(b"\r\n\r\n").decode()
    wire.until(b"]}")


def test_impersonation_is_refused(daemon):
    wire = Wire(daemon)
    for header in ("Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-a"):
        code, _, body = wire.ask("GET /api/v1/namespaces HTTP/1.1", f"{header}: x",
                                 "Accept: application/json")
        status = json.loads(body)
        assert code == 403 and status["reason"] == "Forbidden", body
        assert status["message"] == "impersonation is not supported"
    with pytest.raises(AssertionError, match="impersonation is not supported"):
        daemon.kubectl("get", "vmirs", "--as", "me")


def tls(daemon, address="127.0.0.1"):
    context = ssl.create_default_context(cafile=daemon.directory / "pki" / "ca.crt")
    return Wire(daemon, context.wrap_socket(socket.create_connection((address, 7443)),
                                            server_hostname="127.0.0.1"))


def test_scheme_of_the_token_is_in_any_case(daemon):
    config = yaml.safe_load((daemon.directory / "kubeconfig").read_text())
    token = config["users"][0]["user"]["token"]
    wire = tls(daemon)
    for scheme in ("Bearer", "bearer", "BEARER "):
        code, _, _ = wire.ask("GET /api/v1/namespaces/default HTTP/1.1",
                              f"Authorization: {scheme} {token}")
        assert code == 200, scheme
    assert wire.ask("GET / HTTP/1.1", f"Authorization: Basic {token}")[0] == 401
    # Whose body is not taken.
    assert wire.ask("POST / HTTP/1.1", "Content-Length: 1000000")[0] == 401


def test_tls_listens_where_it_was_told_and_nowhere_else(daemon):
    assert tls(daemon).ask("GET /healthz HTTP/1.1")[0] == 200
    for address in ("127.0.0.2", "::1"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, 7443))
    listening = [line.split()[1] for kind in ("tcp", "tcp6")
                 for line in pathlib.Path("/proc/net", kind).read_text().splitlines()
                 if line.split()[3] == "0A"]
    assert [a for a in listening if a.endswith(f":{7443:04X}")] == ["0100007F:1D13"]


def test_watch_ends_when_its_client_goes(daemon):
    """Without the next event, which may be days away."""
    def open_files():
        return len(list(pathlib.Path(f"/proc/{daemon.pid}/fd").iterdir()))

    before = open_files()
    for make in (lambda: Wire(daemon), lambda: tls(daemon)):
        wires = [make() for _ in range(20)]
        config = yaml.safe_load((daemon.directory / "kubeconfig").read_text())
        for wire in wires:
            wire.send("GET /api/v1/namespaces?watch=1 HTTP/1.1",
                      f"Authorization: Bearer {config['users'][0]['user']['token']}")
            wire.until(b"ADDED")
        assert open_files() >= before + 20
        for wire in wires:
            wire.connection.close()
        host.eventually(lambda: open_files() <= before + 2, timeout=5, what="the end of watches")
