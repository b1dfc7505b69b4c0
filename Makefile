# Magos. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Everything that is built once lies in a cache outside the checkout.
export MAGOS_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/magos
# Static binaries, and the same build cache entries for every target.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

MODULES  := api gen internal services/refwatcher services/rollout services/runner services/workspace deploy/local test
PACKAGES := $(patsubst %,./%/...,$(filter-out gen,$(MODULES)))

# Developer tools, pinned in tools/, one folder of binaries per set of pins.
TOOLS := $(MAGOS_CACHE)/tools-$(shell cat tools/go.mod tools/buf/go.mod tools/lint/go.mod tools/helm/go.mod | sha256sum | cut -c1-12)
BUF  := $(TOOLS)/buf
LINT := $(TOOLS)/golangci-lint
HELM := $(TOOLS)/helm
GRPCURL := $(TOOLS)/grpcurl
CONTROLLER_GEN := $(TOOLS)/controller-gen
PROTOC_GEN_GO := $(TOOLS)/protoc-gen-go
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc

define build_tool
	@mkdir -p $(TOOLS)
	@echo "building $(notdir $@)"
	@cd $(1) && GOWORK=off go build -ldflags "-s -w" -o $@ $(2)
endef

$(BUF): ; $(call build_tool,tools/buf,github.com/bufbuild/buf/cmd/buf)
$(LINT): ; $(call build_tool,tools/lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(HELM): ; $(call build_tool,tools/helm,helm.sh/helm/v4/cmd/helm)
$(GRPCURL): ; $(call build_tool,tools,github.com/fullstorydev/grpcurl/cmd/grpcurl)
$(CONTROLLER_GEN): ; $(call build_tool,tools,sigs.k8s.io/controller-tools/cmd/controller-gen)
$(PROTOC_GEN_GO): ; $(call build_tool,tools,google.golang.org/protobuf/cmd/protoc-gen-go)
$(PROTOC_GEN_GO_GRPC): ; $(call build_tool,tools,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## compile every module
	go build $(PACKAGES) ./gen/...

.PHONY: unit
unit: ## the fast loop: no network, no root, no cluster
	go test -short -count=1 $(PACKAGES)

.PHONY: test
test: ## everything: unit, API server, containers, end to end (as root on Linux; brings what it needs)
	@test/run

.PHONY: test-long
test-long: ## the long end-to-end stories, about an hour (as root on Linux); RUN=<regexp> picks some
	@test/run-long

.PHONY: generate
generate: $(BUF) $(CONTROLLER_GEN) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## remake every generated file
	PATH=$(TOOLS):$$PATH $(BUF) generate
	cd api && $(CONTROLLER_GEN) object crd paths=./v1alpha1/... output:crd:dir=crds
	deploy/chart/hack/generate

.PHONY: verify
verify: $(BUF) $(LINT) $(CONTROLLER_GEN) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## generated files fresh, modules tidy, formatted, linted
	@TOOLS=$(TOOLS) MODULES="$(MODULES)" tools/verify

.PHONY: fmt
fmt: ## format the code and the protos
	gofmt -w $(MODULES)
	$(BUF) format -w

.PHONY: tidy
tidy: ## go mod tidy in every module
	@for m in $(MODULES); do echo "tidy $$m"; (cd $$m && go mod tidy); done

.PHONY: up
up: ## a running Magos with a demo on a one-node Kubernetes (as root on Linux)
	@[ "$$(uname -s)" = Linux ] || { echo "make up runs pods and needs Linux; use a virtual machine with Debian" >&2; exit 1; }
	@[ "$$(id -u)" = 0 ] || { echo "make up needs root, for namespaces, mounts and network links; run it with sudo" >&2; exit 1; }
	@echo "compiling the command behind make up; the first time this takes some minutes"
	@go run ./deploy/local/cmd/magos-local up

.PHONY: down
down: ## remove what make up made
	@go run ./deploy/local/cmd/magos-local down

.PHONY: demo-push
demo-push: ## commit to the demo repository and watch it roll out
	@go run ./deploy/local/cmd/magos-local demo-push

.PHONY: clean-cache
clean-cache: ## remove from the cache what nobody has used for a day
	@go run ./deploy/local/cmd/magos-local clean-cache

.PHONY: bench
bench: ## every speed and size figure; the last line is one JSON object; ONLY="pods workspaces rollouts watching" picks some
	@go run ./test/cmd/bench $(ONLY)
