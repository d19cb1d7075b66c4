# Needs Python 3.11 or 3.12, Java 17 or 21, and make. `make` lists the verbs.
SHELL := /bin/sh
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Files side by side, each worker with a stack of its own of 4 GB. A third one took 1.5 minutes of 32 off all tests, and starts more JVMs.
WORKERS ?= 2
SIDE_BY_SIDE := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
ARGS ?=
# Hundreds of Pythons would each compile what they import, 1.4 s for one of Spark's, where a shell has forbidden them to keep it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup check test test-all test-fast coverage test-integration test-laws test-chaos bench bench-quick demo clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## bring everything that Tally needs into .venv and the user's cache
	@python=$$(PYTHON="$(PYTHON)" sh ops/local/setup/find_python.sh) && "$$python" ops/local/setup/bootstrap.py

check: setup ## lint, format, types, lock file, the house in numbers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/uv lock --check
	$(BIN)/python -m tests.unit.architecture.counts.measure --check

test: setup ## unit, laws, docs, contract, and the whole loop once: ten minutes on two cores
	$(PYTEST) --tiers unit,laws,docs,contract,story $(SIDE_BY_SIDE) $(ARGS)

test-all: setup ## every tier but chaos: before a change is called done
	$(PYTEST) --tiers unit,laws,docs,contract,story,integration,dags,e2e $(SIDE_BY_SIDE) $(ARGS)

test-fast: setup ## unit, laws and docs: no JVM, four minutes on two cores
	$(PYTEST) --tiers unit,laws,docs $(SIDE_BY_SIDE) $(ARGS)

coverage: setup ## which lines of the product the fast tests run, and which they miss
	$(PYTEST) --tiers unit,laws,docs $(SIDE_BY_SIDE) --cov --cov-report term-missing:skip-covered $(ARGS)

test-integration: setup ## what test-all adds to test: the real Kafka, Cassandra, Spark and Airflow
	$(PYTEST) --tiers integration,dags,e2e $(SIDE_BY_SIDE) $(ARGS)

test-laws: setup ## the laws with ten times as many examples
	$(PYTEST) --tiers laws --hypothesis-profile deep $(SIDE_BY_SIDE) $(ARGS)

test-chaos: setup ## faults at seeded moments
	$(PYTEST) --tiers chaos $(ARGS)

bench: setup ## throughput beside a plain loop: medians, half an hour (python -m bench.<name> for each of the others)
	$(BIN)/python -m bench.throughput $(ARGS)

bench-quick: setup ## every benchmark, small: ten minutes
	$(BIN)/python -m bench.quick

demo: setup ## one year of real receipts through the whole system, with an audit at the end
	@$(BIN)/tally demo $(ARGS)

clean: ## stop the local stack; remove its data and the environment (the cache of downloads stays)
	@if [ -x $(BIN)/tally ]; then $(BIN)/tally down; fi
	rm -rf .venv .tally .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
