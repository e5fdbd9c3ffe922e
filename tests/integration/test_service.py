"""virtsetd as its unit runs it: installed, as the user virtset, told about by sd_notify."""

import os
import shutil
import socket

import pytest

import host
from client import address_of
from host import demo_set, http_get


@pytest.fixture(scope="module")
def installed():
    """The root of an installation, as a package would make it."""
    root = host.DIR / "root"
    host.run("cmake", "--install", host.BUILD, "--prefix", "/usr",
             env={**os.environ, "DESTDIR": str(root)})
    return root


def test_installs_what_a_service_needs(installed):
    for path in ("usr/sbin/virtsetd", "usr/lib/systemd/system/virtsetd.service",
                 "usr/lib/sysusers.d/virtset.conf", "usr/lib/tmpfiles.d/virtset.conf"):
        assert (installed / path).is_file(), path


def test_unit_is_valid(installed):
    # Verified where it says its program is, in this mount namespace only.
    unit = installed / "usr/lib/systemd/system/virtsetd.service"
    program = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    text = unit.read_text().replace(program.split("=", 1)[1].split()[0],
                                    str(installed / "usr/sbin/virtsetd"))
    copy = host.DIR / "virtsetd.service"
    copy.write_text(text)
    answer = host.run("bash", "-c", 'systemd-analyze verify --man=no --recursive-errors=no "$0" 2>&1',
                      copy, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
    assert answer == ""


def test_sysusers_and_tmpfiles_are_valid(installed):
    root = host.DIR / "root-files"
    for folder in ("etc", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d", "var/lib/virtset"):
        (root / folder).mkdir(parents=True)
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text("")
    for kind in ("sysusers", "tmpfiles"):
        shutil.copy(installed / f"usr/lib/{kind}.d/virtset.conf", root / f"usr/lib/{kind}.d")
    host.run("systemd-sysusers", f"--root={root}")
    assert "virtset:" in (root / "etc/passwd").read_text()
    groups = {line.split(":")[0]: line for line in (root / "etc/group").read_text().splitlines()}
    assert groups["libvirt"].endswith("virtset")
    host.run("systemd-tmpfiles", f"--root={root}", "--create")
    assert os.readlink(root / "etc/virtset/kubeconfig") == "/var/lib/virtset/kubeconfig"


def test_runs_without_root_and_notifies(libvirt, installed, virtset_user):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(host.DIR / "notify"))
    os.chmod(host.DIR / "notify", 0o777)
    notify.settimeout(30)
    daemon = host.Daemon("service", "--socket-group", "virtset", "--network-name", "service0",
                         "--network-cidr", "10.115.12.0/24",
                         binary=installed / "usr/sbin/virtsetd")
    daemon.become_virtset()
    daemon.start(env={"NOTIFY_SOCKET": str(host.DIR / "notify")})
    try:
        assert b"READY=1" in notify.recv(4096)
        status = (host.pathlib.Path(f"/proc/{daemon.pid}/status")).read_text()
        assert "Uid:\t6543" in status and "CapEff:\t0000000000000000" in status
        daemon.import_demo()
        api = daemon.api
        api.create("vmirs", demo_set("plain", 2))
        api.wait_ready("plain", 2)
        for instance in api.replicas("plain"):
            assert http_get(address_of(instance)) == instance["metadata"]["name"]
        # Also its own eye on QEMU needs no privilege.
        domain, pid = sorted(host.qemu_processes("default_plain").items())[0]
        os.kill(pid, 9)
        api.wait("vmi", lambda objects: domain.removeprefix("default_") not in objects)
        api.wait_ready("plain", 2)
        api.delete("vmirs", "plain")
        api.wait("vmi", lambda objects: not objects)
        assert list((daemon.directory / "data" / "vms").iterdir()) == []
        daemon.stop()
        assert b"STOPPING=1" in notify.recv(4096)
    finally:
        if daemon.process.alive():
            daemon.kill()
        host.virsh("net-destroy", "service0", check=False)
