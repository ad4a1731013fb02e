"""Envs of jobs whose observations leave their space, or that raise errors, after some time; and batches."""

import numpy as np
from faulty import Failing

import envoi


class Drifting(Failing):
    """The observation drifts out of its bounds at step `fatal`, counted over all episodes."""

    def __init__(self, fatal=1500):
        super().__init__("spec", fatal)


class Crashing(Failing):
    """An env that raises an error at step `fatal`, rather than drift."""

    def __init__(self, fatal=1500):
        super().__init__("raise", fatal)


class Mixed(envoi.Model):
    """An env of actions of integers and real numbers at once; an action outside the spec is an error."""

    observation_spec = envoi.Array((1,), "float32", 0, 10)
    action_spec = {"gear": envoi.Discrete(3, start=5), "gas": envoi.Array((2,), "float64", -0.1, 0.1)}

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        envoi.validate(self.action_spec, action, "action")
        return state + 1

    def observe(self, state, rng):
        return np.array([state], np.float32)

    def reward(self, state, action, next_state):
        return float(action["gas"].sum())

    def terminal(self, state):
        return state == 10


def lanes():
    """Makes a batch that steps its lanes in one call, with different contexts."""
    import envoi.models

    sets = {"long": {"length": 0.5}, "short": {"length": 0.25}}
    return envoi.Contextual(envoi.batch(envoi.models.CartPole(), 4), sets, hide_context=True)


def looped_lanes():
    """Makes a batch of environments that are stepped one by one, with a time limit."""
    return envoi.TimeLimit(envoi.batch(Mixed, 3), 7)
