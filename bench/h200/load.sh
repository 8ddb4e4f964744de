#!/bin/bash
# Usage: bench/h200/load.sh --prepare OUT [BUILD]
#        bench/h200/load.sh FOLDER [DEVICE]
# How fast a file of 98 GB of weights is loaded. The first, where the tools were
# built (BUILD, default build/dev), collects in OUT the tools and a bundle of the
# file that ds4synth makes from the shape v4-flash-mix. The second, as root on a
# machine with a GPU (and 105 GB of memory), makes the file in a tmpfs, so that
# no disk is measured, loads it twice, and decodes some tokens.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,9p "$0" >&2; exit 2; }
shape=v4-flash-mix seed=1
if [ "$1" = --prepare ]; then
  source=$(cd "$(dirname "$0")/../.." && pwd)
  mkdir -p "$2/lib"
  out=$(realpath "$2") bin=$(realpath "${3:-$source/build/dev}")/bin
  cp "$bin/ds4run" "$bin/ds4synth" "$out/"
  strip "$out/ds4run" "$out/ds4synth"
  ldd "$bin/ds4run" | awk '/=> \// {print $3}' |
    grep -v '/libc\.\|/libm\.\|/ld-linux' | xargs cp -Lt "$out/lib"
  # The header decides which bundle fits; the data are not needed.
  "$bin/ds4synth" --shape=$shape --seed=$seed --sparse -o "$out/sparse.gguf"
  "$bin/ds4c" "$out/sparse.gguf" --profile=strix --target=sm_90 --context=4096 \
    --prefill-chunk=512 --books=int8 -o "$out/mix.ds4b"
  rm "$out/sparse.gguf"
  XDG_CACHE_HOME=$out/cache "$bin/ds4run" compile "$out/mix.ds4b" --for=sm_90
  exit
fi
cd "$1"
device=${2:-cuda}
export XDG_CACHE_HOME=$PWD/cache
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mkdir -p ram
mount -t tmpfs -o size=105g tmpfs ram
trap 'umount ram' EXIT
begin=$(date +%s.%N)
./ds4synth --shape=$shape --seed=$seed -o ram/mix.gguf
end=$(date +%s.%N)
bytes=$(stat -c %s ram/mix.gguf)
echo "ds4synth: $bytes bytes, $(awk "BEGIN {s = $end - $begin
  printf \"%.1f s, %.2f GB/s\", s, $bytes / s / 1e9}")"
for run in first second; do
  echo "$run load:"
  ./ds4run bench mix.ds4b -m ram/mix.gguf --device="$device" --prefill=512 \
    --depths=0 --tokens=32
done
