# Everything runs in its own virtual environment; only Python 3.10+ (with venv) and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The real suite mostly waits: more shards than cores.
SHARDS ?= 5
# A file is a shard's portion, in the order of tests/real/conftest.py. A test that stands still says
# where after 20 minutes and ends the run.
SHARDED := --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
  -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true

# An environment that could not be finished must not be taken for one the next time.
.DELETE_ON_ERROR:

.PHONY: demo test nightly check lint types layers real reliability bench bench-preflight docs clean

demo: $(VENV)/.runtime          ## open the simulated lab (no GPU, SSH or Docker needed)
	@$(BIN)/gpuconsole demo $(ARGS)

test: $(VENV)/.dev              ## run the tests that need no sshd, dockerd or Paddle
	$(BIN)/python -m pytest --ignore=tests/real -n auto $(ARGS)

nightly: $(VENV)/.dev           ## the same with many more random inputs
	GPUCONSOLE_EXAMPLES=many $(BIN)/python -m pytest --ignore=tests/real -n auto $(ARGS)

check: lint types layers        ## lint, types and the direction of imports

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

real: $(VENV)/.dev              ## run the suite on real parts (root on Debian; see CONTRIBUTING.md)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,paddle]"
	$(BIN)/python -m pytest -m real -n $(SHARDS) $(SHARDED) tests/real $(ARGS)

reliability: $(VENV)/.dev       ## break things on purpose, and write docs/reliability.md from it
	$(MAKE) real ARGS="-m fault tests/session --junitxml=.reliability.xml $(ARGS)"
	$(BIN)/python docs/reliability.py .reliability.xml

bench: $(VENV)/.dev             ## measure the figures of the README
	$(BIN)/python -m benchmarks.fleet $(ARGS)

bench-preflight: $(VENV)/.dev   ## hold estimates against a corpus of measured scripts
	$(BIN)/python -m benchmarks.preflight $(ARGS)

docs: $(VENV)/.dev              ## write the generated pages anew
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/pictures.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "gpuconsole needs Python 3.10 or newer: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "making an environment in $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | $(VENV)/bin/python
	@echo "installing gpuconsole in $(VENV); this takes a minute" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing gpuconsole and what its tests need in $(VENV); this takes a minute" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
