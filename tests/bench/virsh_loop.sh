#!/bin/bash
# What one would write instead of virtsetd: virsh_loop.sh FILE.xml...
# keeps these domains running, which are named as their files. Says when it creates one.
while true; do
	running=$(virsh -q -c qemu:///system list --name)
	created=
	for file in "$@"; do
		name=$(basename "$file" .xml)
		grep -qx "$name" <<<"$running" && continue
		echo "create $EPOCHREALTIME $name"
		virsh -q -c qemu:///system create "$file" >/dev/null
		created=1
	done
	[[ $created ]] || echo "all run"
	sleep 1
done
