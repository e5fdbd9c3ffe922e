#!/bin/bash
# Boots the demo guest in plain QEMU, emulated, and checks what README.md says
# about it. Prints timings; leaves nothing behind. Usage:
#   check.sh OUTPUT_DIR       the folder build.sh filled
# Needs the Debian packages curl, qemu-system-x86, skopeo, socat and xorriso.
# shellcheck disable=SC2016 # much of what is quoted here is for the guest's shell
set -euo pipefail
export LC_ALL=C

(($# == 1)) || {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}
output=$1
disk=$output/demo.img
# No wait below may last longer; an emulated guest on a busy machine is slow.
deadline_seconds=30

work=$(mktemp -d)
guest_pid=''
step="the start"
passed=0

stop_guest() {
	[[ -n $guest_pid ]] || return 0
	kill -9 "$guest_pid" 2>/dev/null || true
	forget_guest || true
}

forget_guest() {
	exec {keyboard}>&-
	wait "$guest_pid" 2>/dev/null
	guest_pid=''
}

finish() {
	local status=$?
	stop_guest
	if ((status != 0)); then
		echo "FAILED at: $step" >&2
		tail -n 25 "$work/serial.log" >&2 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap finish EXIT

now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.2f s", to - from }'; }

passes() {
	passed=$((passed + 1))
	printf 'ok %-2d %s%s\n' "$passed" "$step" "${1:+: $1}"
}

# set -e passes over a plain "! command".
fails() {
	if "$@"; then return 1; fi
}

# Runs a command again and again until it succeeds.
eventually() {
	local end=$((SECONDS + deadline_seconds))
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

make_seed() {
	local image=$1 meta_data=$2 user_data=$3
	mkdir "$work/seed"
	printf '%s' "$meta_data" >"$work/seed/meta-data"
	printf '%s' "$user_data" >"$work/seed/user-data"
	xorriso -as mkisofs -quiet -V cidata -J -r -o "$work/$image" "$work/seed" 2>/dev/null
	rm -r "$work/seed"
}

# The machine that virtset describes to libvirt, less libvirt. A guest's own
# arguments follow; its disks are named, so that each case attaches them its way.
start_guest() {
	rm -f "$work"/*.sock
	: >"$work/serial.log"
	started=$(now)
	qemu-system-x86_64 -machine q35,accel=tcg -m 128 -display none -nodefaults -no-user-config \
		-chardev "socket,id=serial,path=$work/serial.sock,server=on,wait=off,logfile=$work/serial.log" \
		-serial chardev:serial -monitor "unix:$work/monitor.sock,server=on,wait=off" \
		-drive "if=none,id=boot,file=$disk,format=raw,snapshot=on" "$@" &
	guest_pid=$!
	eventually test -S "$work/monitor.sock"
	# One connection for all input: QEMU drops what the guest's slow serial port has
	# not taken when a client leaves.
	exec {keyboard}> >(exec socat - "UNIX-CONNECT:$work/serial.sock" >/dev/null)
}

disk_on_virtio=(-device "virtio-blk-pci,disable-legacy=on,drive=boot,bootindex=1")
disk_on_sata=(-device "ide-hd,bus=ide.0,drive=boot,bootindex=1")

with_seed() {
	echo "if=none,id=seed,file=$work/$1,format=raw,snapshot=on"
}

# Port 0 lets the system choose a free one.
nic=(-netdev "user,id=net0,hostfwd=tcp:127.0.0.1:0-:80"
	-device "virtio-net-pci,disable-legacy=on,romfile=,netdev=net0")
second_nic=(-netdev "user,id=net1,net=10.0.7.0/24"
	-device "virtio-net-pci,disable-legacy=on,romfile=,netdev=net1")
agent_port=(-device "virtio-serial-pci,disable-legacy=on"
	-chardev "socket,id=agent,path=$work/agent.sock,server=on,wait=off"
	-device "virtserialport,chardev=agent,name=org.qemu.guest_agent.0")

monitor() {
	echo "$1" | socat -t 1 - "UNIX-CONNECT:$work/monitor.sock"
}

http_port() {
	monitor 'info usernet' | awk '/HOST_FORWARD/ { print $4; exit }'
}

http() {
	curl -sf -m 2 "http://127.0.0.1:$port$1"
}

# A short limit: a connection made before the guest has its address hangs.
answers_http() {
	curl -sf -m 0.1 -o "$work/body" "http://127.0.0.1:$port/"
}

wait_for_http() {
	port=$(http_port)
	eventually answers_http
}

type_line() {
	printf '%s\n' "$1" >&"$keyboard"
}

# What the console has printed since the last call of forget_console.
console_has() {
	tail -c "+$((console_seen + 1))" "$work/serial.log" | grep -aqE -- "$1"
}

forget_console() {
	console_seen=$(stat -c %s "$work/serial.log")
}

# Types a command and waits for a line of its output.
console_answers() {
	forget_console
	type_line "$1"
	eventually console_has "$2"
}

# A request to the guest agent; prints its answer.
agent() {
	local answer
	answer=$({
		echo "$1"
		sleep 1
	} | socat - "UNIX-CONNECT:$work/agent.sock" 2>/dev/null | head -n 1)
	echo "$answer"
	[[ $answer == *'"return"'* ]]
}

agent_answers() {
	agent "$1" >"$work/answer"
}

guest_is_gone() {
	fails kill -0 "$guest_pid" 2>/dev/null
}

wait_for_end() {
	eventually guest_is_gone
	forget_guest
}

step="the archive is one layer with only disk/demo.img, of 107:107, mode 0440"
skopeo copy -q "oci-archive:$output/demo.oci.tar" "dir:$work/archive"
layer=$(skopeo inspect "dir:$work/archive" | sed -n 's/.*"sha256:\([0-9a-f]*\)"$/\1/p' | tail -n 1)
listing=$(tar -tzv --numeric-owner -f "$work/archive/$layer" | awk '{ print $1, $2, $6 }')
[[ $listing == $'drwxr-xr-x 107/107 disk/\n-r--r----- 107/107 disk/demo.img' ]]
tar -xzOf "$work/archive/$layer" disk/demo.img | cmp -s - "$disk"
rm -r "$work/archive"
passes

echo "# disk, seed and NIC on virtio; JSON meta-data, #cloud-config"
make_seed seed.iso '{"instance-id":"check/vm-a-1","local-hostname":"vm-a"}' '#cloud-config
users: []
runcmd:
  - echo "runcmd $((6 * 7))"
  - [echo, "not a plain string"]
final_message: done
'
step="HTTP answers 200"
start_guest "${disk_on_virtio[@]}" "${nic[@]}" "${agent_port[@]}" \
	-object "filter-dump,id=dump,netdev=net0,file=$work/net0.pcap" \
	-drive "$(with_seed seed.iso)" -device virtio-blk-pci,disable-legacy=on,drive=seed
wait_for_http
passes "$(since "$started") after QEMU started"

step="/boot: the server began to listen"
boot=$(http /boot)
awk -v boot="$boot" 'BEGIN { exit !(boot > 0.1 && boot < 20) }'
passes "$boot s of guest uptime"

step="/ is the host name of meta-data"
cmp -s "$work/body" <(echo vm-a)
passes

step="/instance is the instance-id"
[[ $(http /instance) == check/vm-a-1 ]]
passes

step="/uptime counts"
uptime=$(http /uptime)
sleep 0.1
awk -v a="$uptime" -v b="$(http /uptime)" -v boot="$boot" 'BEGIN { exit !(a > boot && b > a) }'
passes "$uptime s"

step="another path is 404"
[[ $(curl -s -m 2 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/etc/passwd") == 404 ]]
passes

step="DHCP carries the host name"
grep -aqP '\x0c\x04vm-a' "$work/net0.pcap"
passes

step="the console has a root shell"
console_seen=0
eventually console_has 'root@vm-a:~# '
console_answers "echo \$((6 * 7)) is the answer" '^42 is the answer'
passes

step="runcmd ran, its output is on the console"
console_seen=0
eventually console_has '^runcmd 42'
fails console_has 'not a plain string'
passes

step="the console's shell comes back after exit"
console_answers exit 'root login on'
eventually console_has 'root@vm-a:~# '
passes

step="200 requests, 50 at a time, all answered, no process left over"
begun=$(now)
seq 200 | xargs -P 50 -I{} curl -sf -m 10 "http://127.0.0.1:$port/" >"$work/answers"
[[ $(sort "$work/answers" | uniq -c | xargs) == "200 vm-a" ]]
elapsed=$(since "$begun")
console_answers 'echo servers:$(pidof http | wc -w) zombies:$(grep -l "State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l).' \
	'servers:1 zombies:0\.'
passes "$elapsed"

step="the guest agent answers guest-ping"
eventually agent_answers '{"execute":"guest-ping"}'
passes

step="guest-exec runs a program"
agent_answers '{"execute":"guest-exec","arguments":{"path":"/bin/hostname","capture-output":true}}'
pid=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$work/answer")
agent_answers "{\"execute\":\"guest-exec-status\",\"arguments\":{\"pid\":$pid}}"
grep -q "$(echo vm-a | base64)" "$work/answer"
passes

step="a killed guest agent comes back"
console_answers 'kill -9 $(pidof qemu-ga) && echo killed' '^killed'
eventually agent_answers '{"execute":"guest-ping"}'
passes

step="memory"
console_answers 'free -k | awk "/^Mem/ { print \"memory: total\", \$2, \"used\", \$3, \"available\", \$7, \"KiB\" }"' \
	'^memory: .*KiB'
passes "$(grep -a '^memory: ' "$work/serial.log" | tail -n 1 | tr -d '\r')"

step="reboot is a real one, and the guest comes back"
uptime=$(http /uptime)
type_line reboot
came_back() {
	local again
	again=$(curl -sf -m 0.2 "http://127.0.0.1:$port/uptime") &&
		awk -v a="$again" -v b="$uptime" 'BEGIN { exit !(a < b) }'
}
eventually came_back
[[ $(http /) == vm-a ]]
passes

step="the power button ends the guest"
eventually agent_answers '{"execute":"guest-ping"}'
begun=$(now)
monitor system_powerdown >/dev/null
wait_for_end
passes "$(since "$begun")"

echo "# disk and seed (a CD-ROM) on SATA, two NICs; YAML meta-data, a script as user-data"
make_seed seed-script.iso $'instance-id: check/vm-b\nlocal-hostname: vm-b\n' '#!/bin/bash
echo "script on $(hostname)"
'
step="HTTP answers 200"
start_guest "${disk_on_sata[@]}" "${nic[@]}" "${second_nic[@]}" "${agent_port[@]}" \
	-drive "$(with_seed seed-script.iso)" -device ide-cd,bus=ide.1,drive=seed
wait_for_http
passes "$(since "$started") after QEMU started, $(http /boot) s of guest uptime"

step="/ and /instance are those of the seed"
[[ $(http /) == vm-b && $(http /instance) == check/vm-b ]]
passes

step="the script ran, its output is on the console"
console_seen=0
eventually console_has '^script on vm-b'
passes

step="both NICs have an address"
console_seen=0
eventually console_has 'eth0: 10\.0\.2\.15/24'
eventually console_has 'eth1: 10\.0\.7\.15/24'
passes

step="the SATA disk is there in the guest"
console_answers 'echo sda:$(dd if=/dev/sda bs=512 count=1 2>/dev/null | grep -c SYSLINUX)' 'sda:1'
passes

step="guest-shutdown ends the guest"
begun=$(now)
# It has no answer: the guest is gone first.
echo '{"execute":"guest-shutdown"}' | socat -u - "UNIX-CONNECT:$work/agent.sock"
wait_for_end
passes "$(since "$begun")"

echo "# disk on virtio, seed on a SATA disk; broken meta-data, #cloud-config with a password"
make_seed seed-password.iso $'\x01{{[no: "yaml' '#cloud-config
hostname: vm-c
password: "it'\''s secret"
'
step="HTTP answers 200, / is the host name of user-data"
start_guest "${disk_on_virtio[@]}" "${nic[@]}" \
	-drive "$(with_seed seed-password.iso)" -device ide-hd,bus=ide.0,drive=seed
wait_for_http
[[ $(http /) == vm-c ]]
passes "$(since "$started") after QEMU started"

step="root needs the password"
console_seen=0
eventually console_has 'vm-c login: '
console_answers root 'Password: '
type_line wrong
eventually console_has 'Login incorrect'
eventually console_has 'vm-c login: '
console_answers root 'Password: '
type_line "it's secret"
eventually console_has 'root@vm-c:~# '
passes

step="a panic stays a panic"
console_answers 'echo c >/proc/sysrq-trigger' 'Kernel panic - not syncing: sysrq'
sleep 1
kill -0 "$guest_pid"
fails answers_http
fails console_has 'Rebooting in'
passes
stop_guest

echo "# nothing but the disk: no NIC, no seed, no agent"
step="the console has a shell"
start_guest "${disk_on_virtio[@]}"
console_seen=0
eventually console_has 'root@virtset-demo:~# '
passes "$(since "$started") after QEMU started"

step="poweroff ends the guest"
begun=$(now)
type_line poweroff
wait_for_end
passes "$(since "$begun")"

echo "all $passed checks passed"
