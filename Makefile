# Every task of this project is one of these targets.

CARGO ?= cargo
PORT ?= 6379

# For locks, clients and redis-suite: what is compared, redouble or upstream, which is redouble in front of the real server
# (SIDE=upstream; by default both), with which real server (REAL=/path/to/valkey-server instead of redis-server), and another
# server in redouble's place (SERVER='NAME=COMMAND').
COMPARED = $(if $(SERVER),--server '$(SERVER)') $(if $(REAL),--real '$(REAL)') $(foreach side,$(SIDE),--side '$(side)')

# What the compiler builds for.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

# With glibc's archive, libc.a, the binary is linked statically and runs on every Linux, also without glibc. Debian and
# Ubuntu have it in libc6-dev, Fedora in glibc-static. On musl, linking is static anyway; macOS does not have it.
STATIC = $(shell case "$(HOST)" in \
  (*-linux-gnu) if [ -e "$$(cc -print-file-name=libc.a)" ]; then echo '-C target-feature=+crt-static'; \
    else echo 'libc.a is not installed, so the binary will need the C library of this machine.' >&2; fi;; esac)

# Packed relocations (RELR) take 250 KiB less of the memory that an empty server has. A static program understands them from
# glibc 2.36 on.
PACKED = $(shell case "$(STATIC)" in \
  (*crt-static*) if printf 'glibc 2.36\n%s\n' "$$(getconf GNU_LIBC_VERSION)" | sort -VC; then \
    echo '-C link-arg=-Wl,-z,pack-relative-relocs'; fi;; esac)

# The functions of an empty server stand together, so that it maps few pages of its file (docs/decisions/0033-link-order.md).
# LINK_ORDER= leaves that out, for a linker without linker scripts, as mold.
LINK_ORDER = $(shell case "$(HOST)" in \
  (*-linux-gnu) echo '-C link-arg=-Wl,-T,packages/link_order.ld';; esac)

.DEFAULT_GOAL := help
.PHONY: help run build link-order test packages test-packages locks clients deployments programs redis-suite lint bench soak docs \
  redis languages compiler browser tcl containers twemproxy qemu

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## Build the server and run it on PORT (6379)
	target/release/redouble --port $(PORT)

build: ## Build the optimised binary, target/release/redouble
	$(CARGO) rustc --release --locked --bin redouble -- $(STATIC) $(PACKED) $(LINK_ORDER)

link-order: qemu ## Find anew which functions an empty server runs, and write packages/link_order.ld
	CARGO_PROFILE_RELEASE_STRIP=none $(MAKE) build
	python3 packages/link_order.py target/release/redouble
	touch src/main.rs # cargo does not know of the list, so the next build would not link anew

packages: build languages ## Pack the binary for pip, npm, containers and downloads into target/packages
	python3 packages/build.py

test-packages: packages containers ## Try the files of target/packages in fresh environments (ONLY=python: one part)
	$(CARGO) test --locked --features internals --test packages -- $(if $(ONLY),--only '$(ONLY)',--all)

test: redis languages browser ## Pass every test; installs redis-server, Python, Node and Chromium where they are missing
	$(CARGO) test --locked --features internals

locks: redis languages ## The lock libraries' own suites on redis-server, here, and through here (LIBRARY=pottery: one; SIDE=upstream)
	$(CARGO) test --locked --features internals --test locks -- --all \
	  $(if $(LIBRARY),--library '$(LIBRARY)') $(COMPARED)
	$(CARGO) test --locked --features internals --test scripts -- --ignored
	REDOUBLE_PYTHON=$(or $(CARGO_TARGET_DIR),target)/locks/environments/python/bin/python \
	  $(CARGO) test --locked --features internals --test repository locks_page

clients: redis languages compiler ## The suites of client libraries on the same (CLIENT=redis-py: one; SIDE=upstream)
	$(CARGO) test --locked --features internals --test clients -- \
	  $(if $(CLIENT),--client '$(CLIENT)',--all) $(COMPARED)

deployments: redis languages ## Client programs on real Clusters and Sentinels, directly and through here (ONLY=ioredis; SIDE=direct)
	$(if $(REAL),REDOUBLE_TESTS_REAL='$(REAL)') $(CARGO) test --locked --features internals --test deployments -- \
	  $(if $(ONLY),$(foreach name,$(ONLY),--only '$(name)'),--all) $(foreach side,$(SIDE),--side '$(side)')

programs: redis languages ## What the auditor finds in whole programs, right and wrong, compared with what is recorded (SET=a: with its findings)
	$(CARGO) build --locked --features internals --bin redouble
	python3 tests/programs/install.py
	python3 tests/programs/measure.py --compare $(if $(SET),--set $(SET))

redis-suite: redis tcl ## Redis's own suite on redis-server and here (UNIT=unit/scan: one unit; SIDE=upstream)
	$(CARGO) test --locked --features internals --test redis_suite -- \
	  $(if $(UNIT),$(foreach unit,$(UNIT),--unit '$(unit)'),--all) $(COMPARED)

lint: ## Check format and lints
	$(CARGO) fmt --check
	$(CARGO) clippy --locked -- -D warnings
	$(CARGO) clippy --locked --all-targets --features internals -- -D warnings

bench: redis twemproxy build ## Benchmarks: servers found, growth, attacks, in front of one, parts, audit and its cost (QUICK=1: briefly)
	mkdir -p target/bench && cp target/release/redouble target/bench/redouble
	$(CARGO) bench --locked --features internals --bench compare -- $(if $(QUICK),--quick) $(PEERS)
	$(CARGO) bench --locked --features internals --bench growth -- $(if $(QUICK),--quick) $(PEERS)
	$(CARGO) bench --locked --features internals --bench hostile -- $(if $(QUICK),--quick)
	$(CARGO) bench --locked --features internals --bench upstream -- $(if $(QUICK),--quick)
	$(CARGO) bench --locked --features internals --bench deployment -- $(if $(QUICK),--quick)
	$(CARGO) bench --locked --features internals --bench parts -- $(if $(QUICK),--quick)
	$(CARGO) bench --locked --features internals --bench audit -- $(if $(QUICK),--quick)
	$(CARGO) bench --locked --features internals --bench audited -- $(if $(QUICK),--quick)

bench: export REDOUBLE = target/bench/redouble

soak: ## Broken messages, damaged dumps, scripts and storms of powers for MINUTES (60); fails on panic, hang or growth
	$(CARGO) bench --locked --features internals --bench soak -- --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1)

docs: ## Rewrite docs/commands.md from the command table, and build the API documentation
	REDOUBLE_WRITE_DOCS=1 $(CARGO) test --locked --features internals --test repository documentation
	$(CARGO) doc --locked --no-deps

# The tests compare with a real server and fail without one, so it is installed first.
redis:
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq redis-server redis-tools >/dev/null; \
	  else \
	    echo "The tests compare with a real Redis: install redis-server, redis-cli and redis-benchmark (7.0 or later), then run make again." >&2; \
	    exit 1; \
	  fi; }

# A proxy to compare with, measured where it is found.
twemproxy:
	@command -v nutcracker >/dev/null || ! command -v apt-get >/dev/null || { \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq nutcracker >/dev/null; }

# It shows which functions a program runs, whatever linked it.
qemu:
	@command -v qemu-x86_64 >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq qemu-user >/dev/null; \
	  else \
	    echo "The order of functions is found with qemu-x86_64: install qemu's user mode, then run make again." >&2; \
	    exit 1; \
	  fi; }

# The image is checked with the tools that others use.
containers:
	@command -v skopeo >/dev/null && command -v umoci >/dev/null && command -v runc >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends skopeo umoci runc >/dev/null; \
	  else \
	    echo "The tests of the image need skopeo, umoci and runc: install them, then run make again." >&2; \
	    exit 1; \
	  fi; }

# The lock libraries' suites are written in Python and JavaScript.
languages:
	@python3 -c 'import ensurepip, venv' 2>/dev/null && command -v node >/dev/null && command -v npm >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends \
	      python3 python3-venv python3-pip nodejs npm >/dev/null; \
	  else \
	    echo "The lock libraries' suites need python3 (3.10 or later, with venv) and node (18 or later, with npm): install them, then run make again." >&2; \
	    exit 1; \
	  fi; }

# The suite of hiredis is a C program.
compiler:
	@command -v cc >/dev/null && command -v make >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends gcc libc6-dev make >/dev/null; \
	  else \
	    echo "The suite of hiredis needs a C compiler and make: install them, then run make again." >&2; \
	    exit 1; \
	  fi; }

# Redis's own suite is written in Tcl.
tcl:
	@command -v tclsh >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends tcl >/dev/null; \
	  else \
	    echo "Redis's own suite needs tclsh 8.5 or later: install it, then run make again." >&2; \
	    exit 1; \
	  fi; }

# The tests open the report's page in a real browser.
browser:
	@[ -n "$$REDOUBLE_CHROMIUM" ] || command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || \
	  command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if command -v apt-get >/dev/null; then \
	    sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    $$sudo apt-get update -qq && { \
	      DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends \
	        chromium-headless-shell fonts-dejavu-core >/dev/null 2>&1 || \
	      DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends \
	        chromium fonts-dejavu-core >/dev/null 2>&1 || \
	      DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq chromium-browser fonts-dejavu-core >/dev/null; }; \
	  else \
	    echo "The tests of the report's page need Chromium or Chrome: install one, or name it in REDOUBLE_CHROMIUM, then run make again." >&2; \
	    exit 1; \
	  fi; }
