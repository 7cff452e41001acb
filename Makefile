# `make help` lists the commands. `make demo` and `make test` set everything up themselves.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
NODES ?= 4
SEEDS ?= 2000
START ?= 0
INSTANCES ?= 10000
OUT ?= out
BENCH ?= all
# the image's base (pinned: python:3.12-slim@sha256:...), its Python, its name, and the docker command that builds it
BASE ?= python:3.12-slim
BASE_PYTHON ?= 3.12
IMAGE ?= tenure:latest
DOCKER ?= docker

.DEFAULT_GOAL := help
.PHONY: help setup check unit test test-faults prop optimum mutants bench reproduction demo run image testbed docs lock release clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): setup.cfg pyproject.toml requirements/dev.txt tools/prepare
	@PYTHON=$(PYTHON) tools/prepare $(VENV)
	@touch $(STAMP)

setup: $(STAMP) ## build .venv with everything the commands below need

check: $(STAMP) ## format, lint, strict types, architecture, generated documents
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy & $(BIN)/python -m pytest -q -n 2 tests/architecture tests/docs; tests=$$?; \
	    wait $$! && exit $$tests

unit: $(STAMP) ## the inner loop: unit, API and CLI tests
	@$(BIN)/python -m pytest -q -n 2 tests/unit tests/api tests/cli tests/architecture

test: $(STAMP) ## the whole suite with real engines and a tenth of the faults (under 20 minutes)
	@tools/run-tests quick

test-faults: $(STAMP) ## the rest of the faults on real engines (under 45 minutes)
	@tools/run-tests faults

prop: $(STAMP) ## the simulated fleet over SEEDS seeds from START on (RESTORE=1: a backup is put back)
	@$(BIN)/python -m tests.fleet --seeds $(SEEDS) --start $(START) --jobs 2$(if $(RESTORE), --restore)

optimum: $(STAMP) ## hold policy exact against milp on INSTANCES small and 200 large instances
	@TENURE_OPTIMUM=$(INSTANCES) $(BIN)/python -m pytest -q --timeout 7200 tests/property/test_placement_optimum.py

mutants: $(STAMP) ## show that a test fails for each kept mutation of the code
	@$(BIN)/python tools/mutants.py

bench: $(STAMP) ## take the figures of docs/benchmarks.md, or one: BENCH=submissions
	@$(BIN)/python -m benchmarks $(BENCH)

reproduction: $(STAMP) ## simulate the SLA paper's study again: DATA=folder THEIRS=file
	@$(BIN)/python -m reproductions sla $(if $(DATA),--data $(DATA)) $(if $(THEIRS),--theirs $(THEIRS)) --write

demo: $(STAMP) ## run the main job on real engines; ends with a report in out/demo
	@$(BIN)/python -m demo --out $(OUT)/demo

run: $(STAMP) ## start the daemon for real use on the local engine
	@$(BIN)/tenured run $(if $(CONFIG),--config $(CONFIG))

image: $(STAMP) ## build the container image IMAGE on BASE (Python BASE_PYTHON)
	@tools/wheels deploy/wheels $(BASE_PYTHON)
	@$(DOCKER) build --network none --build-arg 'BASE=$(BASE)' \
	    --build-arg VERSION=$$($(BIN)/python -c 'import tenure; print(tenure.__version__)') -t $(IMAGE) .

testbed: $(STAMP) ## start NODES engines, print a ready tenured.yml, stop with Ctrl-C (LEND=folder: for batches)
	@$(BIN)/python -m testbed up --nodes $(NODES) $(if $(LEND),--lend $(LEND))

docs: $(STAMP) ## write the generated documents again
	@$(BIN)/python tools/write_docs.py

lock: ## write requirements/dev.txt again, after a change of setup.cfg (newest: tools/lock --upgrade)
	@tools/lock

release: $(STAMP) ## build wheel, sdist and bill of materials into dist; show that both install
	@tools/release dist

clean: ## remove what the commands above made in this folder
	@rm -rf $(VENV) $(OUT) deploy/wheels build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
