#!/usr/bin/env bash
# From a fresh Debian 12 machine to answers: installs packages, builds ds4c and
# ds4run, compiles the small model of this repository and asks it two things.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-packages.sh
cmake --preset release -DDS4_BUILD_TESTS=OFF >build-configure.log 2>&1 ||
  { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset release --target ds4c ds4run

bin=build/release/bin
model=models/ds4-tiny/ds4-tiny-demo.gguf
bundle=build/ds4-tiny.ds4b
"$bin/ds4c" "$model" --profile=host-demo -o "$bundle"
for question in "Reply with exactly OK." "Count from 7 to 19."; do
  printf '\n> %s\n' "$question"
  "$bin/ds4run" "$bundle" -m "$model" -p "$question" --temperature=0
done
