"""Scripted dm_env environments."""

import dm_env
import numpy as np
from dm_env import StepType, TimeStep, specs


class Playing(dm_env.Environment):
    """A dm_env environment that plays a script of (step type, reward, discount), and notes all that it is asked."""

    def __init__(self, *lines, action_spec=None, reward_spec=None, discount_spec=None):
        self.lines, self.at, self.over = lines, 0, True
        self.actions, self.resets, self.closed = [], 0, 0
        self._rng = np.random.RandomState()
        self._specs = (action_spec or specs.DiscreteArray(3, np.int32, "choice"), reward_spec, discount_spec)

    def _see(self):
        return np.array([self._rng.random_sample(), self.at])

    def reset(self):
        self.resets, self.at, self.over = self.resets + 1, 0, False
        return dm_env.restart(self._see())

    def step(self, action):
        if self.over:
            return self.reset()
        self.actions.append(action)
        kind, reward, discount = self.lines[self.at]
        self.at += 1
        self.over = kind is StepType.LAST
        return TimeStep(kind, reward, discount, self._see())

    def observation_spec(self):
        return specs.Array((2,), np.float64, "noise and step")

    def action_spec(self):
        return self._specs[0]

    def reward_spec(self):
        return self._specs[1] or super().reward_spec()

    def discount_spec(self):
        return self._specs[2] or super().discount_spec()

    def close(self):
        self.closed += 1


class Seeing(dm_env.Environment):
    """A source without randomness whose observations a test's function makes; it is given the environment."""

    def __init__(self, spec, make):
        self.spec, self.make, self.at = spec, make, 0

    def reset(self):
        self.at = 0
        return dm_env.restart(self.make(self))

    def step(self, action):
        self.at += 1
        return dm_env.transition(0.0, self.make(self))

    def observation_spec(self):
        return self.spec

    def action_spec(self):
        return specs.DiscreteArray(2)


class Wrapping(dm_env.Environment):
    """A third-party wrapper, which hides the form of envoi inside."""

    def __init__(self, env):
        self._env = env

    reset, step, observation_spec, action_spec, reward_spec, discount_spec, close = (
        lambda self, *given, name=name: getattr(self._env, name)(*given)
        for name in ("reset", "step", "observation_spec", "action_spec", "reward_spec", "discount_spec", "close")
    )


class Made(Playing):
    """An environment made by a factory: an episode of three steps, seeded by its argument only."""

    def __init__(self, seed=None):
        super().__init__(*[(StepType.MID, 0.0, 1.0)] * 3, (StepType.LAST, 1.0, 0.0))
        self._private = np.random.default_rng(seed)
        del self._rng

    def _see(self):
        return np.array([self._private.random(), self.at])
