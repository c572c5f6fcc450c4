#!/bin/bash
# The program of a node: containerd and kubelet, as an operating system would run them. What must outlive a power cut is
# on /dev/vdb: images, containers and kubelet's folder. The root file system does not.
set -eu
mkdir -p /data
mount /dev/vdb /data
export PATH=/data/bin:$PATH
hostname "$NODE"
echo "127.0.0.1 localhost $NODE" >/etc/hosts

/data/bin/agent & # first, so that whatever follows can be looked at

modprobe virtio_net
udevadm settle # it renames the card
card=$(basename /sys/class/net/e*)
ip link set "$card" up
ip addr add "10.0.$NUMBER.15/24" dev "$card"
ip route add default via "10.0.$NUMBER.2"
echo 1 >/proc/sys/net/ipv4/ip_forward
modprobe -a overlay veth loop dm-mod dm-snapshot dm-thin-pool dm-raid ext4 xfs btrfs
# What kube-proxy would do for the only service.
for chain in PREROUTING OUTPUT; do
	iptables -t nat -A $chain -d 10.96.0.1 -p tcp --dport 443 -j DNAT --to-destination "10.0.$NUMBER.2:$API_PORT"
done

# For all pods, so that no plugin has to run iptables for each.
iptables -t nat -A POSTROUTING -s 10.244.0.0/16 -j MASQUERADE

# kubelet wants to know the clock rate, which an emulated processor does not say.
grep -q 'cpu MHz' /proc/cpuinfo || {
	sed '/^model name/a cpu MHz : 2000.000' /proc/cpuinfo >/run/cpuinfo
	mount --bind /run/cpuinfo /proc/cpuinfo
}
mkdir -p "/data/kubelet" "$KUBELET_DIR"
mount --bind /data/kubelet "$KUBELET_DIR"
# What was mounted under it when the power went is not any more.
mount --make-rshared /

# VG=device,device ...
for group in ${VGS-}; do
	vg=${group%%=*} devices=${group#*=}
	vgs "$vg" >/dev/null 2>&1 || vgcreate -qq --metadatasize 4m "$vg" ${devices//,/ }
done

lvs --noheadings -o lv_active >/run/active-at-boot # for a test

mkdir -p /etc/containerd /etc/cni/net.d
cat >/etc/containerd/config.toml <<EOT
version = 3
root = "/data/containerd"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "pause:1"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
EOT
cat >/etc/cni/net.d/pods.conflist <<EOT
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$NUMBER.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOT
cat >/etc/kubelet.yaml <<EOT
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
resolvConf: ""
syncFrequency: 15s # when a mounted volume is looked at for growth; a minute by default
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi}
EOT
cat >/etc/kubelet.kubeconfig <<EOT
apiVersion: v1
kind: Config
current-context: node
clusters: [{name: node, cluster: {server: "https://10.0.$NUMBER.2:$API_PORT", certificate-authority: /job/ca.crt}}]
users: [{name: node, user: {token: "$TOKEN"}}]
contexts: [{name: node, context: {cluster: node, user: node}}]
EOT

# Starts a daemon again when it ends.
keep() {
	local log=$1
	shift
	while true; do
		"$@" >>"$log" 2>&1 || true
		sleep 1
	done
}
keep /run/containerd.log containerd --log-level warn &
until ctr version >/dev/null 2>&1; do sleep 0.2; done
keep /run/kubelet.log kubelet --config /etc/kubelet.yaml --kubeconfig /etc/kubelet.kubeconfig --root-dir "$KUBELET_DIR" \
	--hostname-override "$NODE" --node-ip "10.0.$NUMBER.15" --housekeeping-interval 1m -v 1 &
touch /run/node-up
wait
