# make demo      set up in .venv what RLlib needs, train PPO on CartPole through envoi and RLlib Tune, evaluate it
# make test      set everything up in .venv and run the tests, with few examples of each property
# make test-deep run what `make test` shortens at full depth: all examples of each property, and the tests marked deep
# make test-search  try new examples of each property, which differ from run to run, to find what the others miss
# make test-tf   set TF-Agents up in .venv-tf, because its pins exclude those of the others, and run the tests that need it
# make test-envpool  set envpool up in .venv-envpool, because it installs 740 MB, and run the tests that need it
# make test-matrix  run the tests that need neither RLlib nor PyTorch with other versions of Python and the dependencies
# make test-all  run all tests at full depth, those that need TF-Agents included
# make lint      run ruff, and pyright on the built wheel
# make size      count the lines of each folder beside its budget
# make learning  compare what PPO learns with RLlib's env runner and with the batched one, over ten seeds
# make generalisation  train on some contexts and evaluate on others, ten seeds of each, in under two hours on two idle cores;
#                what is complete is not repeated, and generalisation-publish shows the figures in the documentation
# make docs      build the documentation in build/site, without warnings; make docs-serve shows it while you write
# make test-extras  install the wheel with each extra alone, in virtual environments of their own, and import what it promises
# make bench     measure everything beside its peers, in about ten minutes, and end in a table and build/bench/summary.json;
#                QUICK=1 takes three, ROUNDS=n sets the repeats; bench-tf, bench-envpool and bench-memory (growth over a
#                million steps) add their rows, and bench-publish shows the figures in the documentation

PYTHON ?= python3
VENV := .venv
TF_VENV := .venv-tf
ENVPOOL_VENV := .venv-envpool
DOCS_VENV := .venv-docs
MATRIX_VENV := .venv-matrix
BIN := $(VENV)/bin
RUN ?= runs/demo-$(shell date +%Y%m%d-%H%M%S)

# Two threads on two cores make tiny networks several times slower.
export OMP_NUM_THREADS ?= 1

# Tests run in a process per core. A file's tests stay together, because they share what they set up; the files
# with the longest tests come first (tests/conftest.py).
WORKERS ?= auto
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: dist demo test test-deep test-search test-tf test-envpool test-all test-extras test-matrix lint size docs docs-serve \
	docs-tables bench bench-tf bench-envpool bench-memory bench-publish learning generalisation generalisation-publish clean

demo: $(VENV)/ready-demo
	$(BIN)/envoi train gymnasium:CartPole-v1 --algo PPO --stop-return 450 --seed 0 --out $(RUN)
	$(BIN)/envoi evaluate $(RUN) --episodes 20 --form both

test: $(VENV)/ready
	$(BIN)/pytest $(PARALLEL) -m "not deep"

test-deep: $(VENV)/ready
	$(BIN)/pytest $(PARALLEL) --hypothesis-profile full -m "deep or hypothesis"

test-search: $(VENV)/ready
	$(BIN)/pytest $(PARALLEL) --hypothesis-profile search -m hypothesis

test-tf: $(TF_VENV)/ready
	TESTS_WITHOUT="pettingzoo ray stable_baselines3" $(TF_VENV)/bin/pytest $(PARALLEL) --hypothesis-profile full tests/tf \
		tests/adapters/test_tf_agents.py

test-envpool: $(ENVPOOL_VENV)/ready
	$(ENVPOOL_VENV)/bin/pytest --noconftest tests/adapters/test_envpool.py

test-all: $(VENV)/ready
	$(BIN)/pytest $(PARALLEL) --hypothesis-profile full
	$(MAKE) test-tf

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/lint build/lib  # setuptools keeps files in build/lib that the tree no longer has
	$(BIN)/pip wheel -q --no-deps --no-build-isolation -w build/lint .
	$(BIN)/pip install -q --no-deps --target build/lint build/lint/*.whl
	$(BIN)/pyright

size:
	@$(PYTHON) tests/size.py

# The folders, laid out as the package that they are, for the API reference.
API := build/api/envoi
docs-tables: $(DOCS_VENV)/ready
	rm -rf $(API) && mkdir -p $(API)
	ln -s $(CURDIR)/core/* $(CURDIR)/adapters $(CURDIR)/integrations $(API)
	$(DOCS_VENV)/bin/python docs/tables.py

docs: docs-tables
	rm -rf build/site
	@# strict does not include what it finds in docstrings
	$(DOCS_VENV)/bin/zensical build --clean --strict > build/docs.log 2>&1; status=$$?; cat build/docs.log; \
		test $$status = 0 && ! grep -q '^griffe:' build/docs.log

docs-serve: docs-tables
	$(DOCS_VENV)/bin/zensical serve

# setuptools gives the files that it generates the time of the build, so the sdist is packed again.
DATE = $(shell git log -1 --format=%ct)
dist:
	rm -rf dist build/lib
	SOURCE_DATE_EPOCH=$(DATE) $(PYTHON) -m build
	cd dist && for sdist in *.tar.gz; do tar xzf $$sdist && tar -c --format=ustar --sort=name --mtime=@$(DATE) --owner=0 --group=0 \
		--numeric-owner --mode=u+rw,go=rX $${sdist%.tar.gz} | gzip -n9 > $$sdist && rm -r $${sdist%.tar.gz}; done
	$(PYTHON) -m twine check --strict dist/*

test-extras: $(VENV)/ready
	$(BIN)/pytest tests/extras

# pyenv hides the versions that it does not name.
test-matrix: $(MATRIX_VENV)/ready
	PYENV_VERSION=$$(pyenv versions --bare 2>/dev/null | paste -sd:) $(MATRIX_VENV)/bin/nox

# The peers that no test needs; without what they would bring along.
PEERS := build/peers
$(PEERS)/ready: Makefile
	$(BIN)/pip install -q --no-deps --upgrade --target $(PEERS) gym==0.26.2 supersuit==3.11.0 tinyscaler==1.2.8 dm-acme==0.4.0
	touch $@

# QUICK=1 takes a third of the time, ROUNDS=n sets the repeats of each measurement.
bench: $(VENV)/ready
	@$(MAKE) -s $(PEERS)/ready || echo "some peers could not be installed, and are left out: gym, SuperSuit, Acme"
	$(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(if $(ROUNDS),--rounds $(ROUNDS))

# What these write, the table of `make bench` has too.
bench-tf: $(TF_VENV)/ready
	mkdir -p build/bench
	$(TF_VENV)/bin/python benchmarks/conversion_tf.py --json build/bench/conversion_tf.json $(if $(ROUNDS),--rounds $(ROUNDS))

bench-envpool: $(ENVPOOL_VENV)/ready
	mkdir -p build/bench
	$(ENVPOOL_VENV)/bin/python benchmarks/batches.py --peer envpool --json build/bench/batches_envpool.json $(if $(ROUNDS),--rounds $(ROUNDS))

# A million steps in each form and import, a process for each; TF-Agents' where that is set up.
bench-memory: $(VENV)/ready
	mkdir -p build/bench
	$(BIN)/python benchmarks/memory.py --json build/bench/memory.json
	if [ -e $(TF_VENV)/ready ]; then \
		$(TF_VENV)/bin/python benchmarks/memory.py --only TF --json build/bench/memory_tf.json; fi

# The documentation's figures are those of the latest run; its tables, pictures and the README's chart follow from them.
bench-publish: $(VENV)/ready
	$(BIN)/python benchmarks/summary.py build/bench --publish docs/figures/performance.json > /dev/null
	$(BIN)/python docs/tables.py

learning: $(VENV)/ready
	$(BIN)/python benchmarks/rllib_learning.py --mode truncate_episodes
	$(BIN)/python benchmarks/rllib_learning.py --mode complete_episodes

generalisation: $(VENV)/ready
	$(BIN)/python benchmarks/generalisation/experiments.py

generalisation-publish: $(VENV)/ready
	$(BIN)/python benchmarks/generalisation/publish.py

INSTALL := $(BIN)/pip install -q --no-compile -c constraints.txt
# Bytecode for all that was installed, on all cores; pip would take one. Some packages hold templates that do not compile.
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/ready-demo: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "setting up in $(VENV) what the demo needs: about a minute, and 1.8 GB"
	$(INSTALL) -e '.[rllib,gymnasium,cli,plots]'
	$(COMPILE)
	touch $@

$(VENV)/ready: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "setting everything up in $(VENV): about two minutes, and 2.5 GB"
	$(INSTALL) setuptools wheel
	$(INSTALL) -e '.[dev]'
	$(INSTALL) --no-deps qgym  # its pygame would overwrite pygame-ce, which stands in for it
	$(INSTALL) --no-deps carl-bench omegaconf  # CARL asks for a gymnasium below 1
	$(COMPILE)
	touch $(VENV)/ready-demo $@

$(TF_VENV)/ready: pyproject.toml constraints-tf.txt
	@echo "setting TF-Agents up in $(TF_VENV): about a minute, and 2 GB"
	$(PYTHON) -m venv $(TF_VENV)
	$(TF_VENV)/bin/pip install -q -c constraints-tf.txt -e '.[tf-agents,gymnasium,dm-env]' pytest pytest-xdist hypothesis
	touch $@

$(DOCS_VENV)/ready: pyproject.toml constraints-docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install -q -c constraints-docs.txt -e '.[docs]'
	touch $@

$(MATRIX_VENV)/ready:
	$(PYTHON) -m venv $(MATRIX_VENV)
	$(MATRIX_VENV)/bin/pip install -q 'nox[uv]==2026.10.20' 'uv==0.13.9'
	touch $@

$(ENVPOOL_VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ENVPOOL_VENV)
	$(ENVPOOL_VENV)/bin/pip install -q -c constraints.txt -e '.[envpool,numba]' 'envpool==1.2.5' pytest hypothesis
	touch $@

clean:
	rm -rf $(VENV) $(TF_VENV) $(ENVPOOL_VENV) $(DOCS_VENV) $(MATRIX_VENV) .nox build .cache *.egg-info
