# `make` alone lists what there is. Every target builds its environment first, if need be.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
PYTEST := $(BIN)/python -m pytest
# Two workers; a file's tests stay together, so that a server is started once.
BY_FILE := -n2 --dist loadfile
# Two workers that share no server, or have a Spark each: who is done takes tests from the other.
WORK_STEALING := -n2 --dist worksteal
# Their files alone are imported, by each worker: all others take longer than ten of these tests.
SPARK_FILES = $(shell grep -rlE 'mark\.spark\b' tests --include='test_*.py' --exclude-dir=cluster \
	--exclude-dir=compat | sort)
# Not even imported by targets that run none of their tests.
NOT_THESE_DIRS := $(addprefix --ignore=tests/,cluster compat)
SEED ?= $(shell date +%s)
MAKEFLAGS += --no-print-directory
# Where it is set, each start of Python, and pytest for each test file, would compile anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test-install test test-core test-spark test-cluster test-fast test-nightly check fmt lint types test-compat test-random-hudi fuzz sim sim-nightly test-long-run soak bench generate-docs site site-serve update-constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## Make the virtual environment (.venv)

$(READY): pyproject.toml constraints.txt scripts/dev.py
	@$(PYTHON) scripts/dev.py

demo: $(READY) ## Take the guided tour on a local Spark: upserts, conflicts, a crash, time travel
	@$(BIN)/hoodoo demo

test-install: $(READY) ## Play a user's first hour with a wheel of this clone (SCENES='frames stream')
	@$(BIN)/python scripts/first_hour.py $(SCENES)

test: test-core test-spark ## Run all tests except those that need Apache Hudi itself or a cluster

test-core: $(READY) ## Run the tests that need no Spark
	$(PYTEST) $(BY_FILE) -m "not spark and not nightly" $(NOT_THESE_DIRS)

test-spark: $(READY) ## Run the tests that need Spark, in two sessions
	$(PYTEST) $(WORK_STEALING) -m "spark and not nightly" $(SPARK_FILES)

test-cluster: $(READY) ## Break executors, tasks and drivers of a real Spark cluster
	$(PYTEST) -m cluster

test-fast: $(READY) ## Run the tests that need no server and little time
	$(PYTEST) $(WORK_STEALING) -q -m "not slow and not server and not spark and not nightly" $(NOT_THESE_DIRS)

test-nightly: fuzz ## Run what is too long for CI: broken files, more kills, more runs of the simulator (SEED=n)
	$(PYTEST) $(BY_FILE) -m nightly
	HOODOO_MODEL_HISTORIES=200 $(PYTEST) tests/oracle/test_model.py
	HOODOO_MODEL_HISTORIES=25 $(PYTEST) $(BY_FILE) $$(grep -rl 'import histories' tests/oracle tests/write tests/services)

check: ## Run exactly what CI runs: lint, types, site, test, test-compat
	@.ci/run

fmt: $(READY) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY) ## Check types (mypy, strict for src)
	$(BIN)/mypy

test-compat: $(READY) ## Read and write tables side by side with Apache Hudi (fetches it once)
	$(PYTEST) $(BY_FILE) -m "not nightly" tests/compat

test-random-hudi: $(READY) ## Write random histories with Apache Hudi on shared tables (SEED=n N=10 STEPS=40 ONLY=1,5)
	PYTHONPATH=tests$(if $(PYTHONPATH),:$(PYTHONPATH)) $(BIN)/python tests/compat/histories.py --seed $(SEED) \
		--count $(or $(N),10) --steps $(or $(STEPS),40) $(if $(ONLY),--only $(ONLY))

fuzz: $(READY) ## Feed the readers broken files, five times as many as the tests do (SEED=n)
	HOODOO_FUZZ_SEED=$(SEED) HOODOO_FUZZ_TABLE=400 HOODOO_FUZZ_CODEC=200 $(PYTEST) tests/fuzz -q -s

sim: $(READY) ## Simulate writers, crashes and clocks (SCENARIO=name SEED=n N=seeds SCRIPT='...')
	$(BIN)/python -m hoodoo_testing.simulator --seed $(SEED) $(if $(SCENARIO),--scenario $(SCENARIO)) \
		$(if $(SCRIPT),--script '$(SCRIPT)' --trace,--count $(or $(N),1))

sim-nightly: HOODOO_SIM_SEEDS ?= 20000
sim-nightly: $(READY) ## Simulate each scenario 20,000 times, from another seed (SEED=n)
	$(BIN)/python -m hoodoo_testing.simulator --jobs 2 --seed $(SEED) --count $(HOODOO_SIM_SEEDS)
	$(BIN)/python -m hoodoo_testing.simulator --scenario same-group --preemptions 2 --cap 5000

test-long-run: $(READY) ## Live through 2,000 commits with services and crashes, and draw docs/life.svg (COMMITS=n ENDS=1)
	PYTHONPATH=tests$(if $(PYTHONPATH),:$(PYTHONPATH)) $(BIN)/python -m life --commits $(or $(COMMITS),2000) \
		$(if $(ENDS),--ends,--svg docs/life.svg)

soak: $(READY) ## Kill and stop colliding writers (MINUTES=10 KIND=cow|mor STORE=local|s3 LOCK= BESIDE_HUDI=1 INDEXES=1 SEED=n)
	PYTHONPATH=tests$(if $(PYTHONPATH),:$(PYTHONPATH)) $(BIN)/python -m soak --seed $(SEED) \
		--minutes $(or $(MINUTES),10) --kind $(or $(KIND),cow) --store $(or $(STORE),local) \
		--lock $(or $(LOCK),storage) $(if $(BESIDE_HUDI),--beside-hudi) $(if $(INDEXES),--indexes)

bench: $(READY) ## Measure reading, opening, listing, commits, and Spark beside its peers (half an hour)
	$(BIN)/python -m bench

generate-docs: $(READY) ## Write the generated pages of docs/
	$(BIN)/python scripts/reference.py

# Its theme advertises a successor at each start.
site site-serve: export NO_MKDOCS_2_WARNING = 1
site: $(READY) ## Build the docs site into build/site; a broken link is an error
	$(BIN)/mkdocs build --strict

site-serve: $(READY) ## Show the docs site on this machine (PORT=8000), and follow changes
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(or $(PORT),8000)

update-constraints: $(READY) ## Pin the newest versions of all packages in constraints.txt
	$(BIN)/uv pip compile pyproject.toml --extra test --extra docs --upgrade --quiet -o constraints.txt \
		--universal --python-version 3.11 --no-annotate \
		--custom-compile-command "make update-constraints (one set for Python 3.11 and newer)"

clean: ## Remove the environment, caches and the demo table
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo-table
	find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
