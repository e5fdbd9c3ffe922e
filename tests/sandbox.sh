#!/bin/bash
# Runs a command on a host of its own as far as libvirt can tell:
#   sandbox.sh COMMAND...
# with its own processes, network and mounts, and libvirt's folders empty. Nothing it starts outlives it,
# nothing of this machine's libvirt is seen or touched. VIRTSET_TEST_DIR names a folder that QEMU's user
# can reach and that is gone afterwards.
set -euo pipefail

if [[ ${1:-} != --inside ]]; then
	VIRTSET_TEST_DIR=$(mktemp -d /var/tmp/virtset-test.XXXXXX)
	chmod 0711 "$VIRTSET_TEST_DIR"
	export VIRTSET_TEST_DIR
	trap 'rm -rf "$VIRTSET_TEST_DIR"' EXIT
	unshare --mount --net --pid --ipc --fork --kill-child \
		"$(command -v tini)" -s -- "${BASH_SOURCE[0]}" --inside "$@" &
	# unshare itself listens to nothing else.
	trap 'kill -KILL $!' INT TERM
	wait $!
	exit
fi
shift
mount --make-rprivate /
mount -t proc proc /proc
for folder in /run /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /etc/libvirt/qemu; do
	mkdir -p "$folder"
	mount -t tmpfs -o mode=0755 tmpfs "$folder"
done
ip link set lo up
exec "$@"
