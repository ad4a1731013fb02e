"""Environments that do nothing for 200 steps, in each form: what is measured around them is a layer's own cost."""

from __future__ import annotations

import dm_env
import gymnasium
import numpy as np

import envoi

EPISODE = 200
AGENTS = ["a", "b"]
BOX = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
CHOICE = gymnasium.spaces.Discrete(2)


class NullModel(envoi.Model):
    """Of the core."""

    observation_spec = envoi.Array((4,))
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return np.zeros(4, np.float32)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state >= EPISODE


class NullDict(NullModel):
    """Its observations are dicts of two vectors."""

    observation_spec = {"position": envoi.Array((4,)), "target": envoi.Array((5,))}
    reward_spec = envoi.Array((), "float32")
    discount_spec = envoi.Array((), "float32", 0, 1)

    def observe(self, state, rng):
        return {"position": np.zeros(4, np.float32), "target": np.zeros(5, np.float32)}


class NullBatchModel(envoi.BatchModel):
    """`NullModel`, all lanes in one call."""

    observation_spec = envoi.Array((4,))
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context, size):
        return np.zeros(size, int)

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return np.zeros((len(state), 4), np.float32)

    def reward(self, state, action, next_state):
        return np.ones(len(state))

    def terminal(self, state):
        return state >= EPISODE


class NullGymnasium(gymnasium.Env):
    """Of gymnasium, written by hand."""

    observation_space, action_space = BOX, CHOICE

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, False, {}


class NullLimited(NullGymnasium):
    """It leaves its end to gymnasium's time limit."""

    def step(self, action):
        return np.zeros(4, np.float32), 1.0, False, False, {}


class NullByHand(gymnasium.Env):
    """Of gymnasium, written by hand: it calls the functions of `NullModel`."""

    observation_space, action_space = BOX, CHOICE

    def __init__(self):
        self.model = NullModel()

    def reset(self, *, seed=None, options=None):
        self.streams = self.model.streams
        self.state = self.model.initial(self.streams.dynamics, {})
        return self.model.observe(self.state, self.streams.observation), {}

    def step(self, action):
        model, before = self.model, self.state
        self.state = state = model.transition(before, action, self.streams.dynamics)
        observation = model.observe(state, self.streams.observation)
        return observation, model.reward(before, action, state), model.terminal(state), False, {}


class NullDmEnv(dm_env.Environment):
    """Of dm_env."""

    def __init__(self):
        self._observation_spec = dm_env.specs.Array((4,), np.float32, "observation")
        self._action_spec = dm_env.specs.DiscreteArray(2, np.int64, "action")

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return self._action_spec

    def reset(self):
        self.time = 0
        return dm_env.restart(np.zeros(4, np.float32))

    def step(self, action):
        self.time += 1
        if self.time >= EPISODE:
            return dm_env.termination(1.0, np.zeros(4, np.float32))
        return dm_env.transition(1.0, np.zeros(4, np.float32))


def old_gym_env():
    """Returns an environment with the steps of four values that gym had until 0.25; bsuite and TF-Agents read these."""
    import gym

    class NullGym(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self):
            self.time = 0
            return np.zeros(4, np.float32)

        def step(self, action):
            self.time += 1
            return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, {}

    return NullGym()


for _name, _env, _limit in (("Null", NullGymnasium, None), ("NullLimited", NullLimited, EPISODE)):
    gymnasium.register(f"{_name}-v0", _env, max_episode_steps=_limit)
gymnasium.register("NullByHand-v0", NullByHand, max_episode_steps=EPISODE)
