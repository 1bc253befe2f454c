# SPDX-License-Identifier: GPL-2.0-or-later
# Each target installs its requirements, even on a fresh Debian machine.

PYTHON_IN_VENV = .venv/bin/python
# Where it is set, each process compiles all modules again, which takes three times as long as to load
# them.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for other processes: one worker more than CPUs keeps all CPUs busy. Slow tests wait most
# of the time; an emulated guest needs a CPU, and is taken for hung if it gets less.
WORKERS = $(shell expr $$(nproc) + 1)
test-vm: WORKERS = $(shell nproc)
test-slow: WORKERS = $(shell expr 3 '*' $$(nproc))
# Thousands of short tests are given out by file, a few long ones one by one.
test check: BY_FILE = --by-file
PYTEST = $(PYTHON_IN_VENV) -m pytest --numprocesses $(WORKERS) --dist loadgroup $(BY_FILE)

# Every test belongs to exactly one of "test", "test-browser", "test-vm" and "test-slow", except that
# "test-slow" also repeats tests of "test" with more inputs and property tests with more examples, which
# .ci/run leaves out (EACH_ONCE=1); "check" is the fast part of "test".
TEST = not vm and not browser and not slow and not repeats
CHECK = $(TEST) and not system and not property
SLOW = slow$(if $(EACH_ONCE),, or repeats or property)
# Where these tests are, since all files take long to import; PYTEST_OPTIONS may name others.
PLACES = $(if $(filter tests/%,$(PYTEST_OPTIONS)),,$(1))
SLOW_TESTS = $(call PLACES,$(shell grep -rlE 'mark\.(slow|repeats|property)' tests --include=*.py))
BROWSER_TESTS = $(call PLACES,tests/reports tests/schedperf/evidence/profile tests/schedperf/publish)
VM_TESTS = $(call PLACES,tests/collectors/boots tests/end_to_end)

.PHONY: help demo docs man check test test-browser test-vm test-slow lint \
	lint-mypy lint-ruff lint-format lint-imports lint-python39 lint-licence lint-wording \
	bench bench-bisect bench-history bench-site bench-watch bench-report bench-verdicts bench-overhead bench-vm prove-boots \
	prove-account prove-causes prove-lab prove-mails prove-mechanism prove-night prove-outbox prove-series prove-wakeup prove-where format bless clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

demo: ## compare the bundles of examples/ and write their HTML reports
	@scripts/setup demo
	@scripts/demo

docs: ## write the documentation site to out/docs; warnings, e.g. dead links, are errors
	@scripts/setup lint
	@.venv/bin/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going -c docs . out/docs
	@echo "to read it: out/docs/docs/index.html"

man: ## write the man pages to out/man
	@scripts/setup demo
	@$(PYTHON_IN_VENV) scripts/man_pages.py out/man/man1
	@echo "to read them: man -M out/man schedperf"

check: lint ## lint, unit tests and golden tests; run it before every commit
	@scripts/setup check
	@$(PYTEST) -m "$(CHECK)" $(PYTEST_OPTIONS)

test: ## all tests except browser, VM and slow tests
	@scripts/setup test
	@$(PYTEST) -m "$(TEST)" $(PYTEST_OPTIONS)

test-browser: ## tests that open reports in Chromium
	@scripts/setup browser
	@$(PYTEST) -m browser $(PYTEST_OPTIONS) $(BROWSER_TESTS)

test-vm: ## tests that boot kernels in QEMU
	@scripts/setup vm
	@$(PYTEST) -m vm $(PYTEST_OPTIONS) $(VM_TESTS)

test-slow: ## simulated verdicts, real benchmarks; tests of "test" with up to 100 times as many inputs
	@scripts/setup test
	@$(PYTEST) --hypothesis-profile long -m "$(SLOW)" $(PYTEST_OPTIONS) $(SLOW_TESTS)

lint: ## ruff, mypy, import-linter, Python 3.9 for the collectors, licence headers, wording
	@scripts/setup lint
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target \
		lint-mypy lint-ruff lint-format lint-imports lint-python39 lint-licence lint-wording

lint-mypy:
	.venv/bin/mypy

lint-ruff:
	.venv/bin/ruff check .

lint-format:
	.venv/bin/ruff format --check .

lint-imports:
	.venv/bin/lint-imports

lint-python39:
	.venv/bin/vermin --quiet --no-tips --violations --target=3.9- collectors

lint-licence:
	$(PYTHON_IN_VENV) scripts/licence.py

lint-wording:
	$(PYTHON_IN_VENV) scripts/wording.py

bench: ## measure the speed of schedperf, compared with other tools
	@scripts/setup bench
	@for program in bench/*.py; do echo; $(PYTHON_IN_VENV) $$program || exit 1; done
	@echo; $(PYTHON_IN_VENV) -m bench.retest

bench-report: ## measure reports of three sizes in a browser
	@scripts/setup browser
	@$(PYTHON_IN_VENV) bench/report.py

bench-verdicts: ## count correct verdicts of schedperf and other tools (some minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.verdicts $(VERDICTS_OPTIONS)

bench-bisect: ## count right first bad commits of the search and of other tools (some minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.bisect $(BISECT_OPTIONS)

bench-history: ## measure the speed of a history, in SQLite and PostgreSQL (ten minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.history $(HISTORY_OPTIONS)

bench-site: ## measure how fast the pages of a lab are published (two minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.site $(SITE_OPTIONS)

bench-watch: ## count false alarms and found steps of the watch and of other tools (ten minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.watch $(WATCH_OPTIONS)

bench-overhead: ## measure the overhead of each collector, here and in a guest (some minutes)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.overhead $(OVERHEAD_OPTIONS)

bench-vm: ## measure the PELT loaders in a guest, and a session of guests (ten minutes)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.vm $(VM_OPTIONS)

prove-boots: ## boot two kernels alternately in guests, with kills and power cuts (an hour; needs root)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.boots $(BOOTS_OPTIONS)

prove-outbox: ## kill the sender of mails before each system call: none twice, none lost (ten minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.outbox $(OUTBOX_OPTIONS)

prove-account: ## compare the time account with GNU time and perf (half a minute; needs root)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.account

prove-where: ## compare preemptions and blocked times with perf (half a minute; needs root)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.where

prove-causes: ## name ten planted causes of a slower workload (a quarter of an hour; needs root)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.causes $(CAUSES_OPTIONS)

prove-mechanism: ## compare the mechanisms of three planted causes (five minutes; needs root)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.mechanism

prove-series: ## find the planted slow commit of a series in guests (half an hour)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.series $(SERIES_OPTIONS)

prove-mails: ## draft and check 1,000 mails with hostile names and up to 500 results (two minutes)
	@scripts/setup test
	@$(PYTEST) -q -m repeats tests/schedperf/publish/mail/test_generated.py $(PYTEST_OPTIONS)

prove-lab: ## run the nights of a simulated lab, with planted changes (a quarter of an hour)
	@scripts/setup test
	@$(PYTEST) -q -m repeats tests/schedperf/lab/night/test_simulated_lab.py $(PYTEST_OPTIONS)

prove-night: ## run a night in two guests up to its mail, killed three times (1.5 hours; needs root)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.night $(NIGHT_OPTIONS)

prove-wakeup: ## check wakeup latencies against perf, and find a planted delay (three minutes; needs root)
	@scripts/setup vm
	@$(PYTHON_IN_VENV) -m bench.wakeup_latency $(WAKEUP_OPTIONS)

format: ## format the code
	@scripts/setup lint
	.venv/bin/ruff check --fix-only --exit-zero .
	.venv/bin/ruff format .

bless: ## rewrite the golden files from the current output
	@scripts/setup browser
	@SCHEDPERF_BLESS=1 $(PYTEST) -q -m golden $(PYTEST_OPTIONS)

clean: ## remove the output of all targets
	rm -rf .venv out .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
