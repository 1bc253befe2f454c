# Each target does all of its own set-up, also on a fresh Debian machine.

PYTHON_IN_VENV = .venv/bin/python

.PHONY: demo test lint bench bench-report bench-verdicts bench-overhead format bless clean

demo: ## compare the real bundles of examples/, write their HTML reports
	@scripts/setup demo
	@scripts/demo

test: ## run all tests
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m pytest $(PYTEST_OPTIONS)

lint: ## ruff, mypy, import-linter, the Python floor of the collectors
	@scripts/setup test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vermin --quiet --no-tips --violations --target=3.9- collectors

bench: ## print speed figures, each beside what it is compared with
	@scripts/setup test
	@for program in bench/*.py; do echo; $(PYTHON_IN_VENV) $$program || exit 1; done

bench-report: ## build reports of three sizes and open them in a browser
	@scripts/setup test
	@$(PYTHON_IN_VENV) bench/report.py

bench-verdicts: ## count how often verdicts are right, ours beside other tools' (some minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.verdicts $(VERDICTS_OPTIONS)

bench-overhead: ## measure what each collector costs, here and in a guest (some minutes)
	@scripts/setup test
	@$(PYTHON_IN_VENV) -m bench.overhead $(OVERHEAD_OPTIONS)

format: ## lay the code out
	@scripts/setup test
	.venv/bin/ruff check --fix-only --exit-zero .
	.venv/bin/ruff format .

bless: ## rewrite the golden files from what the code prints now
	@scripts/setup test
	@SCHEDPERF_BLESS=1 $(PYTHON_IN_VENV) -m pytest -q tests -k golden

clean: ## remove what the other targets made
	rm -rf .venv out .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
