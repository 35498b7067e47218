# The front door: everything else is CMake and scripts/. Needs only make and bash; what is missing beyond that is
# installed by scripts/install-deps.
#
#   make build          the library and the command, at build/bin/craton
#   make apps           and the programs of bench/apps, for scripts/bench-apps
#   make demo           builds, then runs OpenMP programs over four ranks, beside libgomp
#   make check          everything that must hold: format, analysis, tests, sanitizers, fuzzing
#   make check-STEP     one step of it, as in make check-tidy (scripts/check --list)
#   make bench          ratios to bare baselines and to rivals
#   make docs           docs/options.md, from the options table
#   make install        into PREFIX (/usr/local), below DESTDIR
#   make format         formats all sources in place
#   make install-deps   all Debian packages that any of these needs
#   make clean          removes the build folders
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
PREFIX ?= /usr/local

# A target a folder: the tests and benchmarks are not built for somebody who wants to run the command.
PRODUCT := src/all tools/craton/all examples/all craton_manual

.PHONY: build apps demo check bench docs install format install-deps clean

build:
	@scripts/install-deps build
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target $(PRODUCT)

apps: build
	@scripts/install-deps apps
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target bench/apps/all

demo: build
	@scripts/demo

check:
	@scripts/check

check-%:
	@scripts/check $*

bench:
	@scripts/install-deps bench
	@cmake --preset release --log-level=WARNING
	@cmake --build --preset release --target $(PRODUCT) bench/all
	@scripts/bench

docs: build
	@build/bin/craton info --options --markdown >build/options.md
	@mv build/options.md docs/options.md

install: build
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

format:
	@scripts/install-deps check
	@scripts/check-format --fix

install-deps:
	@scripts/install-deps all

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
