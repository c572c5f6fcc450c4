#!/bin/sh
# Installs what a fresh Debian or Ubuntu machine lacks to build and test this
# project, and says what. Prints nothing when nothing is missing. Needs root or
# sudo only when something is.
set -eu

packages='
qemu-system-x86
mmdebstrap
uidmap
debian-archive-keyring
e2fsprogs
buildah
gcc
libc6-dev
'
# For test/vm: QEMU runs the guests. mmdebstrap makes their images, without root
# if there is uidmap, from packages signed by Debian's keys, which Ubuntu does
# not have installed. e2fsprogs makes the file system. For test/cluster: buildah
# builds the driver's image. gcc and libc6-dev are for go test -race, which
# needs cgo.

missing=
for package in $packages; do
	status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
	[ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null; then
		echo "not root and no sudo: run as root: apt-get install$missing" >&2
		exit 1
	fi
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# The lists of a fresh machine are empty or old.
$sudo apt-get update -qq
# Errors go to stderr; the rest is pages of progress.
# shellcheck disable=SC2086 # words
$sudo apt-get install -qq --yes --no-install-recommends $missing >/dev/null
