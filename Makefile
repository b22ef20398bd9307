# `make` alone says what there is to make.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup run test test-slow lint bench audit wheel clean

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
	$(BIN)/pytest -n auto --dist loadgroup -m 'not slow'

test-slow: setup ## the slow tests too (real data, minutes)
	$(BIN)/pytest

lint: setup ## ruff, mypy, and which room may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: setup ## speed as ratios against bare PyTorch loops, into results/bench/
	$(BIN)/python -m benchmarks.run

TABLES := $(patsubst conf/table/%.yaml,%,$(wildcard conf/table/*.yaml))
FIGURES := $(patsubst conf/figure/%.yaml,%,$(wildcard conf/figure/*.yaml))
TABLE_TARGETS := $(foreach t,$(TABLES),$(subst -,-table,$(t)))
FIGURE_TARGETS := $(foreach f,$(FIGURES),$(subst -,-figure,$(f)))
.PHONY: $(TABLE_TARGETS) $(FIGURE_TARGETS) iafl cgsv incfl fye ipfl

tables-list: ## every table and figure target: iafl-table1 … iafl-figure1 … (SEEDS=3 ONLY=dataset=fmnist limit a table, LAUNCHER="launcher=ray" says where)
	@printf '  %s\n' $(TABLE_TARGETS) $(FIGURE_TARGETS)

$(TABLE_TARGETS): setup
	$(BIN)/fedincent table $(subst -table,-,$@) --run $(if $(SEEDS),--seeds $(SEEDS)) $(if $(ONLY),--only $(ONLY)) $(LAUNCHER)

$(FIGURE_TARGETS): setup
	$(BIN)/fedincent figure $(subst -figure,-,$@) --run $(LAUNCHER)

iafl: $(filter iafl-%,$(TABLE_TARGETS) $(FIGURE_TARGETS)) ## everything of the IAFL paper (weeks of computing for all seeds)

cgsv: $(filter cgsv-%,$(TABLE_TARGETS) $(FIGURE_TARGETS)) ## everything of the CGSV paper

incfl: $(filter incfl-%,$(TABLE_TARGETS) $(FIGURE_TARGETS)) ## everything of the IncFL paper

fye: $(filter fye-%,$(TABLE_TARGETS) $(FIGURE_TARGETS)) ## everything of the FYE paper but its reinforcement learning

ipfl: $(filter ipfl-%,$(TABLE_TARGETS) $(FIGURE_TARGETS)) ## everything of the IP-FL paper

audit: setup ## does it pay to be honest? all audits on the digits, half an hour (DATASET=fmnist SEEDS=3: elsewhere)
	for what in cheating effort types stability; do \
		$(BIN)/fedincent audit --what $$what $(if $(DATASET),dataset=$(DATASET)) $(if $(SEEDS),--seeds $(SEEDS)) $(LAUNCHER) || exit 1; \
	done

wheel: setup ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean: ## remove what was built (not results)
	rm -rf dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis
