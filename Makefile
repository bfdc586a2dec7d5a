# Everything a contributor types. `make` alone lists it.

PYTHON ?= python3
ARGS   ?=
WORKERS ?= 1

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# What running needs, which is little and quick to install, and what developing needs besides.
RUNS   := $(VENV)/.runs
RUNTIME := ingest,orchestrator,worker,cli,embedded
EXTRAS := $(RUNTIME),test,lint
EVERY_EXTRA := ingest,orchestrator,worker,cli,embedded,test,lint

# Tests wait much of their time for servers, so there is one process more than there are cores.
TEST_PROCESSES ?= $(shell expr `getconf _NPROCESSORS_ONLN` + 1)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run dev docs up down setup rabbitmq test lint types layers check format bench-engine bench-startup bench-templates bench-throughput bench-latency bench-loop bench-delays bench-compare constraints clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNS) ## see it work: a playbook with a flaky service, on the embedded system
	@$(BIN)/redrive run examples/tour.yaml --demo $(ARGS)

dev: $(RUNS) ## keep the whole system up in one process, with its API, durable in ./.redrive
	@$(BIN)/redrive dev $(ARGS)

up: $(RUNS) rabbitmq ## run every service as a process in the background, on private servers; WORKERS=4 for more workers
	@$(BIN)/redrive up --workers $(WORKERS) $(ARGS)

down: $(RUNS) ## stop what `make up` started
	@$(BIN)/redrive down $(ARGS)

setup: $(READY) ## make .venv and install redrive with its tools (instant when nothing changed)

# Only the server's files are wanted: the tests start nodes of their own, so the machine's service is not started.
rabbitmq: ## install RabbitMQ for the tests if it is missing and apt can
	@command -v rabbitmq-server >/dev/null || test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    echo "installing rabbitmq-server with apt ..."; \
	    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
	      apt-get install -qq -y --no-install-recommends rabbitmq-server >/dev/null; \
	  else \
	    echo "The tests need RabbitMQ 3.10 or newer, and rabbitmq-server is not on the path." >&2; \
	    echo "Install it, for example: sudo apt-get install rabbitmq-server, or: brew install rabbitmq" >&2; exit 1; \
	  fi; }

test: $(READY) rabbitmq ## run every test; narrow it with ARGS="-k retry"
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist loadscope $(ARGS)

lint: $(READY) ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## check types, strictly
	$(BIN)/mypy

layers: $(READY) ## check who may import whom, and that the pure core is pure
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/architecture

check: lint types layers test ## all of the above

format: $(READY) ## put the code in shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-engine: $(READY) ## time the decider, and weigh the state of long loops
	$(BIN)/python -m bench.engine

bench-startup: $(READY) ## time `redrive validate`, and `redrive run` cold and warm, from start to end
	$(BIN)/python -m bench.startup_validate
	$(BIN)/python -m bench.startup

bench-templates: $(READY) ## time the evaluation of typical rules
	$(BIN)/python -m bench.templates $(ARGS)

bench-throughput: $(READY) rabbitmq ## time the whole system: 1,000 executions of 5 steps
	$(BIN)/python -m bench.throughput $(ARGS)

bench-latency: $(READY) rabbitmq ## time single steps while the whole system is idle
	$(BIN)/python -m bench.latency $(ARGS)

bench-loop: $(READY) rabbitmq ## time long loops on the whole system; the longest with ARGS=--full
	$(BIN)/python -m bench.loop $(ARGS)

bench-delays: $(READY) rabbitmq ## time how late retries come, by the ladder alone and by the whole system
	$(BIN)/python -m bench.delays $(ARGS)

bench-compare: $(READY) rabbitmq ## measure Celery and Prefect beside Redrive, on the same servers; installs them elsewhere
	$(BIN)/python -m bench.compare $(ARGS)

docs: $(READY) ## bring the generated parts of the documentation up to date
	$(BIN)/python -m tests.support.reference

constraints: ## resolve constraints.txt anew from pyproject.toml
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch/venv" && \
	"$$scratch/venv/bin/python" -m pip install -qq '.[$(EVERY_EXTRA)]' hatchling editables && \
	{ echo "# The exact versions that redrive is built and tested with, for all extras together."; \
	  echo "# Regenerate with 'make constraints'; do not edit by hand."; \
	  "$$scratch/venv/bin/python" -m pip freeze --exclude redrive \
	    | awk -F== '{ name = tolower($$1); gsub(/[_.]+/, "-", name); print name "==" $$2 }' | LC_ALL=C sort; \
	} > "$$scratch/constraints.txt" && cp "$$scratch/constraints.txt" constraints.txt

clean: ## remove .venv, caches and build output
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build backend is pinned as well: PIP_CONSTRAINT reaches the build environment in older pips,
# PIP_BUILD_CONSTRAINT in newer ones.
$(READY): WANTED := $(EXTRAS)
$(RUNS): WANTED := $(RUNTIME)
$(READY) $(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "redrive needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>/dev/null || echo missing)." >&2; \
	  echo "Name another one, for example: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "'$(PYTHON) -m venv' failed; the package python3-venv may be missing." >&2; exit 1; }
	@echo "installing redrive[$(WANTED)] into $(VENV) ..."
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
	  $(BIN)/python -m pip install -qq -c constraints.txt -e '.[$(WANTED)]'
	@$(BIN)/python -m compileall -q services shared
	@touch $@ $(RUNS)
	@echo "ready: $(BIN)/redrive"
