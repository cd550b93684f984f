# The everyday commands: `make quickstart` from a fresh clone to a table, `make test` for everything that is checked.

PRESET ?= release
# A compile takes up to 1.5 GB.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ {n = int($$2 / 1572864); print n < 1 ? 1 : n < cores ? n : cores}' /proc/meminfo)
# Tests wait for ranks, time limits and clocks a quarter of their time: three of them keep two cores busy.
TEST_JOBS ?= $(shell echo $$(($(JOBS) + $(JOBS) / 2)))
# A CMake that setup.sh fetched, where the system's is too old.
export PATH := $(CURDIR)/.deps/cmake/cmake/data/bin:$(PATH)

.PHONY: help setup pack configure build quickstart test test-shuffled test-asan test-tsan test-sanitizers-short test-sanitizer-of test-gpu test-distributions test-libtorch wheel deb package-contents test-wheel test-packages bench bench-toy bench-gpu lint format clean

help:
	@echo 'make quickstart   set up, build, and compare the strategies on two ranks (ddprun quickstart)'
	@echo 'make test         set up, build, and run all tests'
	@echo 'make test-shuffled   the same, each suite in a random order; SEED=n repeats the order that it printed'
	@echo 'make setup        install what is missing (scripts/setup.sh --check only reports it)'
	@echo 'make build        build everything; PRESET=release, debug, asan or tsan'
	@echo 'make test-asan    unit and contract tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make test-tsan    the same under ThreadSanitizer'
	@echo 'make test-sanitizers-short   kernels, communication, checkpoints and tokenizers under them, as CI does'
	@echo 'make test-faults  signals at random times, ranks that hang, plugins that are wrong, bad inputs; FAULTS=500 INPUTS=100000 KILLS=200 SEED=1'
	@echo 'make test-gpu     the tests that need a GPU; each says why it was skipped where there is none'
	@echo 'make test-distributions   quickstart and test on bare Debian and Ubuntu systems; NAMES="trixie" tries one'
	@echo 'make test-libtorch   everything with each LibTorch that ddprun knows; VERSIONS="2.11.0" tries one'
	@echo 'make wheel        a Python wheel of it in build/packages; make deb: a Debian package'
	@echo 'make test-wheel   install the wheel into a fresh environment, and use it there without the tree'
	@echo 'make test-packages   both on bare Debian systems, by pip and by apt; NAMES="trixie" tries one'
	@echo 'make bench        compare with PyTorch in Python on this machine; WHAT=step,sharding,attention,startup,all_reduce,adamw ARGS=--quick'
	@echo 'make bench-toy    every part of it once on toy sizes: whether it runs, no figures'
	@echo 'make bench-gpu    the same on a GPU: beside PyTorch, eager and compiled; ARGS=--quick; no network needed'
	@echo 'make pack         gather what setup installs in .deps/carried, for a machine without network (docs/gpu.md)'
	@echo 'make lint         formatting, shell scripts, and what the core may know'
	@echo 'make format       reformat all sources as lint wants them'
	@echo 'make clean        remove build/ (what setup fetched stays in .deps/)'
	@echo
	@echo 'TORCH=2.11.0 takes that LibTorch instead of the newest that ddprun knows, LIBTORCH_DIR=/path/to/libtorch one of your own;'
	@echo 'JOBS=n limits parallel jobs (here: $(JOBS)).'

# What some tests would be skipped without is there before CMake looks.
SETUP := $(if $(filter test test-shuffled,$(MAKECMDGOALS)),--with-tests)
setup:
	@scripts/setup.sh $(SETUP)

# For a machine without network.
pack:
	@scripts/pack_dependencies.sh

# CMake configures again by itself when a CMakeLists.txt changes; a LibTorch named now must win over the one configured before, and
# Open MPI may have come since.
configure: setup
	@test -f build/$(PRESET)/build.ninja -a -z '$(LIBTORCH_DIR)$(TORCH)' && \
	  ! { grep -q '^MPI_CXX_COMPILER:.*-NOTFOUND' build/$(PRESET)/CMakeCache.txt && command -v mpicxx >/dev/null; } || \
	  cmake --preset $(PRESET) $(if $(LIBTORCH_DIR)$(TORCH),-DLIBTORCH_DIR='$(LIBTORCH_DIR)')

build: configure
	@scripts/build.sh $(PRESET) $(JOBS)

# Everything but the tests.
quickstart: configure
	@scripts/build.sh $(PRESET) $(JOBS) program
	@build/$(PRESET)/bin/ddprun quickstart

test: build
	@ctest --preset $(PRESET) -j $(TEST_JOBS)

# The same cases in another order: none may count on what an earlier one left.
test-shuffled: export GTEST_SHUFFLE = 1
test-shuffled: export GTEST_RANDOM_SEED := $(or $(SEED),$(shell shuf -i 1-99999 -n 1))
test-shuffled: build
	@echo 'in a random order; again with SEED=$(GTEST_RANDOM_SEED)'
	@ctest --preset $(PRESET) -j $(TEST_JOBS)

test-asan:
	@$(MAKE) --no-print-directory test PRESET=asan

# ThreadSanitizer needs its shadow memory where address randomization may have put something else.
test-tsan:
	@$(MAKE) --no-print-directory build PRESET=tsan
	@setarch -R ctest --preset tsan -j $(JOBS)

# What computes on raw memory, and what passes it between threads and processes: a part that CI can afford.
test-sanitizers-short:
	@$(MAKE) --no-print-directory test-sanitizer-of PRESET=asan TARGETS='unit_kernels unit_comm unit_comm_forking unit_checkpoint unit_tokenizer'
	@$(MAKE) --no-print-directory test-sanitizer-of PRESET=tsan TARGETS=unit_comm

test-sanitizer-of: configure
	@scripts/build.sh $(PRESET) $(JOBS) $(TARGETS)
	@setarch -R ctest --preset $(PRESET) -j $(JOBS) -L "^($$(echo $(TARGETS) | tr ' ' '|'))\$$"

# Both go on to their end; a finding of either is a failure. A fault mostly waits, so three at a time leave deadlines alone.
FAULTS ?= 500
KILLS ?= 200
INPUTS ?= 100000
test-faults: configure
	@scripts/build.sh $(PRESET) $(JOBS) program fuzz_inputs integration
	@status=0; \
	DDPRUN_PROOF_SEED=$(or $(SEED),1) build/$(PRESET)/bin/integration --gtest_filter='Faults/PlantedFault*' --gtest_brief=1 || status=1; \
	build/$(PRESET)/bin/fuzz_inputs $(INPUTS) --seed $(or $(SEED),1) --save build/$(PRESET)/fuzz_findings || status=1; \
	python3 tests/faults/fault_driver.py --faults $(FAULTS) --seed $(or $(SEED),1) --jobs 3 --program build/$(PRESET)/bin/ddprun || status=1; \
	python3 tests/faults/checkpoint_kills.py --kills $(KILLS) --seed $(or $(SEED),1) --jobs 3 --program build/$(PRESET)/bin/ddprun || status=1; \
	exit $$status

# Only what these tests need. A GPU is one rank's at a time. CTest does not show why a test was skipped.
test-gpu: configure
	@scripts/build.sh $(PRESET) $(JOBS) program tests/gpu/all
	@test -f build/$(PRESET)/lib/libddprun_cuda.so || \
	  { echo "test-gpu: CUDA support was not built; 'cmake --preset $(PRESET)' says why"; exit 1; }
	@status=0; ctest --preset $(PRESET) -L gpu -j 1 || status=$$?; \
	  sed -n '/: Skipped$$/{n;s/^/skipped: /p}' build/$(PRESET)/Testing/Temporary/LastTest.log | sort | uniq -c; exit $$status

# As root: each in a folder of its own under build/distributions.
test-distributions:
	@scripts/test_distributions.sh $(NAMES)

# Each in a build folder of its own.
test-libtorch:
	@JOBS=$(JOBS) scripts/test_libtorch.sh $(VERSIONS)

# Both hold what `make quickstart` builds, and the program that tries plugins of one's own.
wheel deb: PRESET = release
package-contents: configure
	@scripts/build.sh $(PRESET) $(JOBS) program contract

wheel: package-contents
	@scripts/make_wheel.py build/$(PRESET)

deb: package-contents
	@cpack --config build/$(PRESET)/CPackConfig.cmake
	@rm -rf build/packages/_CPack_Packages

test-wheel: wheel
	@scripts/test_wheel.sh

# As root: each in a folder of its own under build/distributions.
test-packages: wheel deb
	@scripts/test_packages.sh $(NAMES)

# The parts of the comparison (default: all), what else of PyTorch takes part (2.11.0,compiled), and other arguments: see
# tests/benchmarks/bench.py.
WHAT ?=
PEER_TORCH ?=
ARGS ?=
bench: PRESET = release
bench: configure
	@PEER_TORCH='$(PEER_TORCH)' scripts/setup.sh --with-bench
	@scripts/build.sh $(PRESET) $(JOBS) program tests/benchmarks/all
	@cd tests/benchmarks && python3 -m unittest -q bench_test
	@python3 tests/benchmarks/bench.py $(WHAT) $(ARGS) $(if $(PEER_TORCH),--peer-torch $(PEER_TORCH))

# Whether every part of it runs, on toy sizes.
bench-toy:
	@$(MAKE) --no-print-directory bench ARGS=--toy

# Beside the PyTorch that this machine's python3 has (PYTHON=... names another).
bench-gpu: PRESET = release
bench-gpu: configure
	@scripts/build.sh $(PRESET) $(JOBS) program device_memory_benchmark
	@cd tests/benchmarks && python3 -m unittest -q bench_test bench_gpu_test
	@python3 tests/benchmarks/bench_gpu.py $(ARGS)

lint:
	@scripts/setup.sh --with-lint
	@scripts/lint.sh

format:
	@scripts/setup.sh --with-lint
	@scripts/lint.sh --fix

clean:
	@rm -rf build
