#!/usr/bin/env bash
# Installs what packages.txt lists and the machine lacks. Silent if nothing is
# missing; needs root (or sudo) only then.
set -euo pipefail
cd "$(dirname "$0")"

mapfile -t wanted < <(grep -v '^#' packages.txt)
missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}"
