"""These tests need TensorFlow, which lives in an environment of its own: `make test-tf`."""

import contextlib
import os
import sys
import warnings
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[1] / "adapters"))  # scripted, nested

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what TensorFlow 2.15 and its friends have to say of later versions of each other
    import tf_agents.agents.dqn.dqn_agent
    import tf_agents.environments.suite_gym  # noqa: F401


def pytest_configure(config):
    """Ignores warnings that TF-Agents' own code gives for any environment."""
    for module in ("tf_agents", "tensorflow", "keras", "gym"):
        config.addinivalue_line("filterwarnings", f"ignore:::{module}(\\.|$)")


@pytest.fixture
def tensors():
    """A function that takes a form to TensorFlow; it is closed at the end, which ends the threads that were begun."""
    from tf_agents.environments.tf_py_environment import TFPyEnvironment

    with contextlib.ExitStack() as stack:
        yield lambda form: stack.enter_context(contextlib.closing(TFPyEnvironment(form)))
