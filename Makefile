# lvm-csi. `make` alone explains itself.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/lvm-csi
export CGO_ENABLED ?= 1

.PHONY: help
help: ## explain the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS=$$'\t' read -r t d; do printf '  make %-14s %s\n' "$$t" "$$d"; done

.PHONY: build
build: ## build bin/lvm-csi
	@CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/lvm-csi ./cmd/lvm-csi

.PHONY: demo
demo: cluster ## on a Kubernetes on this machine: pods, capacity, growth, a power cut
	@test/demo/demo.sh

.PHONY: demo-csi
demo-csi: tools vm-binaries ## without Kubernetes: one volume's life in CSI calls on real LVM in a VM, with a power cut
	@go run ./test/vm/cmd -disks 1x4G -file bin/lvm-csi -- bin/demo-csi

.PHONY: test
test: unit vm contract ## everything: unit tests, csi-sanity on the fake, and the suites on real LVM in a VM

.PHONY: unit
unit: tools ## unit tests with -race and csi-sanity on a fake LVM: no root, no LVM, no VM
	@go test -race ./...

.PHONY: vm
vm: tools vm-binaries ## the suites on real LVM, in a VM of VM_SUITE (bookworm; bullseye, trixie)
	@go run ./test/vm/cmd -timeout 60m -idle 5m -disks 1x24G -memory 3G $(addprefix -file ,$(VM_FILES)) -- test/vm/suite.sh $(foreach suite,$(RUN),'$(suite)')

.PHONY: contract
contract: tools vm-binaries ## the LVM contract suite on the other LVM generations: bullseye and trixie
	@for suite in bullseye trixie; do go run ./test/vm/cmd -timeout 40m -idle 5m -suite $$suite -disks 1x24G $(addprefix -file ,$(VM_FILES)) -- test/vm/suite.sh lvmtest || exit; done

.PHONY: sanity
sanity: ## csi-sanity on a volume group of this machine: make sanity VG=name, as root
	@test -n "$(VG)" || { echo "name the volume group: make sanity VG=name (it needs 1 GiB free; what the test makes there it removes)"; exit 2; }
	@go test -count=1 ./test/sanity -v -vg $(VG)

.PHONY: bench
bench: tools vm-binaries ## time each call beside the very same lvm, mkfs and mount commands run by hand
	@go run ./test/vm/cmd -disks 1x24G -file bin/lvm-csi -- bin/bench

.PHONY: cluster
cluster: tools cluster-binaries ## bring up a Kubernetes with the driver on this machine, or the driver on it up to date
	@VERSION=$(VERSION) bin/cluster up

.PHONY: cluster-down
cluster-down: ## end that cluster
	@CGO_ENABLED=0 go build -o bin/cluster ./test/cluster/cmd && bin/cluster down

.PHONY: e2e
e2e: cluster ## what pods see, on that cluster: RUN=TestLife for some of it
	@go test -tags e2e -count=1 -timeout 90m -parallel 3 -v $(if $(RUN),-run '$(RUN)') ./test/e2e

.PHONY: bench-e2e
bench-e2e: cluster ## what a volume adds to a pod's start on that cluster, and what it takes
	@go test -tags e2e,bench -count=1 -timeout 60m -v -run TestStartTimes ./test/e2e

VM_FILES := bin/lvm-csi bin/lvmtest.test bin/mountertest.test bin/node.test bin/sanity.test

.PHONY: vm-binaries
vm-binaries: build
	@echo "Building the programs for the VM"
	@CGO_ENABLED=0 go test -c -tags vm -o bin/ ./pkg/lvm/lvmtest ./pkg/mounter/mountertest ./test/node ./test/sanity
	@CGO_ENABLED=0 go build -o bin/ ./test/demo-csi ./test/bench

.PHONY: cluster-binaries
cluster-binaries:
	@CGO_ENABLED=0 go build -o bin/cluster ./test/cluster/cmd
	@CGO_ENABLED=0 go build -ldflags "-s -w" -o bin/ ./test/cluster/agent ./test/cluster/pause

.PHONY: lint
lint: ## gofmt, vet and the linters of .golangci.yml; helm lint; whether the manifest is the chart's
	@hack/golangci-lint.sh run
	@hack/manifests.sh check

.PHONY: manifests
manifests: ## render deploy/lvm-csi.yaml from the chart
	@hack/manifests.sh render

.PHONY: tools
tools: ## install what this machine lacks for the tests and the VM (Debian, Ubuntu; says what)
	@hack/install-tools.sh

.PHONY: clean
clean: ## remove bin; the cached VM images stay in the user's cache folder
	@rm -rf bin
