"""Scripted environments, as core models and as gymnasium sources."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from small_models import Echo

import envoi
from envoi import Array, Discrete
from envoi.curricula import PrioritizedLevelReplay

TAXI = "Taxi-v3" if "Taxi-v3" in gymnasium.registry else "Taxi-v4"  # gymnasium 1.4 has the latter only


class Line(NamedTuple):
    """One step of a script."""

    reward: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    discount: Any = None
    info: Any = ()


class Scripted(envoi.Model):
    """A core environment that plays a script of `Line`s; its observation is a random number and the step."""

    observation_spec = Array((2,), "float64", name="noise and step")
    action_spec = Discrete(3, start=5, name="choice")

    def __init__(self, *lines, discount_spec=None):
        self.lines = lines
        self.seen = []
        if discount_spec is not None:
            self.discount_spec = discount_spec

    def initial(self, rng, context):
        self.seen.append(dict(context))
        return (0, rng.random())

    def transition(self, state, action, rng):
        return (state[0] + 1, rng.random())

    def observe(self, state, rng):
        return np.array([state[1], state[0]])

    def line(self, state):
        return self.lines[state[0] - 1] if state[0] else Line()

    def reward(self, state, action, next_state):
        return self.line(next_state).reward

    def terminal(self, state):
        return self.line(state).terminated

    def truncated(self, state):
        return self.line(state).truncated

    def discount(self, state):
        return self.line(state).discount

    def info(self, state):
        return dict(self.line(state).info)


class Source(gymnasium.Env):
    """A gymnasium environment that plays a script of `Line`s, and notes its actions."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(3, start=5)
    metadata = {"render_modes": ["ansi"], "render_fps": 7}

    def __init__(self, *lines):
        self.lines, self.at = lines, 0
        self.actions = []

    def _see(self):
        return np.array([self.np_random.random(), self.at])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if options is not None:
            options["written"] = True
        self.at = 0
        return self._see(), {"reset": True}

    def step(self, action):
        self.actions.append(action)
        line = self.lines[self.at]
        self.at += 1
        info = dict(line.info)
        if line.discount is not None:
            info["discount"] = line.discount
        return self._see(), line.reward, line.terminated, line.truncated, info


class Returning(gymnasium.Env):
    """A source whose observations a test's function makes; it is given the environment, to keep things in."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, make):
        self.observation_space, self.make, self.at = space, make, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.make(self), {}

    def step(self, action):
        self.at += 1
        return self.make(self), 0.0, False, False, {}


class Ends(envoi.Model):
    """Episodes whose length and end follow from the first random number: what RLlib must record."""

    observation_spec = Array((3,), "float32", name="length, step, kind")
    action_spec = Discrete(2)

    def initial(self, rng, context):
        return (int(rng.integers(2, 7)), 0, int(rng.integers(3)))

    def transition(self, state, action, rng):
        return (state[0], state[1] + 1, state[2])

    def observe(self, state, rng):
        return np.array(state, np.float32)

    def reward(self, state, action, next_state):
        return float(next_state[1])

    def terminal(self, state):
        return state[1] == state[0] and state[2] != 1

    def truncated(self, state):
        return state[1] == state[0] and state[2] != 0


class Shaped(Echo):
    """Keeps the actions, of which it refuses wrong ones, and is paid for each step."""

    def __init__(self, observation_spec, action_spec):
        super().__init__(observation_spec, action_spec)
        self.acted = []

    def transition(self, state, action, rng):
        envoi.validate(self.action_spec, action, "action")
        self.acted.append(action)
        return super().transition(state, action, rng)

    def reward(self, state, action, next_state):
        return 1.0


class Logged(PrioritizedLevelReplay):
    """A curriculum that keeps the episodes that are reported to it, and the contexts that it chooses."""

    def __init__(self, seed):
        super().__init__(seed=seed)
        self.rows, self.chosen = [], []

    def tell(self, episodes):
        self.rows += episodes
        super().tell(episodes)

    def select(self, rng):
        chosen = super().select(rng)
        self.chosen.append(chosen[0])
        return chosen


def make_ends(**arguments):
    """A factory for `python:scripted:make_ends`."""
    assert set(arguments) <= {"flavour"}
    return Ends()


def make_source():
    """A factory of a gymnasium environment."""
    return Source(Line(), Line(terminated=True))


ready = Ends()
