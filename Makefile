# Two commands do all their own set-up on a machine with Python 3.11 to 3.14: `make demo` and `make test`.
# PYTHON=/path/to/python says which; otherwise the first that fits is taken.
VENV := .venv
BIN := $(VENV)/bin

# What the native kernel is made from: an installation compiles it, and so does make when they have changed since.
KERNEL_SOURCES := vfl/crypto/native/build.py $(wildcard vfl/crypto/native/*.[ch])

.PHONY: demo test thorough planted mutants studies hostile interruptions soak benchmarks lint platforms release docs protos clean

demo: $(VENV)/.installed $(VENV)/.kernel
	$(BIN)/plumbline audit --data breast_cancer --name demo

test: $(VENV)/.installed-dev $(VENV)/.kernel lint
	# One thread of linear algebra per worker: more of them wait for each other.
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "not compose and not hostile_long and not studies and not thorough"

# What lights say of leaks of a known size, over 2,000 runs of each kind rather than 200: some minutes.
planted: $(VENV)/.installed-dev
	PLANTED_RUNS=2000 OMP_NUM_THREADS=1 $(BIN)/pytest tests/unit/plumbline/judge/test_planted.py

# What `make test` has one of, such as three parties where it has two: some minutes.
thorough: $(VENV)/.installed-dev $(VENV)/.kernel
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m thorough

# 400 small faults in what must not be wrong, one at a time: at least 85 % fail a test that runs their line. Hours.
mutants: $(VENV)/.installed-dev $(VENV)/.kernel
	$(BIN)/python -m scripts.mutants

# A quick run of every study of the papers, and a look at its page.
studies: $(VENV)/.installed-dev $(VENV)/.kernel
	$(BIN)/pytest -m studies tests/browser/test_quick_studies.py

# The hostile suite, whole: at least 2,000 messages per call, storms, kills, every link and fault. It measures time, so
# it runs alone, on one worker.
hostile: $(VENV)/.installed-dev $(VENV)/.kernel
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/hostile tests/fault/test_deaths.py tests/soak

# Federations of both protocols are trained, asked, killed, stopped, cut off, filled up and set wrong, in an order drawn
# from a seed that it prints; SOAK_SEED repeats one.
SOAK_SECONDS ?= 1200
SOAK_SEED ?=
soak: $(VENV)/.installed-dev $(VENV)/.kernel
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# Trainings in which a party is killed at 30 random places for each role, of two and three parties, under both protocols:
# some minutes.
interruptions: $(VENV)/.installed-dev $(VENV)/.kernel
	INTERRUPTIONS=30 OMP_NUM_THREADS=1 $(BIN)/pytest tests/fault/test_interrupted_trainings.py

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

# Regenerate the committed stubs after a change of a .proto file.
protos: $(VENV)/.installed-dev
	$(BIN)/python -m protos.generate

$(VENV)/bin/python:
	scripts/make-venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev,lab,postgres]"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@ $(VENV)/.installed

# Without a compiler it says so, every time, and the portable kernel runs.
$(VENV)/.kernel: $(KERNEL_SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m vfl.crypto.native && touch $@ || true

clean:
	rm -rf $(VENV) build dist
