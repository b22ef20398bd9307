# `make` alone says what there is to make.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup run test test-slow lint bench wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv and install everything (does nothing when up to date)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

run: setup ## IAFL over 50 clients on the embedded digits: IPR, Pearson ρ, accuracies
	$(BIN)/fedincent run

test: setup ## all tests but the slow ones
	$(BIN)/pytest -n auto -m 'not slow'

test-slow: setup ## the slow tests too (real data, minutes)
	$(BIN)/pytest

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup ## speed as ratios against bare PyTorch loops, into results/bench/
	$(BIN)/python -m benchmarks.run

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## remove what was built (not results)
	rm -rf dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis
