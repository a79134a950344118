# Everything sets itself up in .venv of this checkout; it needs Rust, Python 3.10+ and a C compiler.

# A bench that fails is not hidden by what its output is piped into.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# cmake and nasm, where this checkout brings them.
export PATH := $(abspath .tools/bin):$(PATH)
# How to build with libjpeg-turbo, if that can be done here.
TURBO = $(addprefix --features ,$(addprefix $(1),$(shell cat .tools/turbo)))
SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock pyproject.toml

.PHONY: demo test test-rust test-python test-page test-jax test-torch test-tensorflow test-frameworks test-integrations
.PHONY: bench bench-doctor bench-memory bench-metering bench-tuning check fmt fuzz clean

demo: $(VENV)/built .venvs/jax/ready
	$(call WITH,jax) examples/demo.py

test: test-rust test-python test-jax test-page

test-rust: .tools/turbo
	cargo test --workspace --exclude feedline-py $(call TURBO,feedline/)
	cargo test -p feedline-io --features remote
	cargo test -p feedline --features shuttle --test shuttle

test-python: $(VENV)/built-checked
	$(PY) -m pytest --ignore tests/page

# The page and the report in a headless Chromium, which is fetched if this machine has none; screenshots stay in
# target/page.
test-page: $(VENV)/built-checked .tools/bin/chromium-headless
	$(PY) -m pytest tests/page

.tools/bin/chromium-headless: tools/chromium.sh
	tools/chromium.sh

# Training frameworks, each in an environment of its own, which uses the package that .venv has built.
FRAMEWORKS := jax torch tensorflow
WITH = PYTHONPATH=$(abspath crates/feedline-py/python) .venvs/$(1)/bin/python

test-frameworks: $(addprefix test-,$(FRAMEWORKS)) test-integrations

$(addprefix test-,$(FRAMEWORKS)): test-%: $(VENV)/built-checked .venvs/%/ready
	KERAS_BACKEND=$* $(call WITH,$*) -m pytest tests/frameworks

# Rust's training frameworks: a workspace of its own, since they take minutes to build.
test-integrations:
	cd integrations && cargo test
	cd integrations && cargo run --example digits_burn
	cd integrations && cargo run --example digits_candle

.venvs/%/ready: tests/frameworks/requirements/%.txt tests/frameworks/requirements/base.txt
	$(PYTHON) -m venv .venvs/$*
	.venvs/$*/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

bench: $(VENV)/built
	$(PYTHON) bench/run.py
	$(PYTHON) bench/memory.py
	cargo bench -p feedline-cli --bench scan | tee bench/results/scan.txt
	cargo bench -p feedline --bench resume | tee bench/results/resume.txt
	cargo bench -p feedline --bench straggler | tee bench/results/straggler.txt
	cargo bench -p feedline --bench pictures $(call TURBO,) | tee bench/results/pictures.txt
	cargo bench -p feedline-image --bench pictures $(call TURBO,feedline-image/)

# How right the doctor's predictions are: wants a machine that has nothing else to do.
bench-doctor: $(VENV)/built
	$(PY) bench/doctor.py

# What AUTOTUNE reaches beside configurations set by hand: the same.
bench-tuning: $(VENV)/built
	$(PY) bench/tuning.py

# What pipelines take of memory, beside tf.data.
bench-memory: $(VENV)/built
	$(PYTHON) bench/memory.py

# What metering costs, in instructions: wants valgrind.
bench-metering:
	$(PYTHON) bench/metering.py

# Every parser with made-up bytes, some minutes each; what is new goes into fuzz/corpus.
fuzz: .tools/turbo
	tools/fuzz.sh

check: $(VENV)/built-checked
	cargo fmt --all --check
	cd integrations && cargo fmt --all --check
	cargo clippy --workspace --all-targets $(call TURBO,feedline/) -- -D warnings
	$(PY) tools/generate.py --check
	$(PY) -m ruff check crates/feedline-py/python tests bench tools examples
	$(PY) -m mypy crates/feedline-py/python/feedline

$(VENV)/tools: requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

.tools/turbo: $(VENV)/tools tools/turbo.sh
	tools/turbo.sh

# The package is installed in place: Python files are used as they are, the compiled part is made when it changed. Tests
# run with overflow and debug checks on, everything else with the optimised build; one takes the place of the other.
$(VENV)/built: $(VENV)/tools .tools/turbo $(SOURCES)
	VIRTUAL_ENV=$(abspath $(VENV)) $(VENV)/bin/maturin develop --release --quiet $(call TURBO)
	rm -f $(VENV)/built-checked
	touch $@

$(VENV)/built-checked: $(VENV)/tools .tools/turbo $(SOURCES)
	VIRTUAL_ENV=$(abspath $(VENV)) $(VENV)/bin/maturin develop --quiet $(call TURBO)
	rm -f $(VENV)/built
	touch $@

fmt:
	cargo fmt --all
	cd integrations && cargo fmt --all
	$(PY) -m ruff format crates/feedline-py/python tests bench tools examples

clean:
	rm -rf $(VENV) .venvs .tools target integrations/target
