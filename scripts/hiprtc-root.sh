#!/usr/bin/env bash
# AMD's kernel compiler on a machine without ROCm or a GPU: unpacks hipRTC and
# comgr as Debian forky has them, with the C library they need, into a folder.
# The system stays as it is: a private apt state, no root rights, signatures
# checked with Debian's keyring. Half a minute, 80 MB down, 260 MB on disk; at
# once if the folder is there.
#
#   scripts/hiprtc-root.sh [FOLDER]    default: $XDG_CACHE_HOME/ds4c/hiprtc
#   FOLDER/run build/dev/bin/ds4run compile BUNDLE --for=gfx1151
#
# FOLDER/run starts a program of this machine with the folder's loader and
# libraries. DEBIAN_MIRROR: where packages come from; else as the machine's own
# apt sources say.
set -euo pipefail

suite=forky
packages=(libhiprtc6 libamd-comgr3) # hipRTC opens comgr without depending on it
root=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/ds4c/hiprtc}
usage() {
  echo "hipRTC is in $root; start a program with it by"
  echo "  $root/run build/dev/bin/ds4run compile BUNDLE --for=gfx1151"
}
if [ -x "$root/run" ]; then
  usage
  exit 0
fi

if [ -z "${DEBIAN_MIRROR:-}" ]; then
  DEBIAN_MIRROR=$(apt-get indextargets --format '$(REPO_URI)' \
    'Created-By: Packages' 2>/dev/null | grep -m 1 -E '/debian/?$' || true)
  DEBIAN_MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
fi

mkdir -p "$(dirname "$root")"
root=$(realpath -m "$root")
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{state/lists/partial,archives/partial,root}
: >"$work/status"
# Keys of forky are in the keyring of any Debian that is supported today.
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "$DEBIAN_MIRROR $suite main" >"$work/sources.list"
# The machine's apt.conf still counts: it may name a proxy.
private_apt() {
  apt-get -q -o APT::Architecture=amd64 -o APT::Architectures::=amd64 \
    -o APT::Sandbox::User=root -o APT::Install-Recommends=false \
    -o Acquire::Languages=none -o Acquire::Retries=1 \
    -o Acquire::http::Timeout=20 \
    -o Dir::State="$work/state" -o Dir::State::status="$work/status" \
    -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" \
    -o Dir::Etc::sourcelist="$work/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null "$@"
}
echo "Fetching ${packages[*]} of Debian $suite from $DEBIAN_MIRROR"
private_apt update >"$work/log" 2>&1 &&
  private_apt install -y --download-only "${packages[@]}" >>"$work/log" 2>&1 || {
  cat "$work/log" >&2
  echo "hiprtc-root.sh: Debian's packages cannot be fetched (log above): is the" \
    "network there? Another mirror: DEBIAN_MIRROR=URL" >&2
  exit 1
}
for package in "$work"/archives/*.deb; do
  dpkg-deb -x "$package" "$work/root"
  basename "$package" >>"$work/root/packages.txt"
done

cat >"$work/root/run" <<'END'
#!/bin/sh
# Starts the program $1 with this folder's loader and libraries first.
here=$(dirname "$(realpath "$0")")/usr/lib/x86_64-linux-gnu
program=$(command -v "$1") || {
  echo "$0: there is no program '$1'" >&2
  exit 127
}
shift
unset ROCM_PATH LD_LIBRARY_PATH
# Else comgr keeps what it compiled where nobody looks for it.
export AMD_COMGR_CACHE=0
exec "$here/ld-linux-x86-64.so.2" \
  --library-path "$here:/usr/lib/x86_64-linux-gnu" "$program" "$@"
END
chmod +x "$work/root/run"
# Only what is complete gets the name; of two at once the first stays.
mv -T "$work/root" "$root" 2>/dev/null || [ -x "$root/run" ] || {
  echo "hiprtc-root.sh: $root is there and holds something else; name another" \
    "folder" >&2
  exit 1
}
usage
