# Every target sets up what it needs in .venv; a fresh machine needs only Python >= 3.10 and make.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 2

.PHONY: demo test test-slow test-lowest test-python test-package docs fuzz lint bench bench-web experiments clean

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[plot]"
	touch $@

# torch goes first and alone: a later package that asks for "torch" then finds the CPU build already there
.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps syne-tune  # it asks for xgboost with CUDA
	touch $@

demo: .venv/core
	$(BIN)/epochcast demo --plot demo.png

test: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-slow: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

# the core part: what needs torch or a framework is skipped
test-lowest:
	$(PYTHON) scripts/test_versions.py --lowest 3.10

test-python:
	$(PYTHON) scripts/test_versions.py 3.10 3.12 3.13

# the wheel in an empty environment of each Python that is installed, and the tests of the unpacked sdist
test-package: .venv/dev
	$(BIN)/python scripts/try_package.py 3.10 3.11 3.12 3.13
	$(BIN)/python scripts/try_package.py --sdist 3.11

# strictly: a warning fails; the site is then in site/
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	$(BIN)/python scripts/check_site.py site

fuzz: .venv/dev
	$(BIN)/python fuzz/forecasts.py --count 20000 --seed 0
	$(BIN)/python fuzz/stoppers.py --states 70000 --stoppers 10000 --seed 0
	$(BIN)/python fuzz/logs.py --mutations 5000 --seed 0

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev
	$(BIN)/python benchmarks/run.py --out docs/research/speed.md

# wants Chromium
bench-web: .venv/dev
	$(BIN)/python benchmarks/web_load.py --first-paint
	$(BIN)/python benchmarks/web_load.py

experiments: .venv/dev
	$(BIN)/epochcast evaluate prior --model lcpfn
	$(BIN)/epochcast evaluate prior --model stream
	$(BIN)/python research/compare_peers.py $(addprefix --data ,$(wildcard ../shared/data)) --data digits_bench

clean:
	rm -rf .venv site demo.png
