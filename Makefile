# The commands of this project: demo, picture, test, check, bench, fuzz. Each prints what it needs if something is missing.

CARGO ?= cargo
SHELL := /bin/bash
# Tests wait most of their time. Many pin their workers to the first CPUs, so more threads do not help larger machines.
TEST_THREADS ?= $(shell threads=$$((2 * $$(nproc))); echo $$((threads < 8 ? threads : 8)))

.PHONY: demo picture test check format bench fuzz need-cargo

demo: need-cargo
	@$(CARGO) run --release --bin corelane -- lab scale udp --html corelane-report.html

picture: need-cargo
	@$(CARGO) build --release --bin corelane
	@./docs/pictures/make.sh

test: need-cargo
	@./tests/prepare.sh
	@RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --no-fail-fast --quiet -- --show-output

check: need-cargo
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --quiet --package corelane-tests --test house

format: need-cargo
	$(CARGO) fmt --all

bench: need-cargo
	@./bench/run.sh

fuzz: need-cargo
	@./tests/fuzz.sh $(or $(MINUTES),1)

need-cargo:
	@command -v $(CARGO) >/dev/null || { \
	  echo "cargo was not found. corelane is built with Rust 1.89 or newer: install it from rustup.rs"; \
	  echo "(Debian 13 packages 1.85, which is too old; Debian has rustup: apt install rustup), and run make again."; \
	  exit 1; }
