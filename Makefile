# Every command of the project. Each one installs what it needs first (tools/setup.sh).

JOBS ?= $(shell nproc)
PYTHON = .venv/bin/python
# The whole suite of one preset, or only the tests not labelled "slow".
CTEST = ctest --preset

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build test demo bench lint format asan tsan asan-fast tsan-fast fuzz clean setup setup-venv setup-python

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@tools/setup.sh

setup-venv:
	@tools/setup.sh --venv

setup-python:
	@tools/setup.sh --python

# Configure once per preset; CMake itself notices later changes.
define build_preset
	@cmake --preset $(1) $(2) >build-$(1).log 2>&1 || { cat build-$(1).log; exit 1; }; rm build-$(1).log
	@cmake --build --preset $(1) -j $(JOBS)
endef

build: setup ## Build the library and the tool build/jfa
	$(call build_preset,release,$(RELEASE_OPTIONS))

test: RELEASE_OPTIONS = -DJFA_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(PYTHON)
test: setup-python build ## Run all tests, C++ and Python
	$(CTEST) release -j $(JOBS)
	$(PYTHON) -m pytest

demo: setup-venv build ## Attention on the user histories of MovieLens-100k, with an HTML report
	@$(PYTHON) tools/fetch_movielens.py
	build/jfa run --events .data/ml-100k.inter --user user_id --item item_id --time timestamp --html build/movielens.html

bench: setup-python build ## Measure the CPU engine against PyTorch's attention
	$(PYTHON) bench/cpu_vs_torch.py

lint: setup-python build ## Formatting, clang-tidy, ruff, mypy
	@tools/lint.sh

format: setup-python ## Format every C++ and Python file in place
	@tools/lint.sh --fix

asan: setup ## All C++ tests under the address and undefined-behaviour sanitizers
	$(call build_preset,asan)
	$(CTEST) asan -j $(JOBS)

tsan: setup ## All C++ tests under the thread sanitizer
	$(call build_preset,tsan)
	$(CTEST) tsan -j $(JOBS)

asan-fast: setup
	$(call build_preset,asan)
	$(CTEST) asan -j $(JOBS) -LE slow

tsan-fast: setup
	$(call build_preset,tsan)
	$(CTEST) tsan -j $(JOBS) -LE slow

FUZZ_SECONDS ?= 60
fuzz: setup ## Fuzz the parsers with libFuzzer for FUZZ_SECONDS each (needs clang)
	@command -v clang++ >/dev/null || { echo "make fuzz needs clang: apt-get install clang" >&2; exit 1; }
	$(call build_preset,fuzz)
	@for fuzzer in build-fuzz/tests/fuzz/*_fuzz build-fuzz/emulator/tests/fuzz/*_fuzz; do \
	  name=$$(basename $$fuzzer); mkdir -p build-fuzz/found/$$name; echo "== $$name"; \
	  $$fuzzer build-fuzz/found/$$name $$(find tests/fuzz/corpus emulator/tests/fuzz/corpus -name $$name) \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -print_final_stats=1 || exit 1; done

clean: ## Remove all build folders
	rm -rf build build-*
