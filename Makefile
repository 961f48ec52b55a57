# gresnet: `make` builds into bin/, `make demo` shows it, `make test` proves it.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# cli's generator of documentation is no part of the programs.
GOFLAGS := -trimpath -tags urfave_cli_no_docs
BIN := bin
LDFLAGS := -s -w -X gresnet/lib/admin/cli.version=$(VERSION)

.PHONY: all build arm64 spank packages release packages-test packages-test-vm demo model test test-vm test-rest test-long test-matrix scripts ci fuzz bench bench-short bench-native bench-network bench-parts bench-load bench-jobs bench-trace bench-build scale lint clean

all: build spank

build:
	packaging/need go
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/gresnet ./prolog/gresnet
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/gresnet-prolog ./prolog
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/gresnet-epilog ./epilog

# The programs for arm64, into bin/arm64: those of test/vm/vm run --arch arm64, which builds the plugin itself.
# ARM64_TESTS=FOLDER/: the VM's tests, too.
arm64:
	$(MAKE) build GOARCH=arm64 BIN=bin/arm64
	$(if $(ARM64_TESTS),mkdir -p $(ARM64_TESTS) && CGO_ENABLED=0 GOARCH=arm64 go test -c -o $(ARM64_TESTS) ./test/guest/...)

# The plugin and the PAM module. SLURM=/prefix: for a Slurm that is not the system's.
spank:
	packaging/need gcc pam slurm
	$(MAKE) -C spank OUT=../bin/spank_gresnet.so

# Newer ones of nfpm need modules that not every proxy has.
NFPM_VERSION := v2.45.0
NFPM := $(CURDIR)/.cache/nfpm-$(NFPM_VERSION)/nfpm

$(NFPM):
	packaging/need go
	GOBIN=$(dir $@) GOFLAGS= go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)

# .deb and .rpm into dist/; the plugin's for the Slurm of this machine, or SLURM=/prefix.
packages:
	packaging/need go gcc pam slurm strip rpmbuild
	$(MAKE) $(NFPM)
	packaging/build $(NFPM) dist

# The tag, and all that a release has, into dist/VERSION: make release VERSION=1.0.0
release:
	packaging/need go gcc pam slurm strip rpmbuild
	$(MAKE) $(NFPM)
	packaging/release $(NFPM) $(VERSION)

packages-test: $(NFPM)
	packaging/test $(NFPM)

# A node's life with the packages, in the VM.
packages-test-vm: $(NFPM)
	packaging/test-vm $(NFPM)

demo:
	test/demo

# Ten minutes: quick units, network namespaces of this kernel, the plugin's harness, and a
# smoke set in the VM. LIMIT=50m: when it ends at the latest. ENOUGH=40m: when no VM begins any more.
RUN = go run ./test/run $(if $(LIMIT),-limit $(LIMIT)) $(if $(ENOUGH),-enough $(ENOUGH))

test:
	$(RUN) test

# All short tests in the VM, in both RDMA netns modes where that matters. SHARD=fault: those of test/guest/fault.
test-vm:
	$(RUN) test-vm $(SHARD)

# What CI runs.
ci:
	.ci/run

# What CI runs after `make test`.
test-rest:
	$(RUN) rest

test-long:
	$(RUN) test-long

# What depends on Slurm's version, with those of Debian 12, 13 and unstable.
test-matrix:
	$(RUN) test-matrix

# Job scripts as users write them, without gresnet and with it: half an hour.
# SCRIPTS="07-openmpi-pmix 19-http": these alone.
scripts:
	test/scripts/run $(SCRIPTS)

# The models of the protocol, and each invariant's mutation: minutes, one processor. See test/model/README.md.
model:
	test/need spin gcc libc6-dev
	cd test/model && go run .

# FUZZTIME=1m: how long each of the fuzz targets runs.
FUZZTIME ?= 5s
fuzz:
	test/fuzz $(FUZZTIME)

# What gresnet is measured against, built as it is built, and what measures it.
bench-build:
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o bin/floor ./test/floor
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o bin/bench ./test/bench

# Into dist/bench: 15 minutes, 3, and 7 on this machine's own kernel.
bench:
	test/bench/run full

bench-short:
	test/bench/run short

bench-native: build bench-build
	test/bench/run-native

# What the network of a job costs: in the VM, and on this machine's own kernel.
bench-network: build bench-build
	test/bench/run-network

# What a part of an HCA costs against the whole: in the VM, and on this machine's own kernel.
bench-parts: build bench-build
	test/bench/run-parts

# What a job takes on nodes that have much of what is none of it.
bench-load:
	test/bench/run load

# How many jobs a minute Slurm runs.
bench-jobs: build spank
	test/bench/run-jobs

# On which kinds of requests to the kernel the floor and gresnet spend their time.
bench-trace: build bench-build
	test/bench/run-trace

# What gresnet takes on large clusters and on large nodes, into dist/scale: see docs/scale.md.
scale: build
	CGO_ENABLED=0 go build -o bin/scale ./test/scale
	test/scale/run

# gofmt, vet, staticcheck, scan-build, shellcheck.
lint:
	test/lint

clean:
	rm -rf bin dist .cache
