# The same commands on a laptop and in CI. PYTHON=python3.13 make test  picks an interpreter.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv/$(VERSION)
BIN := $(VENV)/bin
PORT ?= 8000

.PHONY: demo test check bench conformance compat faults fuzz mutants format clean

demo: $(VENV)/.run
	@$(BIN)/redstart run examples/birds/server.py --http --port $(PORT)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy examples
	$(BIN)/codespell src docs examples README.md CHANGELOG.md CONTRIBUTING.md

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ARGS)

conformance: $(VENV)/.dev
	$(BIN)/python scripts/conformance.py $(ARGS)

compat: $(VENV)/.dev
	$(BIN)/python -m tests.compat $(ARGS)

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

clean:
	rm -rf .venv .node .pytest_cache .mypy_cache .ruff_cache .hypothesis
