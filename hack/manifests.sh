#!/bin/sh
# Renders deploy/lvm-csi.yaml from the chart: "render" writes it; "check" says whether it is stale, lints the chart, and
# holds what it makes of each file of values in deploy/chart/ci to the tests of deploy.
set -eu
cd "$(dirname "$0")/.."

render() {
	cat <<-'END'
		# Rendered from deploy/chart by `make manifests`; change it there.
		apiVersion: v1
		kind: Namespace
		metadata:
		  name: lvm-csi
		  labels:
		    pod-security.kubernetes.io/enforce: privileged # the node's pod uses its devices and namespaces
	END
	hack/helm.sh template lvm-csi deploy/chart --namespace lvm-csi
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
render >"$tmp/lvm-csi.yaml"
case ${1:-} in
render) cp "$tmp/lvm-csi.yaml" deploy/lvm-csi.yaml ;;
check)
	cmp -s "$tmp/lvm-csi.yaml" deploy/lvm-csi.yaml || { echo "deploy/lvm-csi.yaml is stale; run: make manifests" >&2; exit 1; }
	hack/helm.sh lint --quiet --strict deploy/chart
	# A name that is too long for a socket's path is refused here, and not by the driver on each node.
	for length in 39 40; do
		hack/helm.sh template some deploy/chart --set kubeletDir=/var/snap/microk8s/common/var/lib/kubelet \
			--set-string "driverName=$(printf "%0${length}d" 0)" >/dev/null 2>"$tmp/refusal" && refused=no || refused=yes
		case $length,$refused in
		39,no | 40,yes) ;;
		*) { echo "with a driverName of $length characters, refused: $refused" && cat "$tmp/refusal" && exit 1; } >&2 ;;
		esac
	done
	for values in deploy/chart/ci/*-values.yaml; do
		hack/helm.sh lint --quiet --strict deploy/chart --values "$values"
		hack/helm.sh template some deploy/chart --namespace elsewhere --values "$values" >"$tmp/rendered.yaml"
		go test ./deploy -manifest "$tmp/rendered.yaml" >"$tmp/test" 2>&1 || { echo "$values:" && cat "$tmp/test" && exit 1; } >&2
	done
	;;
*)
	echo "usage: hack/manifests.sh render|check" >&2
	exit 2
	;;
esac
