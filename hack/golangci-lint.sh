#!/bin/sh
# Runs golangci-lint of the version below, built once and kept in the user's cache folder.
set -eu
version=v2.15.0
dir=${XDG_CACHE_HOME:-$HOME/.cache}/lvm-csi/golangci-lint-$version-$(go env GOVERSION)
if [ ! -x "$dir/golangci-lint" ]; then
	echo "Building golangci-lint $version, once (about 4 minutes on 2 cores)" >&2
	mkdir -p "$dir"
	tmp=$(mktemp -d "$dir/build.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	GOFLAGS= GOBIN=$tmp CGO_ENABLED=0 GOGC=400 go install -gcflags=all=-dwarf=false -ldflags="-s -w" "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
	mv "$tmp/golangci-lint" "$dir/golangci-lint"
	rm -rf "$tmp"
	trap - EXIT
fi
exec "$dir/golangci-lint" "$@"
