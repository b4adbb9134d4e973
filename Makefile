# Two commands are enough: `make demo` and `make test`. Each sets up .venv itself; a machine needs
# Python 3.11 or newer and make, nothing else.

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-month up test test-long faults mutants scenarios bench bench-quick bench-history bench-peer check format lock images clean distclean

VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# Test processes, each with servers of its own. Most tests wait for leases and polls, not for a CPU.
TEST_PROCESSES ?= 3
PYTEST := $(BIN)/python -m pytest

# $(call run_tests,SETTINGS,WHICH): side by side, then those that measure time, one after the other.
# A selection may leave one of the two with no test at all, which pytest calls 5.
define run_tests
code=0; \
$(1) $(PYTEST) --numprocesses $(TEST_PROCESSES) --dist worksteal \
    -m '($(2)) $(AND_PAGES) and not alone' $(PYTEST_ARGS) || [ $$? -eq 5 ] || code=1; \
$(1) $(PYTEST) -m '($(2)) $(AND_PAGES) and alone' $(PYTEST_ARGS) || [ $$? -eq 5 ] || code=1; \
$(if $(CHROMIUM),,echo '$(NO_CHROMIUM)'; )exit $$code
endef
# The pages are walked in a real browser. A machine without one runs everything else, and is told.
BROWSERS := chromium chromium-browser google-chrome-stable google-chrome
CHROMIUM := $(or $(CHOT_TEST_CHROMIUM),$(shell for each in $(BROWSERS); do \
    command -v $$each && break; done))
AND_PAGES := $(if $(CHROMIUM),,and not pages)
NO_CHROMIUM := no Chromium here: the pages were NOT tested (Debian: apt-get install chromium)
FAULTS_ARGS ?=
MONTH_ARGS ?=
MUTANTS_ARGS ?=
SCENARIOS_ARGS ?=
BENCH_ARGS ?=
BENCH_PEER_ARGS ?= --write
# The images run this version; the locks must be resolved by the same one.
LOCK_PYTHON ?= python3.13
DEBIAN_POSTGRES ?= /usr/lib/postgresql/15/bin

help:
	@echo 'make demo       a costing job, killed half-way and finished by another worker (1 min)'
	@echo 'make demo-month a month by jobs alone, twice, the second time with workers killed (90 s)'
	@echo 'make up         the whole platform in the foreground, until Ctrl-C'
	@echo 'make test       the tests (up to an hour on two cores); PYTEST_ARGS="-k lease" narrows them'
	@echo '                the pages in a browser, too, where there is one: apt-get install chromium'
	@echo 'make test-long  also sizes, images, PostgreSQL 15 and the second SQS emulator'
	@echo 'make faults     real processes under seeded faults, then a checker (10 min); docs/faults.md'
	@echo 'make mutants    planted bugs, each killed by its own test (15 min); writes docs/mutants.md'
	@echo 'make scenarios  47 failures of other job systems, tried on this one; writes docs/scenarios.md'
	@echo 'make bench      every figure beside what this machine can do at all (20 min); bench/README.md'
	@echo '                make bench-quick: 2 min; bench-history: five million jobs, hours'
	@echo 'make bench-peer a million movements by every method, beside Tryton (20 min); docs/bench.md'
	@echo 'make check      format, lint, import contracts, types'
	@echo 'make format     let ruff format and fix what it can'
	@echo 'make lock       resolve requirements/*.txt again (needs Python 3.13)'
	@echo 'make images     build both images and run a job through them (needs buildah)'
	@echo 'make clean      remove data, logs and caches; make distclean removes .venv as well'

venv: $(VENV)/installed

# The newest known interpreter that can make a virtual environment; Debian ships some that cannot.
$(VENV)/installed: pyproject.toml requirements/dev.txt
	@set -e; \
	for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
	    if "$$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
	        2>/dev/null; then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo 'Chốt needs Python 3.11 or newer with its venv module (on Debian: apt install' \
	        'python3-venv). Set PYTHON=/path/to/python if it is not on the PATH.' >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ]; then echo "making $(VENV) with $$python"; \
	    "$$python" -m venv $(VENV); fi; \
	echo 'installing into $(VENV)'; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    -c requirements/dev.txt -e '.[api,worker,dev]'; \
	touch $@

demo: venv
	@$(BIN)/python -m dev.demo

demo-month: venv
	@$(BIN)/python -m dev.demo_month $(MONTH_ARGS)

up: venv
	@$(BIN)/python -m dev.stack

test: venv
	$(call run_tests,,not long)

test-long: venv
	$(call run_tests,,long or not long)
	$(call run_tests,CHOT_TEST_SQS_EMULATOR=moto,not long)
	@test -d $(DEBIAN_POSTGRES) || echo 'no PostgreSQL in $(DEBIAN_POSTGRES): its tests will fail'
	$(call run_tests,CHOT_TEST_POSTGRES_BIN=$(DEBIAN_POSTGRES),long or not long)
	if command -v buildah >/dev/null; then $(BIN)/python -m dev.images_check; \
	else echo 'no buildah: images not tested'; fi

mutants: venv
	$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

scenarios: venv
	$(BIN)/python -m tests.scenarios $(SCENARIOS_ARGS)

faults: venv
	$(BIN)/python -m tests.faults $(FAULTS_ARGS)

bench: venv
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-quick: venv
	$(BIN)/python -m bench --scale quick $(BENCH_ARGS)

bench-history: venv
	$(BIN)/python -m bench --scale long $(BENCH_ARGS)

bench-peer: venv
	$(BIN)/python -m bench.beside $(BENCH_PEER_ARGS)

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# LOCK_ARGS may hold --upgrade. dev.txt only narrows what pip may choose (it serves every Python
# from 3.11 on); the images get the versions the tests ran with, and check hashes.
lock: COMPILE = CUSTOM_COMPILE_COMMAND='make lock' $(VENV)-lock/bin/pip-compile --quiet \
    --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options $(LOCK_ARGS)
lock:
	$(LOCK_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))'
	$(LOCK_PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check 'pip-tools>=7.5'
	$(COMPILE) --no-annotate --extra api --extra worker --extra dev \
	    -o requirements/dev.txt pyproject.toml
	$(COMPILE) --generate-hashes --extra api -c requirements/dev.txt \
	    -o requirements/api.txt pyproject.toml
	$(COMPILE) --generate-hashes --extra worker -c requirements/dev.txt \
	    -o requirements/worker.txt pyproject.toml
	rm -rf $(VENV)-lock

images: venv
	$(BIN)/python -m dev.images_check

clean:
	rm -rf .chot build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache \
	    .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(VENV)-lock $(VENV)-peer
