#!/bin/bash
# The story of the driver on a cluster, as its users see it. Prints each command and what it answers. make demo
set -eu -o pipefail
up=${XDG_CACHE_HOME:-$HOME/.cache}/lvm-csi/cluster/up
export KUBECONFIG=$up/kubeconfig PATH=$up:$PWD/bin:$PATH
space=demo
image=$(kubectl -n lvm-csi get ds lvm-csi -o 'jsonpath={.spec.template.spec.containers[0].image}') # it has a shell

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() {
	printf '$ %s\n' "$*"
	"$@" | sed 's/^/  /'
}
# Waits as long as two minutes until a command succeeds.
until_ok() {
	for _ in $(seq 240); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.5
	done
	"$@"
}
running() { until_ok sh -c "kubectl -n $space get pod $1 -o 'jsonpath={.status.conditions[?(@.type==\"Ready\")].status}' | grep -q True"; }
capacity() {
	run kubectl -n lvm-csi get csistoragecapacities -o 'custom-columns=CLASS:.storageClassName,NODE:.nodeTopology.matchLabels.topology\.lvm-csi\.io/node,CAPACITY:.capacity,LARGEST:.maximumVolumeSize'
}
lvs() { for node in node-1 node-2; do run cluster on $node lvs --units m -o lv_name,lv_size,lv_tags vg0; done; }
cleanup() {
	kubectl delete ns $space --ignore-not-found --wait >/dev/null
	kubectl delete sc demo --ignore-not-found >/dev/null
}
trap cleanup EXIT
cleanup
kubectl create ns $space >/dev/null

say "Each node publishes what its volume groups hold, for each StorageClass"
kubectl apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: demo}
provisioner: lvm-csi.io
parameters: {volumeGroup: vg0, csi.storage.k8s.io/fstype: ext4}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
YAML
until_ok sh -c "kubectl -n lvm-csi get csistoragecapacities -o name | grep -c . | grep -q '[2-9]'"
empty=$(kubectl -n lvm-csi get csistoragecapacities -o 'jsonpath={.items[*].capacity}')
capacity

say "A StatefulSet: its pods land where the space is. Three volumes of 5 GiB: two fit on node-1 (12 GiB), one on node-2 (8 GiB)"
kubectl -n $space apply -f - >/dev/null <<YAML
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: db
        image: $image
        command: [bash, -c, "trap 'exit 0' TERM; sleep infinity & wait"]
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      storageClassName: demo
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 5Gi}}
YAML
for i in 0 1 2; do running db-$i; done
run kubectl -n $space get pods -o 'custom-columns=POD:.metadata.name,NODE:.spec.nodeName'
lvs
until_ok sh -c '[ "$(kubectl -n lvm-csi get csistoragecapacities -o "jsonpath={.items[*].capacity}")" != "$0" ]' "$empty"
capacity

say "A generic ephemeral volume comes and goes with its pod"
kubectl -n $space apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: batch}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: batch
    image: $image
    command: [bash, -c, "trap 'exit 0' TERM; sleep infinity & wait"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        spec:
          storageClassName: demo
          accessModes: [ReadWriteOnce]
          resources: {requests: {storage: 1Gi}}
YAML
running batch
run kubectl -n $space exec batch -- df -h /scratch
run kubectl -n $space get pvc
run kubectl -n $space delete pod batch
until_ok sh -c "! kubectl -n $space get pvc batch-scratch"
until_ok sh -c "! kubectl get pv -o 'jsonpath={.items[*].spec.claimRef.name}' | grep -q batch-scratch"
run kubectl -n $space get pvc

say "A volume grows while it is written"
kubectl -n $space exec db-2 -- bash -c '(while [ ! -e /tmp/stop ]; do date +%s.%N >>/data/log; sync /data/log; sleep 0.1; done) >/dev/null 2>&1 &'
run kubectl -n $space exec db-2 -- df -h /data
run kubectl -n $space patch pvc data-db-2 -p '{"spec":{"resources":{"requests":{"storage":"6Gi"}}}}'
until_ok sh -c "kubectl -n $space get pvc data-db-2 -o 'jsonpath={.status.capacity.storage}' | grep -q 6Gi"
run kubectl -n $space exec db-2 -- df -h /data
run kubectl -n $space exec db-2 -- bash -c 'touch /tmp/stop; awk "NR>1 && \$1-last>most {most=\$1-last} {last=\$1} END {print NR, \"lines written; longest pause\", most, \"s\"}" /data/log'

say "A node loses its power, and comes back with the data"
node=$(kubectl -n $space get pod db-2 -o 'jsonpath={.spec.nodeName}')
kubectl -n $space exec db-2 -- bash -c 'echo "written before the power cut" >/data/file; sync'
boot=$(cluster on "$node" cat /proc/sys/kernel/random/boot_id)
run cluster power-cut "$node"
run cluster power-on "$node"
until_ok sh -c "cluster on $node test -e /run/node-up"
until_ok sh -c "kubectl -n $space exec db-2 -- cat /data/file | grep -q before"
[ "$boot" != "$(cluster on "$node" cat /proc/sys/kernel/random/boot_id)" ]
run kubectl -n $space exec db-2 -- cat /data/file

say "Deleted: nothing is left, and the space is there again"
kubectl delete ns $space --wait >/dev/null
until_ok sh -c "! kubectl get pv -o 'jsonpath={.items[*].spec.csi.driver}' | grep -q lvm-csi"
lvs
until_ok sh -c '[ "$(kubectl -n lvm-csi get csistoragecapacities -o "jsonpath={.items[*].capacity}" | tr " " "\n" | sort)" = "$0" ]' "$(echo "$empty" | tr ' ' '\n' | sort)"
capacity
