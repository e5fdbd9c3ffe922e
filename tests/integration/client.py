"""The API as a client sees it: JSON over the unix socket, with watches instead of polling."""

import http.client
import json
import socket
import time

PATHS = {
    "vmirs": "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstancereplicasets",
    "vm": "/apis/kubevirt.io/v1/namespaces/{}/virtualmachines",
    "vmpool": "/apis/pool.kubevirt.io/v1beta1/namespaces/{}/virtualmachinepools",
    "savedvm": "/apis/virtset.io/v1alpha1/namespaces/{}/savedvirtualmachines",
    "dv": "/apis/cdi.kubevirt.io/v1beta1/namespaces/{}/datavolumes",
    "pvc": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "vmi": "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstances",
    "events": "/api/v1/namespaces/{}/events",
}
MERGE_PATCH = "application/merge-patch+json"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class ApiError(Exception):
    def __init__(self, code, status):
        super().__init__(f"{code}: {status}")
        self.code = code
        self.status = status


class Api:
    def __init__(self, socket_path, namespace="default"):
        self.socket_path = str(socket_path)
        self.namespace = namespace

    def request(self, method, path, body=None, content_type="application/json",
                accept="application/json"):
        """Returns code, headers and text."""
        connection = UnixConnection(self.socket_path, timeout=30)
        try:
            headers = {"Accept": accept}
            if body is not None:
                headers["Content-Type"] = content_type
                if not isinstance(body, (str, bytes)):
                    body = json.dumps(body)
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def call(self, method, path, body=None, content_type="application/json"):
        code, _, text = self.request(method, path, body, content_type)
        answer = json.loads(text)
        if code >= 400:
            raise ApiError(code, answer)
        return answer

    def path(self, kind, name=None, subresource=None):
        path = PATHS[kind].format(self.namespace)
        return "/".join([path] + [part for part in (name, subresource) if part])

    def create(self, kind, document):
        return self.call("POST", self.path(kind), document)

    def get(self, kind, name):
        return self.call("GET", self.path(kind, name))

    def list(self, kind, selector=""):
        query = "?labelSelector=" + selector if selector else ""
        return self.call("GET", self.path(kind) + query)["items"]

    def patch(self, kind, name, patch, subresource=None):
        return self.call("PATCH", self.path(kind, name, subresource), patch, MERGE_PATCH)

    def scale(self, name, replicas):
        return self.patch("vmirs", name, {"spec": {"replicas": replicas}}, "scale")

    def delete(self, kind, name, **options):
        return self.call("DELETE", self.path(kind, name), options or None)

    def table(self, kind, name=None):
        return self.request("GET", self.path(kind, name), accept="text/plain")[2]

    def events_of(self, name):
        return [e for e in self.list("events") if e["involvedObject"]["name"] == name]

    def watch(self, kind, revision, deadline):
        """Yields (type, object) until the deadline (of time.monotonic)."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            connection = UnixConnection(self.socket_path, timeout=left)
            try:
                connection.request(
                    "GET", f"{self.path(kind)}?watch=1&resourceVersion={revision}")
                response = connection.getresponse()
                assert response.status == 200, response.read()
                for line in response:
                    event = json.loads(line)
                    revision = event["object"]["metadata"]["resourceVersion"]
                    yield event["type"], event["object"]
            except TimeoutError:
                return
            finally:
                connection.close()

    def wait(self, kind, condition, timeout=60):
        """Returns what condition(objects by name) returns as soon as that is true."""
        deadline = time.monotonic() + timeout
        answer = self.call("GET", self.path(kind))
        objects = {o["metadata"]["name"]: o for o in answer["items"]}
        result = condition(objects)
        if result:
            return result
        for change, document in self.watch(kind, answer["metadata"]["resourceVersion"], deadline):
            if change == "DELETED":
                objects.pop(document["metadata"]["name"], None)
            else:
                objects[document["metadata"]["name"]] = document
            result = condition(objects)
            if result:
                return result
        raise AssertionError(f"not within {timeout} s; now: {json.dumps(objects, indent=1)[:6000]}")

    def wait_ready(self, name, replicas, timeout=120, kind="vmirs"):
        """Until the set, or pool, has exactly that many replicas and all are ready."""
        def at_count(objects):
            status = objects.get(name, {}).get("status", {})
            return (status.get("replicas", 0) == replicas
                    and status.get("readyReplicas", 0) == replicas)

        self.wait(kind, at_count, timeout)

    def replicas(self, name):
        return [v for v in self.list("vmi")
                if any(o["name"] == name for o in v["metadata"].get("ownerReferences", []))
                and "deletionTimestamp" not in v["metadata"]]


def address_of(instance):
    return instance["status"]["interfaces"][0]["ipAddress"]


def condition(document, kind):
    for entry in document.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry
    return None
