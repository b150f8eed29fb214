# Every command of the project. `make help` lists them; each one sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OLDEST := .venv-oldest

.DEFAULT_GOAL := help
.PHONY: help demo test coverage slow fuzz faults check package smoke bench results reproduce test-oldest docs docs-serve lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# $(call install,folder,lock file)
define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kampong needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check -r $(2)
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endef

$(STAMP): requirements/locked.txt pyproject.toml
	$(call install,$(VENV),requirements/locked.txt)
	@touch $@

$(OLDEST)/.installed: requirements/oldest.txt pyproject.toml
	$(call install,$(OLDEST),requirements/oldest.txt)
	@touch $@

demo: $(STAMP) ## digits as a stream, compared with two peers, killed and continued, one unlearnt; a report in demo-output
	$(BIN)/kampong demo --folder demo-output

# One thread of BLAS a worker: the threads of several workers would wait for each other on the same cores.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# Native tracebacks: pytest's own parse the source, which Python 3.11.7 may refuse while another thread compiles.
WORKERS := -n auto --dist worksteal --tb=native

test: $(STAMP) ## every test but the slow ones
	$(ONE_THREAD) $(BIN)/python -m pytest -m "not slow" $(WORKERS) -q

coverage: $(STAMP) ## the same tests, and which statements they run; takes 1.4 times as long
	$(ONE_THREAD) $(BIN)/python -m pytest -m "not slow" $(WORKERS) -q --cov --cov-report=
	@$(BIN)/coverage report --sort=cover | sed -n '1,12p;$$p'

slow: $(STAMP) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow -q

fuzz: $(STAMP) ## the attackers of tests/fuzz, for an hour
	PYTHONPATH=tests $(ONE_THREAD) $(BIN)/python -W ignore -m fuzz 3600

faults: $(STAMP) ## what signals, full disks and changed sources do to a run, as a table
	PYTHONPATH=tests $(ONE_THREAD) $(BIN)/python -m fuzz.faults

# Left out there: kills, resumed runs, attackers, examples and benchmarks. They take two fifths of the time, and try our
# files and offsets, or calls that other tests make too, which no version of a library changes.
OURS_ALONE := $(addprefix --ignore=tests/,streaming/test_kill.py streaming/test_resume_matrix.py \
  streaming/test_next_source.py streaming/test_untrusted.py project)

SHARE ?= 1

test-oldest: $(OLDEST)/.installed ## the tests on the oldest versions we promise to support; SHARE=4 runs one of four
	$(ONE_THREAD) KAMPONG_EXAMPLES=8 $(OLDEST)/bin/python -m pytest -m "not slow" $(WORKERS) -q --share $(SHARE) tests $(OURS_ALONE)

check: $(STAMP) ## ruff, mypy strict, import layers, numpydoc, codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/numpydoc lint $$(find src -name '*.py')
	$(BIN)/codespell

package: $(STAMP) ## wheel and sdist in dist, checked as a package index checks them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/release.txt
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/twine check --strict dist/*

smoke: ## the wheel of `make package` in an environment of its own: its version, a fit, a stream
	python3 -m venv --clear build/smoke
	build/smoke/bin/python -m pip install --quiet --no-compile --disable-pip-version-check "$$(ls dist/*.whl)[stream]"
	cd build/smoke && bin/kampong --version && bin/python -W error -c "from sklearn.datasets import load_iris; \
	  from kampong import FisherDiscriminant; X, y = load_iris(return_X_y=True); \
	  assert FisherDiscriminant().fit(X, y).score(X, y) > 0.97" && \
	  printf 'x,kind\n%s' "$$(seq -f '%g,a' 1 9; seq -f '%g,b' 21 29)" > rows.csv && \
	  bin/kampong learn rows.csv --label kind --half-life none --model rows.kampong --quiet && bin/kampong report rows.kampong

reproduce: $(STAMP) ## the tables and figures of the papers, beside what they printed
	$(BIN)/kampong reproduce all --out papers-output

bench: $(STAMP) ## speed and memory against peers, as ratios in one run
	$(BIN)/python -m benchmarks

results: $(STAMP) ## run every benchmark and keep what it prints for the site (hours); say which pages to read again
	$(ONE_THREAD) $(BIN)/python -m benchmarks --out docs/benchmarks/results

$(VENV)/.docs: $(STAMP) requirements/docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/docs.txt
	@touch $@

SITE := build/site

docs: $(VENV)/.docs ## the site in build/site, gallery included; a warning or a broken link is an error
	$(ONE_THREAD) $(BIN)/python -m sphinx -b html -W -n -q -j 2 -d build/doctrees docs $(SITE)
	$(BIN)/python docs/check_links.py $(SITE)

docs-serve: docs ## the site on http://localhost:8000
	$(BIN)/python -m http.server --directory $(SITE) --bind localhost 8000

lock: ## write the locked versions again (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --group dev --extra plot --extra stream --output-file requirements/locked.txt pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --group oldest --extra stream --constraint requirements/oldest.in --output-file requirements/oldest.txt pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --group spark --constraint requirements/locked.txt --output-file requirements/spark.txt pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --group docs --constraint requirements/locked.txt --output-file requirements/docs.txt pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --group release --constraint requirements/locked.txt --output-file requirements/release.txt pyproject.toml

clean: ## remove what the commands above made
	rm -rf $(VENV) $(OLDEST) dist .coverage demo-output papers-output build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
