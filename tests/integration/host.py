"""What stands around the daemon: libvirt, a registry, the daemon's process. Inside tests/sandbox.sh."""

import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request

from client import Api

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["VIRTSET_BUILD"])
DEMO = pathlib.Path(os.environ["VIRTSET_DEMO"])
DIR = pathlib.Path(os.environ["VIRTSET_TEST_DIR"])
DEMO_IMAGE = "localhost/virtset-demo:1"


def run(*command, check=True, timeout=120, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=timeout, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def virsh(*command, check=True):
    return run("virsh", "-q", "-c", "qemu:///system", *command, check=check)


def eventually(condition, timeout=30, what="it"):
    """For what sends no events."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout} s"
        time.sleep(0.02)


class Process:
    def __init__(self, name, *command, env=None, **options):
        self.name = name
        self.log_file = DIR / f"{name}.log"
        with open(self.log_file, "ab") as log:
            self.popen = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log, start_new_session=True,
                                          env={**os.environ, **(env or {})}, **options)

    def alive(self):
        return self.popen.poll() is None

    def log(self):
        return self.log_file.read_text(errors="replace")

    def end(self, with_signal=signal.SIGTERM, timeout=40):
        if self.alive():
            self.popen.send_signal(with_signal)
        return self.popen.wait(timeout)


class Libvirt:
    """virtlogd and libvirtd. Domains outlive it."""

    def __init__(self):
        # Non-root users of the group libvirt may use it; there is no polkit here.
        self.configuration = DIR / "libvirtd.conf"
        self.configuration.write_text('auth_unix_rw = "none"\nunix_sock_group = "libvirt"\n'
                                      'unix_sock_rw_perms = "0770"\n')
        self.virtlogd = Process("virtlogd", "virtlogd")
        self.libvirtd = None

    def start(self):
        self.libvirtd = Process("libvirtd", "libvirtd", "-f", self.configuration)
        eventually(lambda: self.answers(), 90, "libvirt's answer")

    def answers(self):
        assert self.libvirtd.alive(), self.libvirtd.log()[-3000:]
        return subprocess.run(["virsh", "-c", "qemu:///system", "version"],
                              capture_output=True, check=False).returncode == 0

    def stop(self, with_signal=signal.SIGTERM):
        self.libvirtd.end(with_signal)


class Registry:
    """Debian's docker-registry on loopback, without TLS."""

    def __init__(self, port=5000):
        self.address = f"127.0.0.1:{port}"
        self.directory = DIR / f"registry-{port}"
        self.configuration = DIR / f"registry-{port}.yml"
        self.configuration.write_text(
            "version: 0.1\nlog: {level: info}\nstorage:\n"
            f"  filesystem: {{rootdirectory: {self.directory}}}\n  delete: {{enabled: true}}\n"
            f"http: {{addr: ':{port}'}}\n")
        self.process = None

    def start(self):
        self.process = Process("registry", "docker-registry", "serve", self.configuration)
        eventually(self.answers, what="the registry's answer")

    def answers(self):
        try:
            urllib.request.urlopen(f"http://{self.address}/v2/", timeout=5).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.end()

    def push(self, archive, reference):
        """Returns the name under which the daemon can pull it."""
        run("skopeo", "copy", "-q", "--dest-tls-verify=false", archive,
            f"docker://{self.address}/{reference}")
        return f"{self.address}/{reference}"

    def push_demo(self, reference):
        return self.push(f"oci-archive:{DEMO}/demo.oci.tar:{DEMO_IMAGE}", reference)

    def pulls_of(self, repository):
        """How often its layers were fetched."""
        return sum(1 for line in self.process.log().splitlines()
                   if f"/v2/{repository}/blobs/" in line and '"GET' in line)


class Daemon:
    """virtsetd in a state directory of its own, which outlives the process."""

    def __init__(self, name="virtset", *options, binary=None):
        self.directory = DIR / name
        self.directory.mkdir(mode=0o711, exist_ok=True)
        self.name = name
        self.options = options
        self.binary = binary or BUILD / "daemon" / "virtsetd"
        self.process = None
        self.api = Api(self.directory / "virtset.sock")

    @property
    def pid(self):
        return self.process.popen.pid

    def command(self):
        defaults = {"--config": "", "--state-dir": self.directory, "--run-dir": self.directory,
                    "--config-dir": self.directory, "--crash-back-off": "1",
                    "--image-back-off": "1"}
        given = [part for name, value in defaults.items() if name not in self.options
                 for part in (name, value)]
        return [self.binary, *given, *self.options]

    def become_virtset(self):
        """From the next start on it is run as its unit runs it; see the fixture virtset_user."""
        shutil.chown(self.directory, "virtset", "virtset")
        command = self.command()
        self.command = lambda: ["setpriv", "--reuid=virtset", "--regid=virtset", "--init-groups",
                                "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs",
                                *command]

    def start(self, wait=True, **options):
        # Tests of what a sanitizer finds look at the exit code.
        self.process = Process(self.name, *self.command(), **options)
        if wait:
            eventually(self.answers, 60, "the daemon's answer")
        return self

    def answers(self):
        assert self.process.alive(), self.process.log()[-3000:]
        try:
            return self.api.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def stop(self):
        assert self.process.end() == 0, self.process.log()[-5000:]

    def kill(self):
        self.process.end(signal.SIGKILL)

    def import_demo(self, data=None):
        """Drops the demo image in, and waits until it is known."""
        folder = (data or self.directory / "data") / "import"
        # Renamed in one step: half an archive is never seen.
        shutil.copy(DEMO / "demo.oci.tar", folder / ".demo")
        (folder / ".demo").rename(folder / "demo.oci.tar")
        eventually(lambda: f"image {DEMO_IMAGE} is present" in self.process.log(),
                   what="the import")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kubectl(self, *command, check=True, **options):
        return run("kubectl", "--kubeconfig", self.directory / "kubeconfig",
                   f"--cache-dir={self.directory}/kubectl-cache", *command, check=check, **options)


def start_foreign_domain(name):
    """One that is not ours, and must be let be. Returns its process, as qemu_processes does."""
    xml = DIR / "foreign.xml"
    xml.write_text(f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory>"
                   "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>")
    virsh("create", "--paused", xml)
    return qemu_processes(name)


def qemu_processes(prefix="default_"):
    """Pids of the QEMU processes of domains with such names, by domain name."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                arguments = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            for argument in arguments:
                if argument.startswith(b"guest=" + prefix.encode()):
                    found[argument[6:].split(b",")[0].decode()] = int(entry)
    return found


def http_get(address, path="/", timeout=10):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=timeout) as answer:
        return answer.read().decode().strip()


def wait_for_answer(address, answer=None, timeout=60, patience=1):
    """Until it answers HTTP with this, or at all. A guest that boots lets requests hang: each is given
    so many seconds."""
    def answers():
        try:
            found = http_get(address, timeout=patience)
        except OSError:
            return False
        return answer is None or found == answer
    eventually(answers, timeout, f"the answer {answer or ''} of {address}")


def demo_set(name="web", replicas=3, image=DEMO_IMAGE, **template_spec):
    """A set of demo guests that are ready when they answer HTTP."""
    spec = {
        "terminationGracePeriodSeconds": 0,
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "disks": [{"name": "system", "disk": {"bus": "virtio"}},
                          {"name": "seed", "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": "default", "masquerade": {}}],
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [
            {"name": "system",
             "containerDisk": {"image": image, "imagePullPolicy": "IfNotPresent"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": "#cloud-config\n"}},
        ],
    }
    spec.update(template_spec)
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def pool_of(document, version="v1beta1", **spec):
    """A pool of what a set would have, but with names, and machines, that stay."""
    set_spec = document["spec"]
    return {"apiVersion": f"pool.kubevirt.io/{version}", "kind": "VirtualMachinePool",
            "metadata": document["metadata"],
            "spec": {"replicas": set_spec["replicas"], "selector": set_spec["selector"],
                     "virtualMachineTemplate": {
                         "metadata": {"labels": set_spec["selector"]["matchLabels"]},
                         "spec": {"runStrategy": "Always", "template": set_spec["template"]}},
                     **spec}}


def demo_pool(name="web", replicas=3, version="v1beta1", **spec):
    return pool_of(demo_set(name, replicas, terminationGracePeriodSeconds=10), version, **spec)
