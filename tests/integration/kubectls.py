"""Every kubectl there is, and how the tests drive one.

The plain one of PATH; the real binaries that Google's package brings beside its dispatcher, which would
choose among them by our /version; and Debian's, which install_clients (systemd/host.sh) unpacks where it
cannot be installed."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import selectors
import shutil
import subprocess
import time
from typing import Callable

import host
from client import MERGE_PATCH, ApiError

CLIENTS = host.ROOT / "build" / "clients"


def found():
    """Binaries by version, "1.20" before "1.27"."""
    binaries = {}
    for binary in candidates():
        answer = subprocess.run([binary, "version", "--client", "-o", "json"], capture_output=True,
                                text=True, check=False).stdout
        version = json.loads(answer or "{}").get("clientVersion", {})
        if "-dispatcher" not in version.get("gitVersion", "-dispatcher"):
            number = re.match(r"\d+", version["minor"])[0]
            binaries.setdefault(f"{version['major']}.{number}", binary)
    return dict(sorted(binaries.items(), key=lambda item: minor(item[0])))


def candidates():
    binaries = sorted(CLIENTS.glob("kubectl-*/usr/bin/kubectl"))
    plain = shutil.which("kubectl")
    if plain:
        plain = os.path.realpath(plain)
        owner = subprocess.run(["dpkg", "-S", plain], capture_output=True, text=True, check=False)
        files = subprocess.run(["dpkg", "-L", owner.stdout.split(":")[0]], capture_output=True,
                               text=True, check=False).stdout.split() if owner.stdout else []
        binaries += [plain] + sorted(f for f in files if re.search(r"/kubectl\.1\.\d+$", f))
    return [str(binary) for binary in binaries]


def minor(version):
    return int(version.split(".")[1])


BINARIES = found()
assert BINARIES, "there is no kubectl: see install_packages and install_clients of systemd/host.sh"
NEWEST = list(BINARIES)[-1:]


class Kubectl:
    """One version against one daemon, in a namespace of its own."""

    def __init__(self, version, daemon):
        self.version = version
        self.minor = minor(version)
        self.daemon = daemon
        self.namespace = "kubectl-" + version.replace(".", "-")

    def command(self, *arguments):
        return [BINARIES[self.version], f"--kubeconfig={self.daemon.directory}/kubeconfig",
                f"--cache-dir={host.DIR}/kubectl-cache-{self.version}",
                *(() if "-n" in arguments else ("-n", self.namespace)),
                *(str(argument) for argument in arguments)]

    def run(self, *arguments, input=None, timeout=60, **environment):
        """What came of it, whatever that is. Documents are given as Python objects."""
        if input is not None and not isinstance(input, str):
            input = json.dumps(input)
        return subprocess.run(self.command(*arguments), input=input, timeout=timeout, text=True,
                              capture_output=True, check=False, env=self.environment(environment))

    def __call__(self, *arguments, **options):
        """What it prints; it must succeed."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, said(arguments, done)
        return done.stdout.rstrip("\n")

    def fails(self, *arguments, code=1, **options):
        """What it complains of; it must fail."""
        done = self.run(*arguments, **options)
        assert done.returncode == code, said(arguments, done)
        return done.stderr.rstrip("\n")

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "-o", "json", **options))

    def rows(self, *arguments, **options):
        """A table's cells without its header. Columns are two or more blanks apart."""
        return [re.split(r"\s{2,}", line.strip())
                for line in self(*arguments, "--no-headers", **options).splitlines()]

    # What is not the command to try is done without it: each kubectl takes its time.

    def api(self, method, subject, name="", *arguments):
        path = subject.path.format(self.namespace)
        return self.daemon.api.call(method, f"{path}/{name}" if name else path, *arguments)

    def make(self, subject, name, value=1):
        self.api("POST", subject, "", subject.manifest(name, value))
        return self.settled(subject, name)

    def settled(self, subject, name):
        """The object, once its controller has said what it thinks of it."""
        return host.eventually(lambda: (live := self.live(subject, name))
                               and (subject is CM or live.get("status")) and live, what="a status")

    def change(self, subject, name, value):
        return self.api("PATCH", subject, name, subject.patch(value), MERGE_PATCH)

    def live(self, subject, name):
        """The object as it is, or None."""
        try:
            return self.api("GET", subject, name)
        except ApiError as error:
            assert error.code == 404, error
            return None

    def value(self, subject, name):
        return subject.value_of(self.live(subject, name))

    def stream(self, *arguments, **environment):
        return Stream(self.command(*arguments), self.environment(environment))

    def environment(self, more):
        return {**os.environ, "HOME": str(host.DIR), **{k: str(v) for k, v in more.items()}}


def said(arguments, done):
    return (f"kubectl {' '.join(str(a) for a in arguments)} ended with {done.returncode}:\n"
            f"{done.stderr}{done.stdout}")


class Stream:
    """A client that goes on printing, such as get --watch."""

    def __init__(self, command, environment=None, **options):
        self.command = command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment,
                                        **{"stdin": subprocess.DEVNULL, **options})
        self.lines = []
        self.rest = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.selector.close()

    def until(self, condition, timeout=20):
        """All lines so far, once they meet the condition (of that list)."""
        deadline = time.monotonic() + timeout
        while not condition(self.lines):
            left = deadline - time.monotonic()
            assert left > 0, f"{self.command}: not within {timeout} s: {self.lines}"
            self.look(left)
        return self.lines

    def look(self, timeout=0):
        """Takes what it has printed; waits for it, if given a time."""
        if self.selector.select(timeout):
            text = os.read(self.process.stdout.fileno(), 65536)
            assert text, f"{self.command} ended: {self.lines}, {self.process.stderr.read()}"
            *lines, self.rest = (self.rest + text).split(b"\n")
            self.lines += [line.decode() for line in lines]

    def end(self, timeout=30):
        """Its exit code, all lines and what it complained of, once it ends by itself."""
        out, errors = self.process.communicate(timeout=timeout)
        self.lines += (self.rest + out).decode().splitlines()
        return self.process.returncode, self.lines, errors.decode()


@functools.lru_cache
def editor(script):
    """The path of a program that runs `script`, which sees the file to edit as $1."""
    path = host.DIR / f"editor-{abs(hash(script))}"
    path.write_text("#!/bin/bash\nset -e\n" + script)
    path.chmod(0o755)
    return pathlib.Path(path)


@dataclasses.dataclass
class Subject:
    """A kind to try a command on, with one value that can be changed."""

    label: str
    full: str  # as kubectl prints it before a slash
    plural: str  # as errors say it
    field: str  # where the value is
    path: str
    manifest: Callable  # of a name and a value
    value: Callable = int

    def patch(self, value):
        first, second = self.field.strip(".").split(".")
        return {first: {second: self.value(value)}}

    def value_of(self, document):
        first, second = self.field.strip(".").split(".")
        return str(document[first][second])

    def __str__(self):
        return self.label


def paused_set(name, replicas=1):
    """None of its replicas is ever started."""
    document = host.demo_set(name, replicas)
    # kubectl edit, opened again after a mistake, drops all lines that begin with #.
    document["spec"]["template"]["spec"]["volumes"][1]["cloudInitNoCloud"]["userData"] = "none\n"
    document["metadata"]["labels"] = {"app": name}
    document["spec"]["paused"] = True
    return document


def config_map(name, value=1):
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app": name}}, "data": {"value": str(value)}}


VMIRS = Subject("vmirs", "virtualmachineinstancereplicaset.kubevirt.io",
                "virtualmachineinstancereplicasets.kubevirt.io", ".spec.replicas",
                "/apis/kubevirt.io/v1/namespaces/{}/virtualmachineinstancereplicasets", paused_set)
CM = Subject("cm", "configmap", "configmaps", ".data.value", "/api/v1/namespaces/{}/configmaps",
             config_map, str)
