# Everything runs in its own virtual environment; only Python 3.10+ (with venv) and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV ?= uv
LOWEST ?= .venv-lowest
# A shard keeps a third of a core busy, for it mostly waits; each takes up to 1.5 GB of memory.
SHARDS ?= 5
# A file is a shard's portion, in the order of tests/real/conftest.py. A test that stands still says
# where after 20 minutes and ends the run.
SHARDED := --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
  -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true \
  -o tmp_path_retention_policy=failed

# An environment that could not be finished must not be taken for one the next time.
.DELETE_ON_ERROR:

.PHONY: demo test test-lowest nightly mutants check lint types layers real reliability bench bench-preflight docs site clean

demo: $(VENV)/.runtime          ## open the simulated lab (no GPU, SSH or Docker needed)
	@echo "opening the console on a simulated lab" >&2
	@$(BIN)/gpuconsole demo $(ARGS)

test: $(VENV)/.dev              ## run the tests that a change can affect, or all (ALL=1), without sshd, dockerd or Paddle
	$(BIN)/python -m pytest -n auto $$($(BIN)/python tools/choose_tests.py $(if $(ALL),--all)) $(ARGS)

test-lowest:                    ## the same with the lowest versions that pyproject.toml allows (needs uv)
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(LOWEST)
	$(UV) pip compile --quiet --extra dev --resolution lowest-direct --python $(LOWEST)/bin/python \
	  pyproject.toml --output-file $(LOWEST)/lowest.txt
	$(UV) pip install --quiet --python $(LOWEST)/bin/python -r $(LOWEST)/lowest.txt -e .
	$(LOWEST)/bin/python -m pytest --ignore=tests/real -n auto $(ARGS)

nightly: $(VENV)/.dev           ## the same with many more random inputs
	GPUCONSOLE_EXAMPLES=many $(BIN)/python -m pytest --ignore=tests/real -n auto $(ARGS)

mutants: $(VENV)/.dev            ## change rules one at a time: do the tests notice? (a random sample, hours for all)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "mutmut>=3.8,<4"
	$(BIN)/python tools/mutants.py $(ARGS)

check: lint types layers house site  ## lint, types, imports, the shape of the tree, and the documentation

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

house: $(VENV)/.dev              ## figures of the source tree, none of which may get worse
	$(BIN)/python tools/house.py --check $(ARGS)

real: $(VENV)/.dev $(VENV)/share/paddleclas $(VENV)/share/visualdl  ## run the suite on real parts (root on Debian; see CONTRIBUTING.md)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,paddle]"
	$(BIN)/python -m pytest -m real -n $(SHARDS) $(SHARDED) tests/real $(ARGS)

reliability: $(VENV)/.dev       ## break things on purpose, and write docs/reliability.md from it
	$(MAKE) real ARGS="-m fault tests/session --junitxml=.reliability.xml $(ARGS)"
	$(BIN)/python docs/reliability.py .reliability.xml

bench: $(VENV)/.dev             ## measure the figures of docs/speed.md
	$(BIN)/python -m benchmarks.fleet $(ARGS)

bench-preflight: $(VENV)/.dev   ## hold estimates against a corpus of measured scripts
	$(BIN)/python -m benchmarks.preflight $(ARGS)

site: $(VENV)/.dev              ## build the documentation into site/, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screens: $(VENV)/.dev           ## take the screens as PNG, in docs/images/screens (ARGS="--all /tmp/all")
	$(BIN)/python docs/screens.py $(ARGS)

docs: $(VENV)/.dev              ## write the generated pages and pictures again
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/rooms.py
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/recording.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "gpuconsole needs Python 3.10 or newer: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "making an environment in $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml | $(VENV)/bin/python
	@echo "installing gpuconsole in $(VENV); this takes a minute" >&2
	@$(BIN)/python -m pip install --disable-pip-version-check -e . >&2
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing gpuconsole and what its tests need in $(VENV); this takes a minute" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.runtime

# PaddleClas as its makers publish it, and what it imports beside Paddle: tests train it, and run in
# namespaces without a network.
$(VENV)/share/paddleclas: | $(VENV)/bin/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ \
	  paddleclas==2.6.0 "scikit-learn>=1.6,<1.8" scipy joblib==1.5.2 threadpoolctl==3.6.0 \
	  tqdm==4.67.1 prettytable==3.16.0 wcwidth==0.2.14 six==1.17.0 ujson==5.11.0 easydict==1.13

# VisualDL's own LogWriter needs none of the packages that its server does.
$(VENV)/share/visualdl: | $(VENV)/bin/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ \
	  visualdl==2.5.3

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache
