# `make help` lists the targets. Every target works from a clean clone and does its own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help build test check format vet lint cross generated host vm-core vm-test mac mutate bench bench-peers package demo fuzz generate setup clean

GO      ?= go
VERSION := $(shell scripts/version)
LDFLAGS := -s -w -X github.com/toolguard/toolguard/internal/version.build=$(VERSION)
TOOLS   := bin/tools/.built

# A static binary that runs on any Linux of its architecture, and that is the same for the same commit.
export CGO_ENABLED = 0
BUILD := $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)'

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

build: ## build bin/toolguard, on Linux bin/toolguardd and bin/toolguard-ship, and on macOS bin/toolguard-egress
	$(BUILD) -o bin/toolguard ./cmd/toolguard
	[ "$$($(GO) env GOOS)" != darwin ] || $(BUILD) -o bin/ ./cmd/toolguard-egress
	[ "$$($(GO) env GOOS)" != linux ] || $(BUILD) -o bin/ ./cmd/toolguardd ./cmd/toolguard-ship

test: ## set up this machine, then run everything that must pass before a change is merged: make check, then siem race demo vm-core
	scripts/test all

check: ## run the quick tier: all checks, and all tests that this machine's own kernel can run, without set-up
	scripts/test check

format: $(TOOLS) ## show and reject formatting that differs from gofumpt's
	@diff=$$(bin/tools/gofumpt -d $$(git ls-files -co --exclude-standard '*.go' | xargs grep -L '^// Code generated') || true); \
	if [ -n "$$diff" ]; then printf '%s\n' "$$diff"; echo 'format: run bin/tools/gofumpt -w on these' >&2; exit 1; fi

vet: ## run go vet, on this machine's platform
	$(GO) vet ./...
	cd test/siem && $(GO) vet ./...

lint: $(TOOLS) ## run staticcheck and errorlint; the house rules are Go tests in test/
	bin/tools/staticcheck ./...
	cd test/siem && ../../bin/tools/staticcheck ./...
	bin/tools/go-errorlint -test=false -errorf-multi ./...

cross: $(TOOLS) ## build and vet for every other supported platform, and run staticcheck for every other system
	scripts/cross

generated: build ## check that the generated files are up to date
	scripts/generate --check

generate: build ## update the generated files
	scripts/generate

host: $(TOOLS) ## run all tests and fuzz seeds on this machine's kernel
	bin/tools/gotestsum --format pkgname -- -timeout=20m ./...

vm-core: $(TOOLS) ## run the part of vm-test that make test includes: KERNELS (6.12 6.1 newest)
	scripts/test vm-core $(KERNELS)

vm-test: $(TOOLS) ## run all tests whose outcome depends on the kernel, in virtual machines with Debian's kernels: KERNELS (6.12 6.1 newest)
	scripts/test vm-test $(KERNELS)

mac: ## on a Mac: build, run all tests that run there, the attacks and the everyday commands, and write a report
	scripts/mac

mutate: ## run mutation tests of the packages that decide: PACKAGES
	$(GO) run ./scripts/mutate $(PACKAGES)

bench: build ## measure toolguard's costs, compared with its peers and in a virtual machine; writes docs/BENCHMARKS.md
	scripts/setup bench vm
	$(GO) run ./scripts/bench >docs/BENCHMARKS.md.new
	mv docs/BENCHMARKS.md.new docs/BENCHMARKS.md

bench-peers: build ## compare the backends with bubblewrap, firejail, srt and landrun at everyday work; writes docs/BENCHMARKS-PEERS.md
	scripts/setup bench
	$(GO) run ./scripts/bench -peers >docs/BENCHMARKS-PEERS.md.new
	mv docs/BENCHMARKS-PEERS.md.new docs/BENCHMARKS-PEERS.md

package: ## build bin/toolguard_VERSION_ARCH.deb, for Debian and its derivatives
	scripts/package

demo: build ## run a real program that does real work under a policy, and is denied the rest
	scripts/setup demo
	scripts/demo

fuzz: ## run every fuzz target for FUZZTIME (20s)
	scripts/fuzz $(or $(FUZZTIME),20s)

setup: ## install the packages that tests need (root), or name the missing ones
	scripts/setup test bench demo vm

clean: ## remove build results
	rm -rf bin

# Pinned in a separate module, so that the product's go.mod has only the product's dependencies.
$(TOOLS): scripts/tools/go.mod scripts/tools/go.sum
	@mkdir -p bin/tools
	cd scripts/tools && $(GO) build -o ../../bin/tools/ tool
	@touch $@
