# The commands of this project, each the same on a laptop and in CI. `make help` lists them.

# A cargo that rustup has installed is found although no profile was read, and after any other that is on the PATH. So is
# a go where its makers say that it belongs.
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin:/usr/local/go/bin

# Every run uses the versions that Cargo.lock names; after a change of Cargo.toml, `cargo check` brings it up to date.
LOCKED := --locked
# What the checks of `make test` run, in the form that `cargo test` has built: with other features everything is built again.
BUILD := cargo build --workspace --bins --tests --examples $(LOCKED)
SIM := cargo run --release $(LOCKED) --package windlass-sim --

# How many node lives `make test` simulates: well below a minute. `make sim` is the long run.
TEST_SEEDS := 3000
SIM_SEEDS := 100000

# What `make install` and `make deb` take, unless BINARY names one that is built already; and where the first puts it.
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE = $(or $(BINARY),$(TARGET)/release/windlass)
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
# The steps of `make test` print one after the other, and cargo uses all processors by itself.
.NOTPARALLEL:

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: setup-demo ## Show volumes of pods come, change and go, on real mounts that nobody else sees
	@cargo build $(LOCKED) --package windlass-cli
	@scripts/demo.sh $(TARGET)/debug/windlass

.PHONY: demo-csi
demo-csi: setup-demo ## Show volumes of a CSI driver come and go, without a cluster, as root
	@cargo build $(LOCKED) --package windlass-cli --package windlass-loop
	@examples/csi/run.sh $(TARGET)/debug/windlass $(TARGET)/debug/windlass-loop

.PHONY: pictures
pictures: setup-build ## Draw the pictures of the README anew from what the demo prints
	@cargo build $(LOCKED) --package windlass-cli
	@scripts/picture.py $(TARGET)/debug/windlass docs/pictures

.PHONY: test
test: setup-check format-check lint doc unit api metrics golden golden-csi containers sanity demos package simulate deny ## Run every check: format, lints, docs, tests, API, metrics, golden cases, drivers' calls, containers, CSI driver, demos, package, simulation, dependencies (SEEDS=n)
	@echo '==> all passed'

.PHONY: sim
sim: setup-build ## Simulate many node lives (SEEDS=n FROM=first DAYS=n)
	@$(SIM) run --seeds $(or $(SEEDS),$(SIM_SEEDS)) $(if $(FROM),--from $(FROM)) $(if $(DAYS),--days $(DAYS))

# How many kills `make chaos` plays; `make test` has a short form of it.
CHAOS_KILLS := 200

.PHONY: chaos
chaos: setup-build ## Kill the daemon at random moments while pods come and go (KILLS=n SEED=n)
	@WINDLASS_CHAOS_KILLS=$(or $(KILLS),$(CHAOS_KILLS)) WINDLASS_CHAOS_SEED=$(SEED) \
	    cargo test --release $(LOCKED) --quiet --package windlass-cli --test chaos

# How often `make attack` tries what depends on the moment; `make test` has a short form of it.
ATTACK_ROUNDS := 20

.PHONY: attack
attack: setup-check ## Do to a node what accidents and enemies do, as root; says of each attack HELD or BROKEN (ROUNDS=n, ONLY="word ...")
	@cargo build $(LOCKED) --package windlass-cli --package windlass-loop
	@ATTACK_ROUNDS=$(or $(ROUNDS),$(ATTACK_ROUNDS)) ATTACK_ONLY='$(ONLY)' \
	    cargo test $(LOCKED) --quiet --package windlass-cli --test attack

# How long `make fuzz` tries each target; `make test` has a short form of it.
FUZZ_SECONDS := 600

.PHONY: fuzz
fuzz: setup-fuzz ## Give everything that parses what nobody would write, with a nightly Rust (SECONDS=n, ONLY="target ...", KEEP=1)
	@KEEP='$(KEEP)' scripts/fuzz.sh $(or $(SECONDS),$(FUZZ_SECONDS)) $(ONLY)

.PHONY: golden
golden: setup-check ## Compare what is mounted with what the kubelet mounts, as root (CASES="name ...")
	@echo '==> golden'
	@tests/golden/run.sh $(CASES)

.PHONY: golden-csi
golden-csi: setup-check ## Compare what CSI drivers are asked for with what the kubelet asks, as root (CASES="name ...")
	@echo '==> golden-csi'
	@tests/golden-csi/run.sh $(CASES)

.PHONY: api
api: setup-check ## Test the API against its contract with made-up requests
	@echo '==> api'
	@$(BUILD)
	@tests/api/run.sh $(TARGET)/debug/windlass

.PHONY: metrics
metrics: setup-check ## Compare what is counted with what the kubelet counts, as root
	@echo '==> metrics'
	@tests/metrics/run.sh $(abspath $(KUBELET))

.PHONY: openapi
openapi: setup-build ## Write docs/openapi.json anew from the types of the API
	@WINDLASS_WRITE_OPENAPI=1 cargo test $(LOCKED) --quiet --package windlass-api --all-features --lib document

.PHONY: public-api
public-api: setup-build ## Write the list of what the crate windlass shows anew
	@WINDLASS_WRITE_PUBLIC_API=1 cargo test $(LOCKED) --quiet --package windlass --test public_api

.PHONY: containers
containers: setup-check ## Give volumes to real containers of runc and podman, as root
	@echo '==> containers'
	@$(BUILD)
	@tests/containers/run.sh $(TARGET)/debug/windlass

.PHONY: sanity
sanity: setup-check ## Test the CSI driver windlass-loop with csi-sanity, as root
	@echo '==> sanity'
	@$(BUILD)
	@tests/sanity/run.sh $(TARGET)/debug/windlass-loop $(TARGET)/sanity

# What newcomers run first is to work; nobody reads what it prints here unless it fails.
.PHONY: demos
demos: setup-demo setup-check ## See that both demos come to their end, as root
	@echo '==> demos'
	@$(BUILD)
	@scripts/demo.sh $(TARGET)/debug/windlass >$(TARGET)/demo.log 2>&1 || { cat $(TARGET)/demo.log; exit 1; }
	@examples/csi/run.sh $(TARGET)/debug/windlass $(TARGET)/debug/windlass-loop >$(TARGET)/demo.log 2>&1 \
	    || { cat $(TARGET)/demo.log; exit 1; }

.PHONY: package
package: setup-check ## Check the unit, what is installed, and the Debian package
	@echo '==> package'
	@$(BUILD)
	@tests/package/run.sh $(TARGET)/debug/windlass

.PHONY: install
install: $(if $(BINARY),,release) ## Install the program, its unit, manual pages and completions (PREFIX=, DESTDIR=, BINARY=)
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh '$(RELEASE)'

.PHONY: uninstall
uninstall: ## Take away what was installed, but nothing that was changed or added (PREFIX=, DESTDIR=)
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh --remove

.PHONY: deb
deb: $(if $(BINARY),,release) ## Build a Debian package (BINARY=)
	@scripts/deb.sh '$(RELEASE)' '$(TARGET)/debian'

.PHONY: release
release: setup-build ## Build the program for use
	@cargo build --release $(LOCKED) --package windlass-cli

# The daemon and what measures it are built together, so that nothing is built twice.
KUBELET := $(TARGET)/bench/kubelet
BENCH = $(TARGET)/release/windlass-bench run $(if $(ONLY),--only $(ONLY)) $(if $(SYSTEMS),--systems $(SYSTEMS))
# What was measured in a hurry, or in part, does not go to the documentation unless DOCS says where.
BENCH_DOCS = $(or $(DOCS),$(if $(QUICK)$(ONLY)$(SYSTEMS),,docs))

.PHONY: bench
bench: setup-bench ## Measure windlass beside the kubelet and bare system calls, as root (QUICK=1, ONLY=work,..., SYSTEMS=name,...)
	@cargo build --release $(LOCKED) --package windlass-cli --package windlass-loop --package windlass-bench
	@mkdir -p $(dir $(KUBELET))
	@go build -C bench/kubelet -o $(abspath $(KUBELET)) .
	@$(BENCH) $(if $(QUICK),--quick) $(if $(BENCH_DOCS),--docs $(BENCH_DOCS))
	@$(if $(QUICK)$(ONLY)$(SYSTEMS),,$(MAKE) --no-print-directory bench-engine)

.PHONY: bench-engine
bench-engine: setup-build ## Measure the engine alone
	@cargo bench $(LOCKED) --quiet --package windlass-core --bench engine

.PHONY: audit
audit: setup-build ## Look the dependencies up in the RustSec advisory database (needs cargo-deny and github.com)
	@cargo deny $(LOCKED) check advisories

.PHONY: versions
versions: ## Print the versions of the tools
	@scripts/versions.sh

# The steps of `make test`, each a command of its own.

.PHONY: format-check
format-check:
	@echo '==> format-check'
	@cargo fmt --all --check

.PHONY: lint
lint:
	@echo '==> lint'
	@cargo clippy --workspace --all-targets $(LOCKED) -- --deny warnings

.PHONY: doc
doc:
	@echo '==> doc'
	@RUSTDOCFLAGS='--deny warnings' cargo doc --workspace --no-deps --features k8s-openapi/v1_37 $(LOCKED)

.PHONY: unit
unit:
	@echo '==> unit'
	@cargo test --workspace $(LOCKED)

.PHONY: simulate
simulate:
	@echo '==> simulate'
	@$(SIM) run --seeds $(or $(SEEDS),$(TEST_SEEDS))
	@$(SIM) kills

.PHONY: deny
deny:
	@echo '==> deny'
	@scripts/deny.sh

# What the commands need. Quick and silent when it is there.

.PHONY: setup-build setup-demo setup-check setup-bench setup-fuzz
setup-build setup-demo setup-check setup-bench setup-fuzz: setup-%:
	@scripts/setup.sh $*
