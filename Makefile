# SPDX-License-Identifier: MIT OR Apache-2.0
# Everything runs in .venv, which the first target that needs it makes. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# A stamp is newer than pyproject.toml when what it stands for is installed.
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
BENCH := $(VENV)/.bench
KOMPUTE := $(VENV)/.kompute

# Bytecode is written: each of some thousand starts of Python would compile fuel again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif

# $(call step,name,command): a line before, a line with the time after; stops at a failure.
define step
@printf '== %s\n' '$(1)'; from=$$(date +%s); \
if { $(2); }; then printf '== %s: ok, %s s\n' '$(1)' "$$(($$(date +%s) - from))"; \
else printf '== %s: FAILED after %s s\n' '$(1)' "$$(($$(date +%s) - from))" >&2; exit 1; fi
endef

.PHONY: help
help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(CORE)  ## install the core in .venv; optimise and run everything in examples/
	$(call step,examples,$(BIN)/python examples/run_all.py)

.PHONY: test
test: check side-by-side unit  ## lint, types, lit and pytest: every kind of check, in minutes
	@echo 'make test: all is well; make test-all runs what pytest left out above'

.PHONY: test-all
test-all: test rest  ## make test, then the tests marked slow, and more examples of each property

# Types take one core, and so does most of what builds kp; lit takes what is left.
.PHONY: side-by-side
side-by-side: $(DEV)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target SIDE_BY_SIDE=1 types filecheck

.PHONY: check
check: $(DEV)  ## ruff: lint and format
	$(call step,ruff check,$(BIN)/ruff check --output-format concise .)
	$(call step,ruff format,$(BIN)/ruff format --check .)

.PHONY: types
types: $(DEV)  ## basedpyright
	$(call step,basedpyright,$(BIN)/basedpyright --pythonpath $(BIN)/python)

.PHONY: kompute
kompute: $(DEV)  ## build kp (Vulkan); apt-get installs what it takes if you are root
	$(call step,kompute,.ci/kompute $(VENV))
	@touch $(KOMPUTE)

# Where kp cannot be built, its sentence is printed and the tests that need it are skipped.
$(KOMPUTE): $(DEV)
	@.ci/kompute $(VENV) || echo 'kompute: the tests that need Vulkan are skipped'
	@touch $@

PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup

.PHONY: unit
unit: $(DEV) $(KOMPUTE)  ## pytest but for the tests marked slow; warnings are errors
	$(call step,pytest,HYPOTHESIS_PROFILE=quick $(PYTEST) -m 'not slow')

.PHONY: rest
rest: $(DEV) $(KOMPUTE)  ## what unit left out: tests marked slow, and properties at length
	$(call step,pytest for what is slow,HYPOTHESIS_PROFILE=long $(PYTEST) -m 'slow or hypothesis')

.PHONY: filecheck
filecheck: $(DEV) $(KOMPUTE)  ## lit on filecheck/
	$(call step,lit,$(BIN)/lit -sv -j $(WORKERS) filecheck)

.PHONY: format
format: $(DEV)  ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: golden
golden: $(DEV)  ## rewrite docs/ops.md and passes.md, the stubs, the outputs in pages and the golden files
	$(BIN)/python docs/make_ops.py
	$(BIN)/python docs/make_passes.py
	$(BIN)/python docs/make_stubs.py
	$(BIN)/python -m pytest -q -n $(WORKERS) --update-golden -k "golden or runnable"

.PHONY: bench
bench: $(BENCH)  ## the benchmarks, side by side with the peers that are installed
	$(call step,benchmarks,$(BIN)/python benchmarks/run.py)
	$(call step,plugin start-up,$(BIN)/python benchmarks/startup.py)

.PHONY: clean
clean:  ## remove .venv and everything generated
	rm -rf $(VENV) build dist .ruff_cache .pytest_cache .hypothesis examples/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian splits venv from Python; it is the one system package that may be missing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1)' 2>/dev/null || { \
	  echo "fuel needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	    "name another one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -q && apt-get install -qy python3-venv; } || { \
	  echo "'$(PYTHON)' has no venv; install it first (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(call step,python -m venv,$(PYTHON) -m venv $(VENV))

$(CORE): pyproject.toml | $(BIN)/python
	$(call step,pip install fuel,$(BIN)/python -m pip install -q -e .)
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(call step,pip install fuel and the dev extra,$(BIN)/python -m pip install -q -e '.[dev]')
	@touch $(CORE) $@

$(BENCH): $(DEV)
	$(call step,pip install the bench extra,$(BIN)/python -m pip install -q -e '.[bench]')
	@touch $@
