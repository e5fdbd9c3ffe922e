# Makes a Debian 12 host ready, with or without systemd. To be sourced by quickstart.sh and tests/run.sh.
#
#   install_packages GROUP...   those of debian-packages that are not there yet; "demo" is what the
#                               demo guest is built with
#   install_clients DIR         other people's clients for the tests, where packages cannot be installed
#   mend_kvm                    gives /dev/kvm the group that udev gives it
#   ensure_libvirt DIR          returns when qemu:///system answers; what it has to start itself is
#                               noted in DIR
#   stop_libvirt DIR            ends what ensure_libvirt started; fails if domains run on it
#   stop_process PIDFILE NAME   ends one process, if it still is one of that name, and waits for it

host_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

wanted_packages() {
	local group
	for group in "$@"; do
		case $group in
		demo) "$host_dir/../images/demo/build.sh" --print-packages ;;
		*) sed -n "s/^$group: //p" "$host_dir/debian-packages" | tr ' ' '\n' ;;
		esac
	done
	[[ " $* " == *" test "* ]] || return 0
	# Debian's refuse to install beside another vendor's.
	command -v kubectl >/dev/null || echo kubernetes-client
	command -v npm >/dev/null || printf '%s\n' nodejs npm
}

install_packages() {
	local package missing=()
	for package in $(wanted_packages "$@"); do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
			missing+=("$package")
	done
	# The demo guest asks apt for versions even when nothing has to be installed.
	if ((${#missing[@]})) || ! apt-cache show busybox-static >/dev/null 2>&1; then apt-get update; fi
	((${#missing[@]} == 0)) ||
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

install_clients() {
	mkdir -p "$1"
	unpack_debian_kubectl "$1/kubectl-debian" &&
		install_node_client "$1/client-node" "$host_dir/../tests/integration/client_node"
}

# Beside another vendor's, where only the tests find it.
unpack_debian_kubectl() {
	local into=$1 work
	[[ $(dpkg-query -W -f '${db:Status-Status}' kubernetes-client 2>/dev/null) != installed ]] || return 0
	[[ ! -x $into/usr/bin/kubectl ]] || return 0
	work=$(mktemp -d)
	# apt's own user must be able to write there.
	chown _apt "$work" 2>/dev/null || true
	(cd "$work" && apt-get download -q kubernetes-client) && dpkg-deb -x "$work"/*.deb "$work/root" && {
		rm -rf "$into"
		mv "$work/root" "$into"
	} || {
		echo "cannot download Debian's kubernetes-client: the tests run every kubectl there is" >&2
		rm -rf "$work"
		return 1
	}
	rm -rf "$work"
}

# What package-lock.json of the tests pins, and nothing else.
install_node_client() {
	local into=$1 from=$2
	# npm writes this file last.
	[[ ! -e $into/node_modules/.package-lock.json ]] ||
		! cmp -s "$from/package-lock.json" "$into/package-lock.json" || return 0
	rm -rf "$into"
	mkdir -p "$into"
	cp "$from/package.json" "$from/package-lock.json" "$into"
	npm ci --prefix "$into" --ignore-scripts --no-audit --no-fund --loglevel=error || {
		echo "cannot install @kubernetes/client-node from $(npm config get registry 2>/dev/null):" \
			"the tests of it need a registry of npm packages once" >&2
		rm -rf "$into"
		return 1
	}
}

has_systemd() { [[ -d /run/systemd/system ]]; }

mend_kvm() {
	[[ -c /dev/kvm && ! -e /run/udev/control && $(stat -c %G /dev/kvm) == root ]] || return 0
	# libvirt would probe QEMU's capabilities anew at every start: 10 s each.
	chgrp kvm /dev/kvm && chmod 0660 /dev/kvm
}

libvirt_answers() { timeout 30 virsh -q -c qemu:///system version >/dev/null 2>&1; }

# A subreaper, because QEMU is nobody's child and PID 1 may reap late; see libvirt's virCommand.
start_reaped() {
	local pidfile=$1
	shift
	setsid tini -s -- "$@" </dev/null >>"${pidfile%.pid}.log" 2>&1 &
	echo $! >"$pidfile"
}

ensure_libvirt() {
	local dir=$1 end=$((SECONDS + 90))
	mend_kvm
	libvirt_answers && return
	if has_systemd; then
		systemctl start libvirtd.service
	else
		mkdir -p "$dir"
		# Without it each start of a domain hangs for a minute and fails.
		pgrep -x virtlogd >/dev/null || start_reaped "$dir/virtlogd.pid" virtlogd
		ulimit -n 8192
		start_reaped "$dir/libvirtd.pid" libvirtd
	fi
	until libvirt_answers; do
		((SECONDS < end)) || {
			echo "libvirt does not answer at qemu:///system; see $dir/libvirtd.log" >&2
			return 1
		}
		sleep 0.2
	done
}

stop_process() {
	local pidfile=$1 name=$2 pid end=$((SECONDS + 30))
	[[ -e $pidfile ]] || return 0
	pid=$(<"$pidfile")
	if grep -qsF -e "$name" "/proc/$pid/cmdline"; then
		kill "$pid" 2>/dev/null || true
		# A zombie has ended.
		while grep -qs '^State:.[^Z]' "/proc/$pid/status"; do
			((SECONDS < end)) || {
				echo "process $pid ($name) does not end" >&2
				return 1
			}
			sleep 0.05
		done
	fi
	rm -f "$pidfile"
}

stop_libvirt() {
	local dir=$1
	if [[ -e $dir/libvirtd.pid ]] && [[ -n $(timeout 30 virsh -c qemu:///system list --name | tr -d '\n') ]]; then
		echo "libvirtd was started here but runs other domains now: it is left running" >&2
		return 1
	fi
	stop_process "$dir/libvirtd.pid" libvirtd && stop_process "$dir/virtlogd.pid" virtlogd
}
