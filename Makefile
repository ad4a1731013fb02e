# make demo    set everything up in .venv, train PPO on CartPole through envoi and RLlib Tune, evaluate it
# make test    set everything up and run the tests
# make test-tf set TF-Agents up in .venv-tf, for its pins exclude those of the others, and run the tests that need it
# make lint    ruff, and pyright on the built wheel
# make bench   what the core and the conversions cost, beside their peers; make bench-tf for TF-Agents

PYTHON ?= python3
VENV := .venv
TF_VENV := .venv-tf
BIN := $(VENV)/bin
RUN ?= runs/demo-$(shell date +%Y%m%d-%H%M%S)

# Two threads on two cores make tiny networks several times slower.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-tf lint bench bench-tf clean

demo: $(VENV)/ready
	$(BIN)/envoi train gymnasium:CartPole-v1 --algo PPO --stop-return 450 --seed 0 --out $(RUN)
	$(BIN)/envoi evaluate $(RUN) --episodes 20 --form both

test: $(VENV)/ready
	$(BIN)/pytest

test-tf: $(TF_VENV)/ready
	$(TF_VENV)/bin/pytest tests/tf tests/adapters/test_tf_agents.py

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/lint build/lib  # setuptools keeps files in build/lib that the tree no longer has
	$(BIN)/pip wheel -q --no-deps --no-build-isolation -w build/lint .
	$(BIN)/pip install -q --no-deps --target build/lint build/lint/*.whl
	$(BIN)/pyright

# The peers that no test needs; without what they would bring along.
PEERS := build/peers
bench: $(VENV)/ready
	$(BIN)/pip install -q --no-deps --upgrade --target $(PEERS) gym==0.26.2 supersuit==3.11.0 tinyscaler==1.2.8
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/core.py
	PYTHONPATH=$(PEERS) $(BIN)/python benchmarks/conversion.py
	$(BIN)/python benchmarks/contexts.py
	$(BIN)/python benchmarks/wrappers.py

bench-tf: $(TF_VENV)/ready
	$(TF_VENV)/bin/python benchmarks/conversion_tf.py
	$(TF_VENV)/bin/python benchmarks/wrappers.py --only TF

$(VENV)/ready: pyproject.toml constraints.txt
	@echo "setting everything up in $(VENV): about a minute, and 2 GB"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt setuptools wheel
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	$(BIN)/pip install -q -c constraints.txt --no-deps qgym  # its pygame would overwrite pygame-ce, which stands in for it
	$(BIN)/pip install -q -c constraints.txt --no-deps carl-bench omegaconf  # CARL asks for a gymnasium below 1
	touch $@

$(TF_VENV)/ready: pyproject.toml constraints-tf.txt
	@echo "setting TF-Agents up in $(TF_VENV): about a minute, and 2 GB"
	$(PYTHON) -m venv $(TF_VENV)
	$(TF_VENV)/bin/pip install -q -c constraints-tf.txt -e '.[tf-agents,gymnasium,dm-env]' pytest hypothesis
	touch $@

clean:
	rm -rf $(VENV) $(TF_VENV) build *.egg-info
