"""Forms and imports with TF-Agents' own types live their histories, and so do its own environments made of them."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import wrappers
from tf_agents.environments.batched_py_environment import BatchedPyEnvironment
from tf_agents.environments.py_environment import PyEnvironment
from tf_agents.environments.tf_py_environment import TFPyEnvironment

sys.path.insert(0, str(Path(__file__).parents[1] / "lifecycle"))

import core_subjects
import form_subjects
import forms
from machine import Subject, live

from envoi.adapters import from_tf_agents
from envoi.adapters.shared.introspection import Content

pytestmark = [
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.DroppedOptionsWarning"),
]
NAMES = ("tf_agents", "tf_agents batch")
KINDS = ("form of {}", "import of {}", "core to {} to core")


# TF-Agents' own environments around ours, as core environments. Its wrappers cannot be copied or pickled: a new
# one without attributes looks for its environment without end.


def limited():
    """A wrapper of TF-Agents that counts, around a third-party environment."""
    return from_tf_agents(wrappers.TimeLimit(forms.stranger("tf_agents"), 4))


def repeated():
    """One that steps several times for an action, around a form."""
    return from_tf_agents(wrappers.ActionRepeat(forms.made("tf_agents"), 2))


def several():
    """Separate environments as lanes."""
    envs = [forms.made("tf_agents") for _ in range(forms.LANES)]
    return from_tf_agents(BatchedPyEnvironment(envs, multithreading=False))


# The environment of tensors around a form of lanes.


def play_tensors(env, call):
    """Makes a call of `form_subjects.calls`, without a mask."""
    kind, seed, *rest = call
    if kind == "step":
        action = forms.act(env.pyenv.core, np.random.default_rng(seed))
        return as_arrays(env.step(tf.nest.map_structure(as_tensor, env.action_spec(), action)))
    if seed is not None:
        env.pyenv.seed(seed)
    env.pyenv.reset_options = None if rest[0] is None else dict(rest[0])
    return as_arrays(env.reset())


def as_tensor(spec, value):
    return tf.constant(value, spec.dtype)


def as_arrays(step):
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), step)


def hold(env):
    return Content([env.pyenv]), env._time_step


def go_back(env, held):
    content, env._time_step = held
    content.put_back([env.pyenv])


def tensors():
    """Returns the subject; the environment resets itself at a look before the first reset, so there is none."""
    looks = {
        "current": lambda env: None if env._time_step is None else as_arrays(env.current_time_step()),
        "infos": lambda env: env.pyenv.infos,
    }
    calls = form_subjects.calls("tf_agents batch").filter(lambda call: call[0] == "step" or call[-1] is None)

    def make():
        return TFPyEnvironment(forms.made("tf_agents batch"))

    return Subject(make, play_tensors, calls, looks, hold, go_back, begins_by_step=True, copies=())


SUBJECTS = {
    **{kind.format(name): form_subjects.SUBJECTS[kind.format(name)] for name in NAMES for kind in KINDS},
    "a wrapper of TF-Agents": partial(core_subjects.subject, limited, copies=()),
    "one that repeats": partial(core_subjects.subject, repeated, copies=()),
    "separate environments as lanes": partial(core_subjects.subject, several),
    "tensors": tensors,
}


def test_the_types_are_those_of_tf_agents():
    for name in NAMES:
        assert isinstance(forms.made(name), PyEnvironment)
        assert isinstance(forms.stranger(name), PyEnvironment)


@pytest.mark.parametrize("name", SUBJECTS)
def test_values_follow_from_the_history_alone(name):
    live(SUBJECTS[name]())
