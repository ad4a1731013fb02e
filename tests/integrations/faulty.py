"""Environments that fail at a chosen step; they are in a file that Ray's workers can import."""

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces

import envoi


class Failing(gymnasium.Env):
    """Ten steps an episode; after `at` steps, over all episodes, it fails in one way."""

    observation_space = spaces.Dict({"cart": spaces.Box(0, 1, (3,), np.float32), "step": spaces.Discrete(11)})
    action_space = spaces.Discrete(2)

    def __init__(self, how="raise", at=25):
        self.how, self.at = how, at
        self.time = self.total = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.see(), {}

    def see(self):
        return {"cart": np.zeros(3, np.float32), "step": self.time}

    def step(self, action):
        self.time += 1
        self.total += 1
        seen, reward = self.see(), 1.0
        if self.total >= self.at:
            match self.how:
                case "raise":
                    raise ZeroDivisionError("the pole has\nno length")
                case "exit":
                    os._exit(7)
                case "sleep":
                    time.sleep(1000)
                case "spin":
                    while True:
                        pass
                case "nan":
                    seen["cart"][2] = np.nan
                case "reward":
                    reward = float("inf")
                case "spec":
                    seen["cart"][2] = 1.5
        return seen, reward, self.time >= 10, False, {}


class FailingBatch(envoi.BatchModel):
    """Nine steps an episode; the reward is NaN in the third of its lanes, in the fourth step."""

    observation_spec, action_spec = envoi.Discrete(10), envoi.Discrete(3)

    def initial(self, rng, context, size):
        return np.zeros(size, np.int64)

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return np.where((next_state == 4) & (np.arange(len(state)) == 2), np.nan, 0.0)

    def terminal(self, state):
        return state == 9


class FailingGame(envoi.models.RockPaperScissors):
    """A game that fails in its third step, or sends a wrong observation to the second player."""

    def __init__(self, how="raise"):
        super().__init__()
        self.how = how

    def transition(self, state, actions, rng):
        if state.round == 2 and self.how == "raise":
            raise ValueError("no such move")
        return super().transition(state, actions, rng)

    def observe(self, state, agent, rng):
        wrong = state.round == 3 and self.how == "spec" and agent == "player_1"
        return np.int64(9) if wrong else super().observe(state, agent, rng)


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
    sets = {"long": {"length": 0.5}, "short": {"length": 0.25}}
    return envoi.Contextual(envoi.batch(envoi.models.CartPole(), 4), sets, hide_context=True)


def looped_lanes():
    """Makes a batch of environments that are stepped one by one, with a time limit."""
    return envoi.batch(lambda: envoi.TimeLimit(envoi.models.Catch(), 7), 3)
