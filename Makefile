# gresnet: `make` builds into bin/, `make demo` shows it, `make test` proves it.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# cli's generator of documentation is no part of the programs.
GOFLAGS := -trimpath -tags urfave_cli_no_docs
LDFLAGS := -s -w -X gresnet/lib/door.version=$(VERSION)

.PHONY: all build spank demo test test-long bench lint clean

all: build spank

build:
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o bin/gresnet-prolog ./prolog
	CGO_ENABLED=0 go build $(GOFLAGS) -ldflags '$(LDFLAGS)' -o bin/gresnet-epilog ./epilog

# SLURM=/prefix builds the plugin for a Slurm that is not the system's.
spank:
	test/need gcc libc6-dev $(if $(SLURM),,libslurm-dev)
	$(MAKE) -C spank OUT=../bin/spank_gresnet.so

demo:
	test/demo

test:
	test/run

test-long:
	test/run long

bench:
	test/bench

lint:
	git ls-files '*.go' | xargs gofmt -l | (! grep .)
	go vet ./...

clean:
	rm -rf bin dist .cache
