# The same commands on a laptop and in CI. PYTHON=python3.13 make test  picks an interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv/$(VERSION)
BIN := $(VENV)/bin
OLDEST := .venv/oldest-$(VERSION)
PORT ?= 8000

.PHONY: demo test test-oldest check ruff ruff-format mypy codespell format
.PHONY: bench conformance conformance-replicas compat faults fuzz mutants torture slow clean

demo: $(VENV)/.run
	@$(BIN)/redstart run examples/birds/server.py --http --port $(PORT)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# The same tests with the lowest versions that pyproject.toml allows. What needs the packages of the group interop in the
# same process is left out: mcp, fastmcp and fastapi ask for newer versions than we do. The client's tests drive these
# packages as programs, in the other environment.
OTHERS := tests/interop tests/server/test_words_of_others.py
test-oldest: $(OLDEST)/.dev $(VENV)/.dev
	PEER_PYTHON=$(abspath $(BIN)/python) $(OLDEST)/bin/python -m pytest -n 2 --dist loadfile $(OTHERS:%=--ignore=%) $(ARGS)

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

# The suites that take minutes: two processes behind a proxy, killed workers and engines, a million calls.
slow: conformance-replicas $(VENV)/.dev
	cd tests && $(abspath $(BIN))/python -m tasks.torture --tasks 300
	$(BIN)/python -m bench --only soak

torture: $(VENV)/.dev
	cd tests && $(abspath $(BIN))/python -m tasks.torture $(ARGS)

faults: $(VENV)/.dev
	$(BIN)/python -m tests.faults $(ARGS)

fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz $(ARGS)

mutants: $(VENV)/.dev
	$(BIN)/python scripts/mutants.py $(ARGS)

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
	rm -rf .venv .node .pytest_cache .mypy_cache .ruff_cache .hypothesis
