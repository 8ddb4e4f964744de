#!/bin/sh
# instructions.sh - instructions that decoding one token takes on the host
# target: a figure that other load on the machine does not change. Counts two
# runs that differ in the number of tokens and divides the difference.
#
# usage: bench/instructions.sh BIN BUNDLE MODEL.gguf
#   BIN: folder of ds4run, e.g. build/release/bin
#   TOKENS=N in the environment: tokens between the two runs (default 8)
# Uses perf where it may count, valgrind's callgrind otherwise (slow).
set -eu

if [ $# -ne 3 ]; then
  sed -n '6,8p' "$0" | cut -c3- >&2
  exit 2
fi
run=$1/ds4run bundle=$2 model=$3
tokens=${TOKENS:-8}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if perf stat -x, -e instructions:u true 2>"$scratch/probe" >/dev/null &&
  grep -q '^[0-9]' "$scratch/probe"; then
  counter=perf
elif command -v valgrind >/dev/null; then
  counter=callgrind
else
  echo "instructions.sh: neither perf (with its counters) nor valgrind works here" >&2
  exit 1
fi

# Instructions of a run over $1 tokens, each a decode step with its logits. One
# thread, so that waiting threads do not count.
count() {
  ids=$(seq -s, 5 $((4 + $1)))
  set -- "$run" "$bundle" -m "$model" --ids="$ids" --prefill-chunk=1 \
    --logits-hash --threads=1
  if [ $counter = perf ]; then
    perf stat -x, -e instructions:u -o "$scratch/count" "$@" \
      >/dev/null 2>"$scratch/log"
    awk -F, '/instructions/ {print $1}' "$scratch/count"
  else
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" \
      >/dev/null 2>"$scratch/log"
    awk '/Collected/ {print $4}' "$scratch/log"
  fi
}

few=$(count 2)
many=$(count $((2 + tokens)))
echo "$counter: $(((many - few) / tokens)) instructions a token" \
  "(mean of $tokens tokens)"
