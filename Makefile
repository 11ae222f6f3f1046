# Every command a person needs. Each does its own set-up: virtual environments under .venvs/, from hashed locks.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENVS ?= .venvs
# TEST_ROUTER=smg or sglang-router leaves out the tests of the other one.
export TEST_ROUTER
PYTHON ?= $(firstword $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p; done))
DEV := $(VENVS)/dev/bin
PYTEST := $(DEV)/python -m pytest

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | expand -t 18

# --- environments -----------------------------------------------------------------------------------------------

$(VENVS)/appliance/.done: docker/appliance.lock make/venv.sh
	@make/venv.sh "$(PYTHON)" $(VENVS)/appliance docker/appliance.lock entrypoint
	@touch $@

$(VENVS)/dev/.done: docker/dev.lock make/venv.sh
	@make/venv.sh "$(PYTHON)" $(VENVS)/dev docker/dev.lock entrypoint
	@touch $@

# --- use --------------------------------------------------------------------------------------------------------

demo: $(VENVS)/appliance/.done engine ## Run the whole appliance on this machine's CPU, in the foreground
	@DSV4_STATE_DIR=$${DSV4_STATE_DIR:-$(CURDIR)/.demo/state} exec $(VENVS)/appliance/bin/dsv4-pd demo

# --- check ------------------------------------------------------------------------------------------------------

check: $(VENVS)/dev/.done ## Lint, format, spelling, types, import contracts, generated files
	PRE_COMMIT_HOME=$(VENVS)/dev/pre-commit $(DEV)/pre-commit run --all-files
	$(DEV)/mypy
	$(DEV)/lint-imports --no-cache
	$(DEV)/python docs/generate.py --check

hooks: $(VENVS)/dev/.done ## Run the linters before each commit of this clone, and check its message
	$(DEV)/pre-commit install

docs: $(VENVS)/dev/.done ## Regenerate the generated files
	$(DEV)/python docs/generate.py

lock: $(VENVS)/dev/.done ## Resolve the control plane's requirement locks again
	cd docker && for name in appliance dev; do ../$(DEV)/pip-compile -q --upgrade --generate-hashes --strip-extras \
	  --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
	  -o $$name.lock $$name.in; done

test: test-control test-demo ## What a person waits for: the control plane, and the demo from start to stop; five minutes on two cores

test-control: $(VENVS)/dev/.done  # four workers whatever the machine: many tests wait for a clock
	$(PYTEST) -n 4 -m "not engine and not pair and not docker and not browser and not slow" $(ARGS)

coverage: ARGS += --cov --cov-report=
coverage: test-control ## The control plane's tests, and which lines they do not reach
	$(DEV)/coverage report

test-demo: $(VENVS)/dev/.done engine
	$(PYTEST) -m "pair and not slow" tests/pair/test_appliance.py $(ARGS)

test-engine: $(VENVS)/dev/.done engine ## The engine's and the routers' own parsers, rules, pools and plugins; no server is started
	$(PYTEST) -n 2 --dist loadfile -m "engine and not pair and not slow" tests/entrypoint tests/gate tests/gpu tests/hooks tests/tools tests/demo tests/pair $(ARGS)

test-pair: $(VENVS)/dev/.done engine ## The real pair without the appliance: tokens, the KV link, keys of both routers
	$(PYTEST) -m "pair and not slow" tests/entrypoint tests/gate tests/gpu tests/tools tests/demo $(ARGS)

clean: ## Remove what these commands made
	rm -rf .venvs .demo .mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: help demo check hooks docs lock test test-control coverage test-demo test-engine test-pair test-all clean

include make/*.mk
