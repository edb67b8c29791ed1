# `make up` runs Flagplot on this machine, `make test` tests it; the rest are their parts.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: up demo down test lint unit package screenshots clean

up: $(STAMP)
	$(BIN)/flagplot up

demo: $(STAMP)
	$(BIN)/flagplot up --demo

down: $(STAMP)
	$(BIN)/flagplot down

test: $(STAMP) lint unit package

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal

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
