# Two commands do all their own set-up on a machine with Python 3.11 to 3.14: `make demo` and `make test`.
# PYTHON=/path/to/python says which; otherwise the first that fits is taken.
VENV := .venv
BIN := $(VENV)/bin
# The demo's own: what development needs would put other versions of libraries under a federation that runs.
DEMO := .venv-demo

# What the native kernel is made from: an installation compiles it, and so does make when they have changed since.
KERNEL_SOURCES := vfl/crypto/native/build.py $(wildcard vfl/crypto/native/*.[ch])

# Whatever isn't among the tests of `make test` is one of `make check`.
TESTS := tests/unit tests/docs tests/integration/test_whole_life.py
# One thread of linear algebra per worker: more of them wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest
ON_CORES := -n 2 --dist worksteal
EVERYDAY := -m "not compose and not hostile_long and not studies and not thorough"

.PHONY: demo test check tests beyond unhurried thorough any-order planted mutants studies hostile interruptions soak benchmarks lint \
	platforms release docs compose protos clean

demo: $(DEMO)/.installed $(DEMO)/.kernel
	$(DEMO)/bin/plumbline audit --data breast_cancer --name demo
	@echo "And beside it, as the literature has it: sixty epochs of plain steps."
	$(DEMO)/bin/plumbline audit --data breast_cancer --name demo-plain --quiet --set steps=plain --set calibrated=false
	$(DEMO)/bin/plumbline runs compare demo-plain demo

# What every change is tried with: style and types beside the tests, which leave no core idle.
test: $(VENV)/.installed-dev $(VENV)/.kernel
	$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(VENV)/.installed-dev $(VENV)/.kernel
	$(PYTEST) $(ON_CORES) $(EVERYDAY) --costs build/costs/test.json $(TESTS)

# Everything else that continuous integration runs. Beside containers, which are waited for, runs what needs the cores.
check: $(VENV)/.installed-dev $(VENV)/.installed-docs $(VENV)/.kernel
	$(MAKE) --no-print-directory beyond
	$(MAKE) --no-print-directory platforms
	$(MAKE) --no-print-directory --jobs 2 compose unhurried

unhurried:
	nice $(MAKE) --no-print-directory studies release docs

beyond: $(VENV)/.installed-dev $(VENV)/.kernel
	$(PYTEST) $(ON_CORES) $(EVERYDAY) --costs build/costs/check.json tests $(TESTS:%=--ignore=%)

# The tests of `make test` in random order, and once more on one worker: no outcome may depend on its neighbours.
# ORDER_SEED draws another order.
ORDER_SEED ?= 1
any-order: $(VENV)/.installed-dev $(VENV)/.kernel
	$(PYTEST) $(ON_CORES) $(EVERYDAY) --random-order --random-order-seed $(ORDER_SEED) $(TESTS)
	$(PYTEST) $(EVERYDAY) $(TESTS)

# What lights say of leaks of a known size, over 2,000 audits of each of many kinds (docs/measure.md keeps the table), of
# messages about nobody, over 1,000, and of shuffled received columns, over 200: some hours.
planted: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m scripts.planted_table --draws 2000
	PLANTED_RUNS=1000 $(PYTEST) tests/unit/plumbline/judge/test_label_chance.py
	PLANTED_RUNS=200 $(PYTEST) tests/unit/plumbline/received/test_shuffled.py

# What the two have one of, such as three parties where they have two, and 200 examples of every property where they
# have 20: a quarter of an hour.
thorough: $(VENV)/.installed-dev $(VENV)/.kernel
	$(PYTEST) $(ON_CORES) -m "thorough or (hypothesis and not hostile_long)" --hypothesis-profile thorough

# 400 small faults in what must not be wrong, one at a time: at least 85 % fail a test that runs their line. Hours.
mutants: $(VENV)/.installed-dev $(VENV)/.kernel
	$(BIN)/python -m scripts.mutants

# A quick run of every study of the papers, and a look at its page.
studies: $(VENV)/.installed-dev $(VENV)/.kernel
	$(BIN)/pytest -m studies --costs build/costs/studies.json tests/browser/test_quick_studies.py

# The hostile suite, whole: at least 2,000 messages per call, storms, kills, every link and fault. It measures time, so
# it runs alone, on one worker.
hostile: $(VENV)/.installed-dev $(VENV)/.kernel
	$(PYTEST) tests/hostile tests/fault/test_deaths.py tests/soak

# Federations of both protocols are trained, asked, killed, stopped, cut off, filled up and set wrong, in an order drawn
# from a seed that it prints; SOAK_SEED repeats one.
SOAK_SECONDS ?= 1200
SOAK_SEED ?=
soak: $(VENV)/.installed-dev $(VENV)/.kernel
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# Trainings in which a party is killed at 30 random places for each role, of two and three parties, under both protocols:
# some minutes.
interruptions: $(VENV)/.installed-dev $(VENV)/.kernel
	INTERRUPTIONS=30 $(PYTEST) tests/fault/test_interrupted_trainings.py

# Every subject of `plumbline bench`, and docs/benchmarks.md made from what was found: about ten minutes, alone on the
# machine. Beside ours stand what is installed of phe, sf-heu and openmined-psi.
benchmarks: $(VENV)/.installed-dev $(VENV)/.kernel
	OMP_NUM_THREADS=1 $(BIN)/python -m studies.speed.page --measure

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m protos.generate --check

# Wheels for every platform, and audit and unit tests on the other Pythons of this machine.
platforms: $(VENV)/.installed-dev
	$(BIN)/python -m scripts.platforms

# Wheel, sdist, bill of materials and checksums of the last commit, in dist/; each made twice, the same to the byte.
release: $(VENV)/.installed-dev
	$(BIN)/python -m scripts.release

# The site, with build/site/index.html as its first page. A broken link or anchor fails.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The compose file on a Docker engine; without one its tests are skipped.
compose: $(VENV)/.installed-dev
	$(BIN)/pytest -m compose tests/compose

# Regenerate the committed stubs after a change of a .proto file.
protos: $(VENV)/.installed-dev
	$(BIN)/python -m protos.generate

$(VENV)/bin/python $(DEMO)/bin/python:
	scripts/make-venv $(@D:/bin=)

$(DEMO)/.installed: pyproject.toml | $(DEMO)/bin/python
	$(DEMO)/bin/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml scripts/install-dev | $(VENV)/bin/python
	scripts/install-dev $(BIN)/python
	touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# Without a compiler it says so, every time, and the portable kernel runs.
$(VENV)/.kernel $(DEMO)/.kernel: %/.kernel: $(KERNEL_SOURCES) | %/bin/python
	$*/bin/python -m vfl.crypto.native && touch $@ || true

clean:
	rm -rf $(VENV) $(DEMO) build dist
