#!/bin/sh
# Runs helm of the version below, built once and kept in the user's cache folder.
set -eu
version=v4.3.2
dir=${XDG_CACHE_HOME:-$HOME/.cache}/lvm-csi/helm-$version-$(go env GOVERSION)
if [ ! -x "$dir/helm" ]; then
	echo "Building helm $version, once (about 3 minutes on 2 cores)" >&2
	mkdir -p "$dir"
	tmp=$(mktemp -d "$dir/build.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	GOFLAGS= GOBIN=$tmp CGO_ENABLED=0 GOGC=400 go install -gcflags=all=-dwarf=false -ldflags="-s -w" "helm.sh/helm/v4/cmd/helm@$version"
	mv "$tmp/helm" "$dir/helm"
	rm -rf "$tmp"
	trap - EXIT
fi
exec "$dir/helm" "$@"
