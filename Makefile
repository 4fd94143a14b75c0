# What can be done here: `make help`.
PYTHON ?= python3
BIN := .venv/bin
BUILD := build
TORCH := .venv-torch/bin
LEARN := .venv-learn/bin
BENCH := .venv-bench/bin
AUDIT := .venv-audit/bin

# An environment with what the lock names, refused where a file has another hash. This project
# comes after it: an editable install has no hash. Argument: the folder of the environment's
# programs.
define locked
test -x $(1)/python || $(PYTHON) -m venv $(patsubst %/,%,$(dir $(1)))
$(1)/pip install -q --require-hashes -r requirements.lock
endef

.DEFAULT_GOAL := help
.PHONY: applications pipelines help env run test test-fast pytest bench bench-gpu gpu-cases fuzz guard guard-tests mutants native sanitize onnx-suite onnx-suite-gpu zoo torch-exports lint format irdl golden docs clean typing wheel audit release node-mutants slices two-paths scripts every-case nightly

help:  ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

env: $(BIN)/.installed typing  ## Make .venv: all dependencies as locked, and this project, editable

$(BIN)/.installed: pyproject.toml packaging/runtime/pyproject.toml requirements.lock
	$(call locked,$(BIN))
	$(BIN)/pip install -q --no-deps --no-build-isolation -e packaging/runtime -e .
	$(BIN)/pip check -q
	touch $@

run: env  ## Compile and run the example model
	$(BIN)/python -m examples.classify_fashion

# The C library overwrites freed memory, so that a use of an erased operation fails each time.
test test-fast pytest every-case two-paths scripts slices fuzz node-mutants: \
	export GLIBC_TUNABLES := glibc.malloc.tcache_count=0:glibc.malloc.perturb=204

test: env  ## Everything that CI checks; 25 minutes on two cores
	$(MAKE) --jobs 2 --output-sync lint native sanitize
	$(BIN)/pytest -n auto --dist worksteal --run-slow

test-fast: env  ## Passes, pipelines, commands, analyses, one case of each operator, small models; two minutes
	$(BIN)/pytest -n auto --one-case tests/ir tests/pipeline tests/tools tests/ops tests/dialects \
	  tests/analysis tests/symbolic tests/schedules tests/models/test_zoo.py

pytest: native  ## The Python tests, without those that take long
	$(BIN)/pytest -n auto

bench: $(BENCH)/.installed  ## Benchmark models, matmuls, calls, threads, startup and memory against baselines; half an hour
	$(BENCH)/python -m benchmarks --page docs/benchmarks.md

bench-gpu: env  ## Compile what is measured on an NVIDIA GPU, for benchmarks/gpu/measure.py
	$(BIN)/python -m benchmarks.gpu build/gpu

$(BENCH)/.installed: pyproject.toml requirements.lock
	$(call locked,$(BENCH))
	$(BENCH)/pip install -q --no-build-isolation -e packaging/runtime -e '.[test,native,bench]'
	touch $@

gpu-cases: native  ## Record what tests run in the emulator, for tests/gpu/replay.py; half an hour
	$(BIN)/pytest -q -n auto -p tests.gpu.record --record-gpu build/gpu_cases --run-slow --every-case --whole-suite tests/gpu

onnx-suite: env  ## Run ONNX's backend tests and print how many pass
	$(BIN)/python -m tests.onnx_suite

onnx-suite-gpu: env  ## Run them with kernels for GPUs, in the emulator; ten minutes
	$(BIN)/pytest -q -n auto --run-slow --whole-suite tests/gpu/test_onnx_suite.py

every-case: native  ## The tests, with all cases of those of which CI runs a share; an hour
	$(BIN)/pytest -n auto --run-slow --every-case

nightly: every-case  ## All suites that need no download: what CI samples, and the fuzzers; four hours
	$(MAKE) guard-tests fuzz node-mutants mutants onnx-suite-gpu

two-paths: native  ## Compile all cases of all operators as they are and after LegalizeOps
	$(BIN)/pytest -q -n auto --every-case tests/ops/test_two_paths.py

scripts: native  ## Compile what scripts of all operators' programs are read as, for all cases
	$(BIN)/pytest -q -n auto --every-case tests/ops/test_scripts.py

slices: native  ## Run a network of every rule with each tensor in a larger buffer, at each offset
	$(BIN)/pytest -q -n auto --run-slow --every-case tests/schedules/test_sliced_operands.py tests/gpu/test_sliced_operands.py

zoo: env  ## Run trained networks out of packages against onnxruntime and known answers
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.zoo

applications: env  ## Run applications of onnxruntime from PyPI on our sessions; downloads a gigabyte
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.applications

torch-exports: $(TORCH)/.installed  ## Export networks of torch, compare with torch; gigabytes
	OMP_NUM_THREADS=1 $(TORCH)/python -m tests.torch_exports
	$(TORCH)/pytest --run-slow tests/frontends/torch tests/benchmarks/test_onnx_to_torch.py

$(TORCH)/.installed: pyproject.toml requirements.lock
	$(call locked,$(TORCH))
	$(TORCH)/pip install -q --no-build-isolation -e packaging/runtime -e '.[test,native,torch-test]'
	touch $@

pipelines: $(LEARN)/.installed  ## Compile pipelines of scikit-learn, LightGBM and XGBoost, compare with their predictions
	OMP_NUM_THREADS=1 $(LEARN)/python -m tests.pipelines

$(LEARN)/.installed: pyproject.toml requirements.lock
	$(call locked,$(LEARN))
	$(LEARN)/pip install -q --no-build-isolation -e packaging/runtime -e '.[test,native,learn-test]'
	touch $@

fuzz: native  ## Damage 2,000 models, draw 10,000 schedules, and new cases of tests
	$(BIN)/python -m tests.frontends.onnx.fuzz
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.schedule_fuzz
	$(BIN)/pytest -n auto --run-slow -m hypothesis --hypothesis-profile=search

guard: guard-tests  ## Run operators, models and trained networks between guard pages
	RELAX_MLIR_GUARD=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.zoo

guard-tests: native
	RELAX_MLIR_GUARD=1 $(BIN)/pytest -n auto --run-slow tests/runtime/test_guard.py tests/ops tests/models \
	  tests/passes/schedule/test_apply.py tests/schedules/test_configuration.py \
	  tests/schedules/cpu/test_attention.py tests/passes/tir/test_mark_in_place.py

node-mutants: native  ## Change 4,000 of ONNX's node tests and compare with onnxruntime; half an hour
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.frontends.onnx.node_mutants

mutants: env  ## Mutation testing of every pass and of the analyses of sizes and indices
	$(BIN)/python -m tests.mutants

sanitize: env  ## Run the native unit tests under sanitizers: threads; addresses and undefined behaviour
	for kind in thread address,undefined; do \
	  $(BIN)/cmake -S . -B $(BUILD)/$$kind -G Ninja --log-level=WARNING \
	    -DRELAX_MLIR_SANITIZE=$$kind \
	    -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	    -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python && \
	  $(BIN)/cmake --build $(BUILD)/$$kind && \
	  $(BIN)/ctest --test-dir $(BUILD)/$$kind --output-on-failure --no-tests=error || exit 1; \
	done

native: env  ## Build the native runtime and run its unit tests
	$(BIN)/cmake -S . -B $(BUILD) -G Ninja --log-level=WARNING \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	$(BIN)/cmake --build $(BUILD)
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure --no-tests=error

lint: env  ## Format, lint, types and layers; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m tests.lint.import_layers
	$(BIN)/python -m tests.lint.string_imports
	$(BIN)/python -m tests.lint.traversal
	$(BIN)/python -m tests.lint.dynamic_code
	$(BIN)/python -m tests.lint.words

typing: $(BUILD)/typing/relax_mlir/dialects  ## Link dialects/ where pyright looks for relax_mlir.dialects

$(BUILD)/typing/relax_mlir/dialects:
	mkdir -p $(@D)
	ln -sf ../../../relax_mlir/__init__.py $(@D)
	ln -s ../../../dialects $@

format: env  ## Format and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

irdl: env  ## Write the dialects as files for stock mlir-opt
	$(BIN)/python -m relax_mlir.dialects.snapshots

golden: env  ## Write the tables that tests compare with, and that of upstream passes
	$(BIN)/python -m tests.golden.kinds
	$(BIN)/python -m tests.golden.upstream_passes

docs: env  ## Write the list of operators, and the score of ONNX's tests
	$(BIN)/python -m docs.generate

wheel: env $(AUDIT)/.installed  ## Build source archives and wheels, and beside them what they need (SBOM, CycloneDX)
	rm -rf dist $(BUILD)/wheel-env
	mkdir -p $(BUILD)
	$(BIN)/python packaging/release.py build dist --auditwheel $(CURDIR)/$(AUDIT)/auditwheel
	sed -e '/--hash/d' -e 's/ \\$$//' requirements.lock > $(BUILD)/constraints.txt
	$(PYTHON) -m venv --without-pip $(BUILD)/wheel-env
	$(BIN)/pip --python $(BUILD)/wheel-env/bin/python install -q -c $(BUILD)/constraints.txt dist/*.whl
	$(AUDIT)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --mc-type library -o dist/relax_mlir.cdx.json $(BUILD)/wheel-env/bin/python

release: wheel  ## The wheels, signed with KEY=key.pem, and checked in environments without a compiler
	$(BIN)/python packaging/release.py sign dist --key $(KEY)
	$(BIN)/python packaging/release.py verify dist --key $(KEY:.pem=.pub.pem)
	$(BIN)/python packaging/release.py check dist --constraint $(BUILD)/constraints.txt

audit: wheel  ## Look for known vulnerabilities in what is locked, and at its licences
	$(AUDIT)/python .ci/licences.py dist/relax_mlir.cdx.json
	$(AUDIT)/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

$(AUDIT)/.installed: requirements-audit.lock
	test -x $(AUDIT)/python || $(PYTHON) -m venv .venv-audit
	$(AUDIT)/pip install -q --require-hashes -r requirements-audit.lock
	touch $@

clean:  ## Remove what was built, but not .venv
	rm -rf $(BUILD) dist relax_mlir/runtime/librelax_mlir_rt.so relax_mlir/runtime/exported_model.o
	rm -f $(BIN)/.installed
