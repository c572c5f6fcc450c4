// Package cluster runs a real Kubernetes on this machine, with real LVM on each node: kube-apiserver, etcd, scheduler and
// controller-manager as processes, and nodes with kubelet and containerd in virtual machines (package vm). Everything is built
// from Go modules once and cached; nothing comes from an image registry. Nodes reach the API server through QEMU's
// user-mode network, so neither root nor a network of the host's is needed, and all of it stays on loopback.
//
// One process keeps a cluster up (Serve); others find it by its folder (Connect). It knows nothing of CSI.
package cluster
