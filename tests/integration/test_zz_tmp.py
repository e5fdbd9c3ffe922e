import signal, time, subprocess, sys
sys.path.insert(0,'/work/main/tests/integration')
import host
from host import *
def test_loop(libvirt, api, daemon):
    for i in range(14):
        d=demo_set(replicas=4)
        d["spec"]["template"]["spec"].pop("readinessProbe")
        api.create("vmirs", d)
        eventually(lambda: qemu_processes("default_web"), what="the first QEMU")
        time.sleep(i*0.04)
        libvirt.stop(signal.SIGKILL)
        libvirt.start()
        try:
            api.wait_ready("web", 4, timeout=30)
            eventually(lambda: len(qemu_processes("default_web")) == 4, 10)
            assert len(virsh("list", "--name").split()) == 4
        except BaseException:
            print(i, virsh("list","--all"), qemu_processes("default_web"))
            print(subprocess.run("ls -la /run/libvirt/qemu; ps aux | grep -E 'guest=|libvirtd' | cut -c1-180; ps -eLo pid,ppid,stat,wchan:30,comm | grep -i qemu", shell=True, capture_output=True, text=True).stdout)
            print(api.table("vmi"), api.table("vmirs"))
            raise
        api.delete("vmirs", "web")
        api.wait("vmi", lambda objects: not objects)
