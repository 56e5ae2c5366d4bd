# The same commands on a laptop and in CI. PYTHON=python3.13 make test  picks an interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv/$(VERSION)
BIN := $(VENV)/bin
OLDEST := .venv/oldest-$(VERSION)
PORT ?= 8000
SECONDS ?= 3600
# Tests start some thousand processes: without bytecode each would compile the package anew, a third of its time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-oldest check ruff ruff-format mypy codespell format
.PHONY: bench conformance conformance-replicas compat dist faults fuzz mutants soak torture slow clean
.PHONY: docs reference
.PHONY: inspector inspector-check e2e

demo: $(VENV)/.run
	@$(BIN)/redstart dev examples/birds/server.py --port $(PORT)

# Two workers for each core, because many tests wait for a process or a clock, and at most twelve. WORKERS=2 is kinder
# to a busy machine. A test with the mark `slow` waits for `make slow`.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores > 6 ? 12 : cores * 2)))
RUN := -n $(WORKERS) --dist loadfile
QUICK := $(RUN) -m "not slow"
test: $(VENV)/.dev
	$(BIN)/python -m pytest $(QUICK) $(ARGS)

# The same tests with the lowest versions that pyproject.toml allows. What needs the packages of the group interop in the
# same process is left out: mcp, fastmcp and fastapi ask for newer versions than we do. The client's tests drive these
# packages as programs, in the other environment.
OTHERS := tests/interop tests/server/test_words_of_others.py
test-oldest: $(OLDEST)/.dev $(VENV)/.dev
	PEER_PYTHON=$(abspath $(BIN)/python) $(OLDEST)/bin/python -m pytest $(QUICK) $(OTHERS:%=--ignore=%) $(ARGS)

check: ruff ruff-format mypy codespell

ruff: $(VENV)/.dev
	$(BIN)/ruff check .

ruff-format: $(VENV)/.dev
	$(BIN)/ruff format --check .

mypy: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/mypy examples

codespell: $(VENV)/.dev
	$(BIN)/codespell src docs examples README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ARGS)

conformance: $(VENV)/.dev
	$(BIN)/python scripts/conformance.py $(ARGS)

# The same suite against two processes behind a proxy without affinity.
conformance-replicas: $(VENV)/.dev
	$(BIN)/python scripts/conformance.py --replicas redis $(ARGS)
	$(BIN)/python scripts/conformance.py --replicas postgresql $(ARGS)

compat: $(VENV)/.dev
	$(BIN)/python -m tests.compat $(ARGS)

# The sdist and the wheel, and the smoke part of the tests against the installed wheel.
dist:
	$(PYTHON) scripts/dist.py

# The suites that take minutes: two processes behind a proxy, killed workers and engines, a million calls, mixed load, and
# the tests with the mark `slow`. They come last, so that the closing line of pytest is the last line of CI.
slow: conformance-replicas dist $(VENV)/.dev
	cd tests && $(abspath $(BIN))/python -m tasks.torture --tasks 300
	$(BIN)/python -m bench --only soak
	$(BIN)/python -m bench.soak --seconds 60
	$(BIN)/python -m pytest $(RUN) -m slow $(ARGS)

torture: $(VENV)/.dev
	cd tests && $(abspath $(BIN))/python -m tasks.torture $(ARGS)

# An hour of mixed load over HTTP: memory, and the latency at the end beside that of a fresh server.
soak: $(VENV)/.dev
	$(BIN)/python -m bench.soak --seconds $(SECONDS)

faults: $(VENV)/.dev
	$(BIN)/python -m tests.faults $(ARGS)

fuzz: $(VENV)/.dev
	cd tests && $(abspath $(BIN))/python -m fuzz $(ARGS)

# The pages of the reference and docs/llms.txt, from the docstrings and the navigation.
reference: $(VENV)/.dev
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/llms.py

# The docs as a site, in .site.
docs: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/zensical build --config-file mkdocs.yml --strict

mutants: $(VENV)/.dev
	$(BIN)/python scripts/mutants.py $(ARGS)

# The page of `redstart dev`. What is built is committed, so that only those who change it need Node.
inspector: inspector/node_modules
	cd inspector && node build.mjs

# The sources have the right types, the unit tests pass, and the committed bundle is what the sources give.
inspector-check: inspector/node_modules
	cd inspector && npx tsc --noEmit && npm test --silent && node build.mjs .built
	diff -r inspector/.built src/redstart/inspector/static || { echo "The bundle is not what inspector/ gives: run make inspector."; exit 1; }

# The page in a real Chromium against real servers. UPDATE=1 writes the pictures that it is compared with.
e2e: inspector/node_modules $(VENV)/.dev
	cd inspector && PYTHON=$(abspath $(BIN)/python) npm run --silent e2e

inspector/node_modules: inspector/package-lock.json
	cd inspector && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "redstart needs Python 3.11 or newer; this is %s. Set PYTHON=" % sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV) || { echo "This Python cannot make virtual environments. On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.run: $(VENV)/.venv pyproject.toml
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	@$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@ $(VENV)/.run

$(OLDEST)/.dev: $(VENV)/.venv scripts/oldest.py pyproject.toml
	@$(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	@$(OLDEST)/bin/python scripts/oldest.py test > $(OLDEST)/constraints.txt
	@$(OLDEST)/bin/python -m pip install --quiet --editable ".[all]" --group test --constraint $(OLDEST)/constraints.txt
	@touch $@

clean:
	rm -rf .venv .node inspector/node_modules inspector/.tests inspector/.built .pytest_cache .mypy_cache .ruff_cache .hypothesis
