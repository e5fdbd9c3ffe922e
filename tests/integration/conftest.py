import pwd
import shutil

import pytest

import host
from client import ApiError
from kubectls import Kubectl


def pytest_addoption(parser):
    parser.addoption("--faults", type=int, default=15, help="of test_faults.py")
    parser.addoption("--seed", type=int, default=1, help="of test_faults.py")


@pytest.fixture(scope="session")
def libvirt():
    libvirt = host.Libvirt()
    libvirt.start()
    return libvirt


@pytest.fixture(scope="session")
def registry():
    registry = host.Registry()
    registry.start()
    return registry


@pytest.fixture(scope="module")
def daemon(libvirt, request):
    """A daemon that knows the demo image; each module of tests has its own, and must leave none behind."""
    options = getattr(request.module, "DAEMON_OPTIONS", [])
    daemon = host.Daemon(request.module.__name__, *options).start()
    daemon.import_demo()
    yield daemon
    try:
        assert daemon.process.alive(), "the daemon died: " + daemon.process.log()[-3000:]
        remove_sets(daemon)
        daemon.stop()
    finally:
        # Made for this installation, it would be another's for the next.
        host.virsh("net-destroy", "virtset0")
    shutil.rmtree(daemon.directory)


def remove_sets(daemon):
    """And everything that came of them: what is left then is a leak."""
    for document in daemon.api.list("vmirs"):
        daemon.api.delete("vmirs", document["metadata"]["name"])
    for kind in ("vm", "vmi"):
        for document in daemon.api.list(kind):
            try:
                daemon.api.delete(kind, document["metadata"]["name"])
            except ApiError as error:
                assert error.code == 404, error  # gone meanwhile
    daemon.api.wait("vm", lambda objects: not objects, timeout=60)
    daemon.api.wait("vmi", lambda objects: not objects, timeout=60)
    daemon.api.wait("vmirs", lambda objects: not objects, timeout=60)
    host.eventually(lambda: not host.qemu_processes(), what="the end of all QEMU processes")
    leftovers = [p.name for p in (daemon.directory / "data" / "vms").iterdir()]
    assert leftovers == [], "disks were left behind"


@pytest.fixture
def api(daemon):
    """The daemon's API; sets and instances are removed after the test, which checks for leaks."""
    yield daemon.api
    remove_sets(daemon)


@pytest.fixture(scope="module")
def namespaces(daemon):
    """Makes those that tests ask for; all are gone, with all that is in them, after the module."""
    made = set()

    def make(name):
        if name not in made:
            daemon.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            made.add(name)

    yield make
    for name in made:
        daemon.api.call("DELETE", f"/api/v1/namespaces/{name}")
    for name in made:
        host.eventually(lambda: daemon.api.request("GET", f"/api/v1/namespaces/{name}")[0] == 404,
                        what=f"the end of namespace {name}")


@pytest.fixture
def virtset_user():
    """Only in this mount namespace."""
    folder = host.DIR / "etc"
    folder.mkdir(exist_ok=True)
    for name in ("passwd", "group", "shadow", "gshadow"):
        shutil.copy(f"/etc/{name}", folder / name)
        host.run("mount", "--bind", folder / name, f"/etc/{name}")
    libvirt = [line for line in (folder / "group").read_text().splitlines()
               if line.startswith("libvirt:")][0]
    groups = (folder / "group").read_text().replace(
        libvirt, libvirt + ("," if libvirt[-1] != ":" else "") + "virtset")
    (folder / "group").write_text(groups + "virtset:x:6543:\n")
    (folder / "passwd").write_text((folder / "passwd").read_text() +
                                   "virtset:x:6543:6543::/nonexistent:/usr/sbin/nologin\n")
    yield pwd.getpwnam("virtset")
    for name in ("passwd", "group", "shadow", "gshadow"):
        host.run("umount", f"/etc/{name}")


@pytest.fixture
def kubectl(daemon, namespaces, request):
    """That of the version asked for, in a namespace of its own."""
    kubectl = Kubectl(request.param, daemon)
    namespaces(kubectl.namespace)
    return kubectl


@pytest.fixture
def name(request):
    """Of the objects of one test, whichever version runs it: each has its namespace."""
    subject = request.node.callspec.params.get("subject", "")
    return f"{request.node.originalname.removeprefix('test_')}-{subject}".strip("-").replace("_", "-")
