SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT ?= out
SCALE ?= full

.PHONY: help demo setup lint types test test-eval test-gpu results results-train bench bench-operator ablate locality lra scaling report reproduce-paper clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 18

demo: setup ## set up, train MQAR with 3-dimensional keys, show the table (about a minute and a half on two cores)
	$(BIN)/zeta train mqar --dk 3 --out $(OUT)

setup: $(READY) ## make .venv with everything in it

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, not " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict outside kernel files
	$(BIN)/mypy

test: setup ## all tests that need no GPU
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

test-eval: setup ## the tests of zeta eval, with lm-evaluation-harness beside the rest
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[eval]'
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/studies/zero_shot

test-gpu: setup ## the kernels at full size on this machine's GPU; fails without one
	$(BIN)/pytest -n auto --maxprocesses 12 tests/gpu/kernels.py

bench: setup ## time ZETA against what one would use instead; rows in results/bench.csv, a figure in results/bench.png
	$(BIN)/zeta bench --out . --plot
	$(BIN)/zeta bench --preset paper --out . --plot
	if $(BIN)/python -c 'import fla' 2>/dev/null; then $(BIN)/zeta bench --providers fla_linear,fla_nsa --out .; fi
	if nvidia-smi >/dev/null 2>&1; then $(BIN)/zeta bench --preset long --out .; fi

bench-operator: setup ## time the operator on this machine against dense attention; rows in results/bench_operator.csv
	$(BIN)/zeta bench --preset operator --out .

ablate: setup ## the sweeps on MQAR that need a GPU (hours; goes on where it was stopped); rows in results/ablate.csv
	$(BIN)/python -m zeta_core.studies.reproduce --out . --only ablate/mqar

locality: setup ## how many true neighbours the Z-order curve finds; rows in results/locality.csv, a figure beside it
	$(BIN)/zeta locality --out . --plot

lra: setup ## Long Range Arena on a GPU, all systems of the paper's table, what has its data; rows in results/ (days)
	$(BIN)/zeta data make pathfinder --preset paper
	$(BIN)/python -m zeta_core.studies.reproduce --out . --only lra/

scaling: setup ## the 124M language models, and a sweep, on one GPU and on two; rows in results/scaling.csv
	$(BIN)/python -m zeta_core.studies.reproduce --out . --only scaling/

results-train: setup ## train what the README's MQAR table shows (about 12 minutes on two cores); rows in results/train.csv
	for seed in 0 1 2; do $(BIN)/zeta train mqar --dk 3 --seed $$seed --out . || exit; done
	for dk in 1 2; do $(BIN)/zeta train mqar --dk $$dk --out . || exit; done
	$(BIN)/zeta train mqar --chunks 4 --out .
	$(BIN)/zeta train mqar --chunks 4 --set attention.local_window=16 --out .
	$(BIN)/zeta train mqar --attention softmax --out .

reproduce-paper: setup ## every experiment that this machine suffices for, into OUT; SCALE=smoke: all of them in small
	$(BIN)/python -m zeta_core.studies.reproduce --out $(OUT) --scale $(SCALE)

report: setup ## REPORT.md, its figures and the README's tables from the committed results
	$(BIN)/zeta report --out .
	$(BIN)/python -m zeta_core.studies.readme

results: results-train bench bench-operator locality ablate ## all committed results, and what is made of them
	$(MAKE) report

clean: ## delete .venv and caches; results and runs stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
