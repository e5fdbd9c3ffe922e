#!/bin/bash
# Measures the budgets of the design, each beside what one would do without virtset, in the same run:
#   run.sh [--strict] [NAME...]      --print-names says which there are
# As root on Debian 12; what it needs is installed, what it measures is built. Without --strict a missed
# budget is printed and is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ " $* " == *" --print-names "* ]]; then exec /usr/bin/python3 tests/bench/bench.py --print-names; fi
# shellcheck source=systemd/host.sh
source systemd/host.sh
install_packages build run demo test
mend_kvm
cmake --preset release -DVIRTSET_TESTS=OFF
cmake --build --preset release --target virtsetd http_floor
images/demo/build.sh build/demo
exec tests/sandbox.sh env VIRTSET_BUILD="$PWD/build/release" VIRTSET_DEMO="$PWD/build/demo" \
	/usr/bin/python3 tests/bench/bench.py "$@"
