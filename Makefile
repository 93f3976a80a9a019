# Every target makes the environment it needs; python3 (3.11 or newer) with venv is all that is assumed.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench lock docs clean

demo: $(READY)
	@$(BIN)/awr demo

test: check
	$(BIN)/python -m pytest -q -n auto --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=90

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m bench

docs: $(READY)
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tests.docs.console
	$(BIN)/python -m tests.conformance.claim

# Only maintainers need this: it resolves both lock files for every platform.
lock: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 pyproject.toml --group dev requirements/build.in -o requirements/dev.txt

$(READY): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "AWR needs Python 3.11 or newer; none was found." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; install its venv package." >&2; exit 1; }
	@echo "Installing the locked dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* dist
