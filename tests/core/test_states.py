"""Putting an environment into a state, and planning from the one it is in."""

import numpy as np
import pytest
from small_models import Carts, Steps

import envoi
import envoi.models
import envoi.tree
from envoi.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_an_environment_put_into_a_state_continues_from_there(name):
    model = MODELS[name][0]
    env, other = model(), model()
    env.reset(seed=1)
    for _ in range(3):
        env.step(env.sample_action())
    other.reset(seed=2)
    other.state = env.state
    assert all(map(np.array_equal, _leaves(other.state), _leaves(env.state)))
    assert all(map(np.array_equal, _leaves(other.observation), _leaves(env.observation)))
    action = env.sample_action()
    ours, theirs = env.step(action), other.step(action)
    assert all(map(np.array_equal, _leaves(ours.observation), _leaves(theirs.observation)))
    assert ours[1:4] == theirs[1:4]


def test_an_environment_put_into_an_end_state_has_ended():
    env = envoi.models.Catch()
    env.reset(seed=0)
    env.state = env.state._replace(row=9)
    with pytest.raises(envoi.EpisodeError, match="has ended"):
        env.step(1)
    batch = envoi.batch(Carts(), 3)
    batch.reset(seed=0)
    motion = np.zeros((3, 4))
    motion[1, 2] = 1.0
    batch.state = batch.state._replace(motion=motion)
    with pytest.raises(envoi.EpisodeError, match=r"lanes \[1\]"):
        batch.step(np.array([1, 1, 1]))


def _leaves(tree):
    return [leaf for _, leaf in envoi.tree.leaves(tree)]


class Writes(Steps):
    """Its function `at_fault` writes into the state that it is given."""

    observation_spec = envoi.Array((1,), "float64")

    def __init__(self, at_fault):
        self.at_fault = at_fault

    def touched(self, state, function):
        if function == self.at_fault:
            state["places"][0] += 1
        return state["places"]

    def initial(self, rng, context):
        return {"places": np.zeros(2)}

    def transition(self, state, action, rng):
        return {"places": self.touched(state, "transition").copy()}

    def observe(self, state, rng):
        return self.touched(state, "observe")[:1].copy()

    def reward(self, state, action, next_state):
        return float(self.touched(next_state, "reward")[0])

    def terminal(self, state):
        return self.touched(state, "terminal")[1] > 0


@pytest.mark.parametrize(
    "wrap", [lambda env: env, lambda env: envoi.TimeLimit(env, 2), lambda env: envoi.batch(env, 2)]
)
@pytest.mark.parametrize("function", ["transition", "observe", "reward", "terminal"])
def test_a_state_changed_in_place_is_found(function, wrap):
    env = envoi.Validated(wrap(Writes(function)))
    leaf = "next_state" if function == "reward" else "state"
    with pytest.raises(envoi.SpecError, match=rf"Writes\.{function}: changes {leaf}\['places'\] in place"):  # noqa: PT012
        env.reset(seed=0)
        env.step(env.sample_action())


@pytest.mark.parametrize("name", MODELS)
def test_bundled_models_leave_their_states(name):
    env = envoi.Validated(envoi.models.make(name))
    env.reset(seed=0)
    env.step(env.sample_action())
    pytest.importorskip("numba")
    lanes = envoi.Lanes([envoi.compiled(envoi.models.make(name)) for _ in range(2)])
    for batch in (envoi.batch(env, 2), envoi.Validated(lanes)):  # what watches is not compiled
        batch.reset(seed=0)
        batch.step(batch.sample_action())
