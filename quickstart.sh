#!/bin/bash
# From a bare Debian 12 to three virtual machines that answer HTTP:
#   sudo ./quickstart.sh         installs, builds, starts virtsetd, boots a set of three
#   sudo ./quickstart.sh stop    ends and removes everything the above started
# All it keeps is in .quickstart/ and build/. Packages stay, and so does the group of /dev/kvm.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/systemd/host.sh"
state=$here/.quickstart
socket=$state/virtset.sock
daemon=$here/build/release/daemon/virtsetd
demo=$here/build/demo
network=virtset-quick
bridge=vsquick0
# QEMU's user must reach the disks, and may not be let through to the checkout.
elsewhere=/var/lib/virtset-quickstart-$(printf %s "$here" | sha256sum | cut -c 1-8)
default_namespace=http://localhost/apis/kubevirt.io/v1/namespaces/default

# A log, or whoever reads one, needs neither bold print nor a line every three seconds.
bold='' plain='' progress=30
[[ ! -t 1 ]] || bold=$'\033[1m' plain=$'\033[0m' progress=3

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

fail() {
	printf '\nquickstart.sh: %s\n' "$*" >&2
	exit 1
}

# Runs a command with its output in a log; prints the log's last line every few seconds.
step() {
	local title=$1 log=$state/$2.log begun=$SECONDS next=$((SECONDS + progress)) pid
	shift 2
	say "$title"
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		if ((SECONDS >= next)); then
			next=$((SECONDS + progress))
			printf '  %3d s  %s\n' $((SECONDS - begun)) "$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
		fi
		sleep 0.2
	done
	wait "$pid" || {
		tail -n 30 "$log" >&2
		fail "that failed; all of its output is in $log"
	}
	echo "  done in $((SECONDS - begun)) s"
}

build_daemon() {
	cd "$here"
	cmake --preset release -DVIRTSET_TESTS=OFF
	cmake --build --preset release --target virtsetd
}

api() { curl -sS --max-time 10 --unix-socket "$socket" "$@"; }

daemon_runs() {
	[[ -e $state/virtsetd.pid ]] && [[ $(readlink "/proc/$(<"$state/virtsetd.pid")/exe") == "$daemon"* ]]
}

# It is still the file it was started from: a daemon that was built anew replaces the running one.
daemon_is_current() { [[ $(readlink "/proc/$(<"$state/virtsetd.pid")/exe") == "$daemon" ]]; }

qemu_user_can_reach() {
	local user=libvirt-qemu
	getent passwd "$user" >/dev/null || user=nobody
	setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups test -x "$1"
}

data_directory() {
	if qemu_user_can_reach "$state"; then
		echo "$state/data"
	else
		mkdir -p -m 0711 "$elsewhere"
		echo "$elsewhere/data"
	fi
}

free_port() {
	local port
	for port in {7443..7463}; do
		(: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

start_daemon() {
	local data end=$((SECONDS + 30))
	say "virtsetd"
	if daemon_runs && ! daemon_is_current; then
		echo "  it was built anew: restarting it; VMs run on"
		stop_process "$state/virtsetd.pid" "$daemon"
	fi
	if daemon_runs; then
		echo "  is running, process $(<"$state/virtsetd.pid")"
		return
	fi
	[[ -e $state/port ]] || free_port >"$state/port"
	data=$(data_directory)
	setsid "$daemon" --state-dir "$state" --run-dir "$state" --config-dir "$state" \
		--data-dir "$data" --listen "127.0.0.1:$(<"$state/port")" \
		--network-name "$network" --network-bridge "$bridge" --network-cidr 10.115.4.0/24 \
		</dev/null >>"$state/virtsetd.log" 2>&1 &
	echo $! >"$state/virtsetd.pid"
	until api -o /dev/null http://localhost/readyz 2>/dev/null; do
		if ! daemon_runs || ((SECONDS >= end)); then
			tail -n 5 "$state/virtsetd.log" >&2
			fail "virtsetd did not start; see $state/virtsetd.log"
		fi
		sleep 0.1
	done
	echo "  started, process $(<"$state/virtsetd.pid")"
}

images_taken_in() { grep -c 'I image localhost/virtset-demo:1 is present' "$state/virtsetd.log" || true; }

import_image() {
	# The daemon takes in what appears here under its final name.
	local folder=$1
	cmp -s "$demo/demo.stamp" "$state/demo.stamp" && return
	local known end=$((SECONDS + 60))
	known=$(images_taken_in)
	cp "$demo/demo.oci.tar" "$folder/.demo.oci.tar"
	mv "$folder/.demo.oci.tar" "$folder/demo.oci.tar"
	until (($(images_taken_in) > known)); do
		((SECONDS < end)) || fail "the image was not taken in; see $state/virtsetd.log"
		sleep 0.1
	done
	cp "$demo/demo.stamp" "$state/demo.stamp"
}

create_set() {
	local answer code
	answer=$(api -w '\n%{http_code}' -H 'Content-Type: application/yaml' -H 'Accept: text/plain' \
		--data-binary "@$here/images/demo/replicaset.yaml" \
		"$default_namespace/virtualmachineinstancereplicasets")
	code=${answer##*$'\n'}
	case $code in
	201) echo "  created from images/demo/replicaset.yaml" ;;
	409) echo "  is there already" ;;
	*) fail "the set was refused: ${answer%$'\n'*}" ;;
	esac
}

table() { api -H 'Accept: text/plain' "$default_namespace/$1"; }

# Prints "wanted ready" of the set demo. A cell without a value is empty: then none is ready.
set_counts() {
	table virtualmachineinstancereplicasets/demo |
		awk 'NR == 1 { columns = NF } NR == 2 { print $2, NF == columns ? $4 : 0 }'
}

wait_for_set() {
	local begun=$SECONDS next=$SECONDS end=$((SECONDS + 180)) wanted ready
	until read -r wanted ready < <(set_counts) && [[ -n $wanted && $wanted == "$ready" ]]; do
		((SECONDS < end)) || {
			table events | tail -n 15 >&2
			fail "the set is not ready after three minutes; its events are above"
		}
		if ((SECONDS >= next)); then
			next=$((SECONDS + 3))
			printf '  %3d s  %s of %s ready\n' $((SECONDS - begun)) "${ready:-0}" "${wanted:-?}"
		fi
		sleep 0.2
	done
	printf '  %3d s  %s of %s ready\n' $((SECONDS - begun)) "$ready" "$wanted"
}

# Each VM's page is its host name.
ask_guests() {
	local name address answer
	while read -r name address; do
		answer=$(curl -sS --max-time 5 "http://$address/") || fail "$name does not answer at $address"
		[[ $answer == "$name" ]] || fail "$address answers \"$answer\" and not \"$name\""
		echo "  http://$address/  says  $answer"
	done < <(table virtualmachineinstances |
		awk 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 && $1 ~ /^demo/ { print $1, $at["IP"] }')
}

show_next() {
	cat <<-END

		Next:
		  S="--unix-socket .quickstart/virtset.sock"; U=$default_namespace
		  curl \$S -H 'Accept: text/plain' \$U/virtualmachineinstances
		  curl \$S -X PATCH -H 'Content-Type: application/merge-patch+json' \\
		       -d '{"spec":{"replicas":5}}' \$U/virtualmachineinstancereplicasets/demo/scale
		  kill -9 \$(pgrep -of 'guest=default_demo.....,')   # and see it replaced
		With kubectl:
		  export KUBECONFIG=.quickstart/kubeconfig
		  kubectl get vmirs,vmi
		  kubectl scale vmirs demo --replicas=6
		  kubectl get events --watch
		Logs: .quickstart/virtsetd.log.  The end: sudo ./quickstart.sh stop
	END
}

run() {
	mkdir -p -m 0755 "$state"
	step "Packages" packages install_packages build run demo
	step "Build" build build_daemon
	step "libvirt" libvirt ensure_libvirt "$state/libvirt"
	step "Demo guest" demo "$here/images/demo/build.sh" "$demo"
	start_daemon
	import_image "$(data_directory)/import"
	say "A set of three"
	create_set
	wait_for_set
	ask_guests
	echo
	table virtualmachineinstancereplicasets
	echo
	table virtualmachineinstances
	show_next
}

# By the mark of this installation, or by where their disks are.
domains_of_ours() {
	local uuid xml mark
	mark=$(sed -n 's/.* installation \([0-9a-f-]\{36\}\),.*/\1/p' "$state/virtsetd.log" 2>/dev/null | tail -n 1) || true
	for uuid in $(timeout 30 virsh -q -c qemu:///system list --uuid); do
		# Not piped into grep -q: that ends virsh early, which counts as a failure.
		xml=$(virsh -q -c qemu:///system dumpxml "$uuid" 2>/dev/null) || continue
		case $xml in
		*"'$state/data/"* | *"'$elsewhere/data/"* | *":installation>${mark:-none}<"*) echo "$uuid" ;;
		esac
	done
}

# Again and again: libvirt may still be at a start that the daemon ordered.
end_domains() {
	local uuid uuids end=$((SECONDS + 60))
	while uuids=$(domains_of_ours) && [[ -n $uuids ]]; do
		((SECONDS < end)) || fail "these domains do not end, nothing was removed: ${uuids//$'\n'/ }"
		for uuid in $uuids; do
			virsh -q -c qemu:///system destroy "$uuid" >/dev/null 2>&1 || true
		done
	done
}

end_network() {
	local xml
	xml=$(virsh -q -c qemu:///system net-dumpxml "$network" 2>/dev/null) || return 0
	[[ $xml != *"bridge name='$bridge'"* ]] || virsh -q -c qemu:///system net-destroy "$network"
}

stop() {
	[[ -d $state ]] || {
		echo "nothing was started from here"
		return
	}
	# First, so that nothing is replaced.
	stop_process "$state/virtsetd.pid" "$daemon"
	if libvirt_answers; then
		end_domains
		end_network
	fi
	rm -rf "$elsewhere"
	if stop_libvirt "$state/libvirt"; then
		rm -rf "$state"
		echo "stopped and removed"
	else
		find "$state" -mindepth 1 -maxdepth 1 ! -name libvirt -exec rm -rf {} +
		echo "stopped and removed, but for libvirt: once nothing else runs on it, say this again"
	fi
}

((EUID == 0)) || fail "run it as root: sudo ./quickstart.sh"
case ${1:-} in
'') run ;;
stop) stop ;;
-h | --help) sed -n '2,5s/^# \?//p' "${BASH_SOURCE[0]}" ;;
*)
	sed -n '2,5s/^# \?//p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
