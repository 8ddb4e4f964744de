#!/usr/bin/env bash
# Every test, from a fresh Debian 12 machine: format, the unit and lit suites in
# the dev and asan builds, and a build of the runtime alone. The last line is
# "N passed, M failed".
#
#   scripts/check.sh          what CI runs
#   scripts/check.sh --fast   format and the dev suite
#   scripts/check.sh --long   also clang-tidy, fuzzers for 60 s each, and the
#                             numerics contract with more seeds
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
case "$mode" in '' | --fast | --long) ;; *)
  echo "usage: scripts/check.sh [--fast|--long]" >&2
  exit 2
  ;;
esac

scripts/install-packages.sh
exec python3 scripts/run_checks.py $mode
