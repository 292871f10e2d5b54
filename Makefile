# make demo   install, materialize the embedded asset graph, show scores and examples
# make test   install what tests need and run them
# make ui     the Dagster UI on http://127.0.0.1:3000
# make lint   style, types, import contract
# make bench  speed, as ratios against named baselines
# make measure  what works how well on the real data in EVIDENCE_DEV_DATA; writes the tables of docs/measured.md

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 3000

export DAGSTER_HOME ?= $(CURDIR)/.dagster

.PHONY: demo test ui lint bench measure clean

$(VENV)/.runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(DAGSTER_HOME)/dagster.yaml: dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@cp dagster.yaml $@

demo: $(VENV)/.runtime $(DAGSTER_HOME)/dagster.yaml
	$(BIN)/evidence demo

test: $(VENV)/.dev
	env -u DAGSTER_HOME OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

ui: $(VENV)/.runtime $(DAGSTER_HOME)/dagster.yaml
	$(BIN)/evidence limits
	$(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	@set -e; for script in bench/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

measure: $(VENV)/.dev
	$(BIN)/python bench/measure_all.py

clean:
	rm -rf $(VENV) .dagster .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
