# `make up` runs Flagplot on this machine, `make test` tests it; the rest are their parts.
PYTHON ?= python3
WORKERS ?= 3
# Processes that run tests; they wait more than they compute, so three keep two cores busy.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: up demo down test lint kernels unit package screenshots clean

up: $(STAMP)
	$(BIN)/flagplot up

demo: $(STAMP)
	$(BIN)/flagplot up --demo

down: $(STAMP)
	$(BIN)/flagplot down

test: $(STAMP)
	$(MAKE) -j2 lint kernels
	$(MAKE) unit package

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The first run compiles the scheduler; here, so that no two processes of tests do it at the same time.
kernels: $(STAMP)
	$(BIN)/python tests/compile_kernels.py

unit: $(STAMP) kernels
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

package: $(STAMP)
	$(BIN)/python tests/package_check.py

screenshots: $(STAMP)
	$(BIN)/python docs/screenshots.py

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Flagplot needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	touch $(STAMP)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
