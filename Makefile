# Needs Python 3.11 or newer, make, and a Python package index that pip can reach.
# Everything is installed into .venv, .venv-oracles and .venv-oldest; the machine is not changed.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test bench lint format lock clean install oracles oldest java

# What the caller's shell has activated or configured for itself must not lead elsewhere.
unexport PYTHONHOME PYTHONPATH PYTHONSAFEPATH VIRTUAL_ENV PIP_PREFIX PIP_TARGET PIP_USER
export PIP_DISABLE_PIP_VERSION_CHECK = 1

CAN_SERVE = import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHONS = python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(PYTHONS); do $$p -c '$(CAN_SERVE)' 2>/dev/null && echo $$p && break; done)
OURS = .venv/bin/python
ARGS =

help: ## List what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

demo: install java ## Run the example
	JAVA_HOME=$$($(OURS) -m tools.find_java) && export JAVA_HOME && $(OURS) examples/demo.py $(ARGS)

test: lint oracles oldest java ## Everything that must hold: lint, types, the whole suite (ARGS="-k name" for a part of it)
	JAVA_HOME=$$($(OURS) -m tools.find_java) && export JAVA_HOME && \
	LAKEPLANE_VECTORS=$$($(OURS) -m tools.fetch_vectors) && export LAKEPLANE_VECTORS && \
	export LAKEPLANE_ORACLES="$(CURDIR)/.venv-oracles/bin/python" && \
	$(if $(ARGS),,PYTHONPATH=src .venv-oldest/bin/python -m pytest -p no:cacheprovider -o filterwarnings=ignore tests/spark tests/sql/test_select.py tests/sql/test_connect.py &&) \
	$(OURS) -m pytest $(ARGS)

bench: install oracles oldest java ## Measure (ARGS="name ..." for some of the measurements)
	JAVA_HOME=$$($(OURS) -m tools.find_java) && export JAVA_HOME && \
	LAKEPLANE_ORACLES="$(CURDIR)/.venv-oracles/bin/python" $(OURS) -m bench $(ARGS)

lint: install ## Check format, style and types
	$(OURS) -m ruff format --check
	$(OURS) -m ruff check
	$(OURS) -m mypy

format: install ## Bring the code into its format
	$(OURS) -m ruff check --fix --exit-zero
	$(OURS) -m ruff format

clean: ## Remove the environments and caches
	rm -rf .venv .venv-oldest .venv-oracles .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments are made anew when their lock changes, so that nothing is in them but what is locked.

define environment
@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer with venv was found: set PYTHON=..." >&2; exit 1; }
$(PYTHON) -m venv --clear $(1)
$(1)/bin/python -m pip install --quiet --require-hashes --requirement $(2)
@touch $@
endef

install: .venv/installed

.venv/locked: requirements/dev.lock
	$(call environment,.venv,$<)

.venv/installed: .venv/locked pyproject.toml
	$(OURS) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

oracles: .venv-oracles/locked

.venv-oracles/locked: requirements/oracles.lock
	$(call environment,.venv-oracles,$<)

oldest: .venv-oldest/locked

.venv-oldest/locked: requirements/oldest.lock
	$(call environment,.venv-oldest,$<)

java: install
	@$(OURS) -m tools.find_java >/dev/null 2>&1 || \
	$(OURS) -m pip install --quiet --require-hashes --requirement requirements/java.lock

COMPILE = "$$new/bin/uv" pip compile --quiet --no-config --no-cache --python "$$new/bin/python" \
	--python-version 3.11 --universal --generate-hashes --no-annotate --no-emit-index-url \
	--custom-compile-command "make lock" $(ARGS)

lock: ## Resolve the dependencies again, keeping the versions that fit (ARGS=--upgrade for the newest)
	new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT && \
	$(PYTHON) -m venv "$$new" && "$$new/bin/python" -m pip install --quiet uv && \
	UV_DEFAULT_INDEX=$$("$$new/bin/python" -m tools.package_index) && export UV_DEFAULT_INDEX && \
	if [ -n "$$PIP_CERT" ]; then export SSL_CERT_FILE="$$PIP_CERT"; fi && \
	$(COMPILE) --group dev pyproject.toml --output-file requirements/dev.lock && \
	$(COMPILE) requirements/oracles.in --output-file requirements/oracles.lock && \
	$(COMPILE) pyproject.toml requirements/oldest.in --output-file requirements/oldest.lock && \
	$(COMPILE) requirements/java.in --output-file requirements/java.lock
