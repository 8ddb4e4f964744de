#!/bin/bash
# Usage: bench/h200/check.sh FOLDER [DEVICE]
# On a machine with a GPU: the logits of every prompt that prepare.sh left in
# FOLDER, by decode, verify and prefill in chunks of 3, 64 and 512, must have
# the hash that the host's have. Random walks (test/numerics) that go through
# sessions on the GPU and one on the host must find the bits of decoding on the
# host after every move. Then compute-sanitizer, if it is there, over short
# prompts. DEVICE (default cuda) is ds4run's --device.
# PARTS="hashes walks sanitizer" in the environment chooses. The last line is
# "N passed, M failed".
set -uo pipefail
[ $# -ge 1 ] || { sed -n 2,11p "$0" >&2; exit 2; }
cd "$1" || exit 2
device=${2:-cuda}
parts=${PARTS:-hashes walks sanitizer}
export XDG_CACHE_HOME=$PWD/cache
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
passed=0 failed=0
verdict() { # NAME OK
  if [ "$2" = yes ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $1"
  fi
}
run() { # MODEL IDS OPTION...
  ./ds4run "sm_90/$1.ds4b" -m "ds4-tiny-$1.gguf" --ids="$2.ids" --logits-hash \
    --device="$device" "${@:3}"
}

./ds4run devices
if [[ $parts == *hashes* ]]; then
  for model in strix mix mix-int8 f16; do
    begin=$SECONDS
    run $model ok > /dev/null
    echo "$model: first run $((SECONDS - begin)) s"
  done
  while read -r model prompt hash; do
    for chunk in 1 3 4 64 512; do
      got=$(run "$model" "$prompt" --prefill-chunk=$chunk 2> error.txt)
      [ "$got" = "$hash" ] && same=yes || same=no
      verdict "$model $prompt chunk $chunk: ${got:-$(tail -1 error.txt)}" $same
    done
  done < hashes.txt
  echo "$model: last run: $(tail -1 error.txt)"
fi
if [[ $parts == *walks* ]]; then
  begin=$SECONDS
  ./numerics_walks walks ds4-tiny-strix.gguf "$device" "${SEEDS:-8}" |
    tee walks.txt
  while read -r line; do
    [[ $line == *" seed "*": the same bits" ]] && same=yes || same=no
    verdict "walk $line" $same
  done < <(sed '$d' walks.txt)
  grep -q ' passed, 0 failed$' walks.txt || verdict "walks" no
  echo "walks: $((SECONDS - begin)) s"
fi
sanitizer=$(command -v compute-sanitizer) ||
  echo "no compute-sanitizer here: memory and races are not checked"
if [ -n "$sanitizer" ] && [[ $parts == *sanitizer* ]]; then
  for tool in memcheck racecheck initcheck; do
    for model in strix mix mix-int8 f16; do
      "$sanitizer" --tool $tool --error-exitcode 9 \
        ./ds4run sm_90/$model.ds4b -m ds4-tiny-$model.gguf --ids=count.ids \
        --logits-hash --device="$device" > sanitizer.txt 2>&1 &&
        clean=yes || clean=no
      [ $clean = yes ] || head -40 sanitizer.txt
      verdict "$tool of $model: $(tail -1 sanitizer.txt)" $clean
    done
  done
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
