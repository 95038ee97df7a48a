# Shortcuts for developers. Users need only ./okibi.
PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help check test fix docs lock bench-peers clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

check:  ## Format, lint, types and import rules (about 30 s)
	./okibi test --only format --only lint --only types --only imports

test:  ## Everything CI runs
	./okibi test

fix:  ## Format the code and apply safe lint fixes
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs:  ## Write docs/cli.md from the command line
	$(PYTHON) -m scripts.cli_docs

lock:  ## Resolve pyproject.toml into requirements*.lock (use Python 3.11)
	$(PYTHON) -m scripts.lock

bench-peers:  ## Measure beside vLLM and llama.cpp (hours; ARGS=--quick for minutes)
	$(PYTHON) -m benchmarks.peers $(ARGS)

clean:  ## Remove the environment and all caches
	rm -rf .venv .venv.lock build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
