# The commands of this project: demo, build, install, dist, picture, test, test-*, check, bench, fuzz. Each prints what it
# needs if something is missing.

CARGO ?= cargo
SHELL := /bin/bash
PREFIX ?= /usr/local
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release
# Tests wait most of their time. Many pin their workers to the first CPUs, so more threads do not help larger machines.
TEST_THREADS ?= $(shell threads=$$((2 * $$(nproc))); echo $$((threads < 8 ? threads : 8)))

.PHONY: demo build install dist picture test test-big-endian test-dist test-reproducible test-publish test-packages test-clients test-soak check format bench fuzz need-cargo

demo: need-cargo
	@$(CARGO) run --profile demo --bin corelane -- lab scale udp --html corelane-report.html

build: need-cargo
	@$(CARGO) build --release --locked --package corelane-cli --bin corelane --example manual

# Without cargo, as under sudo, installs what `make build` built.
install:
	@if command -v $(CARGO) >/dev/null || [ ! -x "$(RELEASE)/corelane" ]; then $(MAKE) --no-print-directory build; fi
	@MANUAL="$(RELEASE)/examples/manual" ./packaging/stage.sh "$(RELEASE)/corelane" "$(DESTDIR)" "$(PREFIX)"
	@echo "$(DESTDIR)$(PREFIX)/bin/corelane"

dist: need-cargo
	@CARGO=$(CARGO) ./packaging/dist.sh

picture: need-cargo
	@$(CARGO) build --release --bin corelane
	@./docs/pictures/make.sh

test: need-cargo
	@./tests/prepare.sh
	@RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --no-fail-fast --quiet -- --show-output

test-big-endian: need-cargo
	@CARGO=$(CARGO) ./tests/emulated.sh s390x

test-dist: need-cargo
	@CARGO=$(CARGO) ./tests/dist.sh

test-reproducible: need-cargo
	@CARGO=$(CARGO) ./tests/reproducible.sh

test-publish: need-cargo
	@CARGO=$(CARGO) ./tests/publish.sh

test-packages: need-cargo
	@./tests/packages/run.sh $(PROGRAM)

test-clients: need-cargo
	@$(CARGO) build --quiet --release --bin corelane
	@./tests/clients.sh "$(RELEASE)/corelane" serve memcached

test-soak: need-cargo
	@$(CARGO) build --quiet --release --bin corelane
	@./tests/memcached-soak.sh "$(RELEASE)/corelane" $(OPERATIONS)

check: need-cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --quiet --package corelane-tests --test rules

format: need-cargo
	$(CARGO) fmt --all

bench: need-cargo
	@./bench/run.sh

fuzz: need-cargo
	@./tests/fuzz.sh $(or $(MINUTES),1)

need-cargo:
	@command -v $(CARGO) >/dev/null || { \
	  echo "cargo was not found. corelane is built with Rust 1.95 or newer: install it from rustup.rs"; \
	  echo "(Debian 13 packages 1.85, which is too old; Debian has rustup: apt install rustup), and run make again."; \
	  exit 1; }
