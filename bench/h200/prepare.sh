#!/bin/bash
# Usage: bench/h200/prepare.sh OUT MODELS [BUILD]
# Collects in the folder OUT what check.sh needs on a machine with a GPU:
# ds4run with its libraries, and for each small model in MODELS
# (ds4-tiny-f16.gguf, -strix, -mix and ds4-tiny-gold.json; mix with float and
# with int8 books) a bundle for sm_90, the ids of the prompts, and the hash of
# the logits of each prompt that a bundle for the host gives here; for the walks
# of test/numerics, bundles of the strix model for both targets.
# BUILD (default build/dev) has the tools. Models are linked, not copied.
# PARTS="hashes walks" in the environment chooses.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,10p "$0" >&2; exit 2; }
parts=${PARTS:-hashes walks}
source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
out=$(realpath "$1") models=$(realpath "$2") bin=$(realpath "${3:-$source/build/dev}")/bin
mkdir -p "$out/lib" "$out/host" "$out/sm_90"
cp "$bin/ds4run" "$bin/numerics_walks" "$out/"
strip "$out/ds4run" "$out/numerics_walks"
ldd "$bin/ds4run" | awk '/=> \// {print $3}' |
  grep -v '/libc\.\|/libm\.\|/ld-linux' | xargs cp -Lt "$out/lib"

if [[ $parts == *walks* ]]; then
  file=$models/ds4-tiny-strix.gguf
  ln -sfn "$file" "$out/ds4-tiny-strix.gguf"
  for kv in fp8 f16 f32; do
    [ $kv = fp8 ] && simulate=true || simulate=false
    for target in host sm_90; do
      mkdir -p "$out/walks/$target"
      "$bin/ds4c" "$file" --profile=host-demo --target=$target --math=portable \
        --context=512 --prefill-chunk=64 --verify-width=8 --logits=all \
        --kv=$kv --simulate=$simulate -o "$out/walks/$target/$kv.ds4b"
    done
    XDG_CACHE_HOME=$out/cache "$bin/ds4run" compile \
      "$out/walks/sm_90/$kv.ds4b" --for=sm_90
  done
fi
[[ $parts == *hashes* ]] || exit 0

python3 - "$models/ds4-tiny-gold" "$out" <<'PYTHON'
import array, json, sys
gold, out = sys.argv[1:]
data = open(gold + ".bin", "rb").read()
for tensor in json.load(open(gold + ".json"))["tensors"]:
    name, _, kind = tensor["name"].partition(".")
    if kind != "ids":
        continue
    ids = array.array("i")
    begin = tensor["offset"]
    ids.frombytes(data[begin:begin + 4 * tensor["shape"][0]])
    open(f"{out}/{name}.ids", "w").write("\n".join(map(str, ids)) + "\n")
PYTHON

: > "$out/hashes.txt"
for model in strix mix mix-int8 f16; do
  file=$models/ds4-tiny-${model%-int8}.gguf
  [[ $model == *-int8 ]] && books=int8 || books=float
  ln -sfn "$file" "$out/ds4-tiny-$model.gguf"
  for target in host sm_90; do
    "$bin/ds4c" "$file" --profile=host-demo --target=$target --math=portable \
      --context=2048 --prefill-chunk=512 --verify-width=4 --books=$books \
      -o "$out/$target/$model.ds4b"
  done
  XDG_CACHE_HOME=$out/cache "$bin/ds4run" compile "$out/sm_90/$model.ds4b" \
    --for=sm_90
  for ids in "$out"/*.ids; do
    hash=$("$bin/ds4run" "$out/host/$model.ds4b" -m "$file" --ids="$ids" --logits-hash \
      2>/dev/null)
    echo "$model $(basename "$ids" .ids) $hash" | tee -a "$out/hashes.txt"
  done
done
