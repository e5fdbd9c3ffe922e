#!/bin/bash
# Installs what is missing, builds, and runs the tests:
#   sudo ./tests/run.sh [--asan | --tsan] [PART...] [-- ARGUMENTS]
# Parts: format, unit, integration; all of them if none is named. ARGUMENTS go to the last part:
#   sudo ./tests/run.sh unit -- -R Slots                 what ctest takes
#   sudo ./tests/run.sh integration -- -k kubectl -x     what pytest takes
# By itself, as it takes long:
#   sudo ./tests/run.sh tidy                             clang-tidy over all of it
#   sudo ./tests/run.sh faults -- --faults 200 --seed 1  random faults on real guests
#   sudo ./tests/run.sh fuzz -- --runs 10000000 body     inputs for one fuzzer, or for each
set -euo pipefail
export LC_ALL=C

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source systemd/host.sh

preset=release
parts=()
arguments=()
while (($#)); do
	case $1 in
	--asan) preset=asan ;;
	--tsan) preset=tsan ;;
	format | unit | integration | tidy | faults | fuzz) parts+=("$1") ;;
	--)
		shift
		arguments=("$@")
		break
		;;
	*)
		sed -n '2,/^set/s/^# \?//p' "${BASH_SOURCE[0]}"
		exit 2
		;;
	esac
	shift
done
((${#parts[@]})) || parts=(format unit integration)
((EUID == 0)) || {
	echo "run.sh: run it as root: sudo ./tests/run.sh" >&2
	exit 1
}
build=$PWD/build/$preset
demo=$PWD/build/demo

# Any report ends the process with an error, which the tests look at.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/lsan:print_suppressions=0
export TSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/tsan:history_size=4

# A sanitizer makes this test 30 times as slow.
[[ $preset == release ]] || export VIRTSET_CHAOS_RUNS=40

say() { printf '\n== %s\n' "$*"; }

build() {
	say "building ($preset)"
	cmake --preset "$preset" -DVIRTSET_TESTS=ON
	cmake --build --preset "$preset" "$@"
}

sources() { git ls-files '*.h' '*.cpp' 2>/dev/null || find api daemon hypervisor images store tests -name '*.h' -o -name '*.cpp'; }

in_sandbox() {
	say "building the demo guest"
	images/demo/build.sh "$demo"
	VIRTSET_BUILD=$build VIRTSET_DEMO=$demo tests/sandbox.sh "$@"
}

format() {
	say "format"
	sources | xargs clang-format --dry-run -Werror "${arguments[@]}"
}

unit() {
	say "unit tests"
	ctest --test-dir "$build" -j "$(nproc)" --output-on-failure "${arguments[@]}"
}

integration() {
	say "other people's clients"
	install_clients build/clients
	say "integration tests"
	in_sandbox /usr/bin/python3 -m pytest -p no:cacheprovider -q --durations=10 \
		tests/integration "${arguments[@]}"
}

faults() {
	say "random faults"
	in_sandbox /usr/bin/python3 -m pytest -p no:cacheprovider -q -s \
		tests/integration/test_faults.py "${arguments[@]}"
}

fuzz() {
	say "fuzzers"
	install_packages fuzz
	# Apart from the preset of the other parts: it takes clang.
	cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz
	/usr/bin/python3 tests/fuzz/fuzz.py "${arguments[@]}"
}

tidy() {
	say "clang-tidy"
	# Configured apart: it cannot read the headers that g++ has precompiled.
	cmake --preset "$preset" -B build/tidy -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
	sources | grep '\.cpp$' |
		xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/tidy "${arguments[@]}"
}

say "packages"
install_packages build run demo test lint
[[ ${parts[*]} =~ ^(format|tidy|fuzz)$ ]] || build
mend_kvm
last=${parts[-1]}
last_arguments=("${arguments[@]}")
for part in "${parts[@]}"; do
	arguments=()
	[[ $part != "$last" ]] || arguments=("${last_arguments[@]}")
	"$part"
done
say "all passed: ${parts[*]} ($preset)"
