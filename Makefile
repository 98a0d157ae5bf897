# The two commands are `make demo` and `make test`; both set up .venv from the pinned requirements first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps
PROJECT := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .

.PHONY: demo test test-all test-portable coverage screenshots lint bench docs licences lock clean

demo: $(VENV)/.compiled
	$(BIN)/tensorucb demo $(ARGS)

# Kernels are compiled for this machine's processor, once; a package cannot bring them along.
$(VENV)/.compiled: $(VENV)/.base $(shell find src -name _kernels.py)
	@echo "Compiling, once: up to a minute."
	@$(BIN)/tensorucb doctor --compile > /dev/null
	@touch $@

# Tests run on all cores; at most eight processes, since some of them start a database server of their own.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

test: $(VENV)/.dev
	@scripts/system-packages
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/.dev
	@scripts/system-packages
	$(PYTEST) $(ARGS)

# The default tests under several CPU settings, which change the last bits of sums as another CPU would.
test-portable: $(VENV)/.dev
	@scripts/system-packages
	$(BIN)/python scripts/test-portable $(ARGS)

# Branch coverage of the default tests, by room; compiled kernels are left out.
coverage: $(VENV)/.dev
	@scripts/system-packages
	$(BIN)/coverage run -m pytest -n auto --maxprocesses 8 --dist worksteal -m "not slow" $(ARGS)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover
	@for room in learner oracle store campaign; do \
		echo "$$room $$($(BIN)/coverage report --format=total --include="*/$$room/*") %"; done

screenshots: $(VENV)/.dev
	@scripts/system-packages
	$(BIN)/python scripts/screenshots

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

# The documentation, as docs/_build/html. Examples whose figures are up to date do not run again.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going --quiet -d docs/_build/doctrees $(ARGS) docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The licences of all pinned packages, as docs/licences.md.
licences: $(VENV)/.dev
	$(BIN)/python scripts/licences

# Resolve the pins again, for the oldest Python that pyproject.toml promises, whichever one runs here.
OLDEST := $(shell sed -n 's/^requires-python = ">=\(.*\)"$$/\1/p' pyproject.toml)
LOCK := $(BIN)/uv pip compile --quiet --python-version $(OLDEST) --generate-hashes --no-annotate --no-header \
	--strip-extras pyproject.toml
lock: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) --extra postgres --extra service --extra ray --extra docs --extra dev --output-file requirements/dev.txt
	$(LOCK) --constraint requirements/dev.txt --extra build --output-file requirements/base.txt
	$(LOCK) --constraint requirements/dev.txt --extra postgres --extra service --extra build \
		--output-file requirements/service.txt

clean:
	rm -rf $(VENV) out docs/_build docs/gallery docs/reference/api .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tensorucb needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml requirements/base.txt | $(BIN)/python
	$(INSTALL) -r requirements/base.txt
	$(PROJECT)
	@touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.txt | $(BIN)/python
	$(INSTALL) -r requirements/dev.txt
	$(PROJECT)
	@touch $@ $(VENV)/.base
