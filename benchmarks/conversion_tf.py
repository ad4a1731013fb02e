"""The cost of our TF-Agents environments, compared with those of TF-Agents, in the environment of `make test-tf`.

    .venv-tf/bin/python benchmarks/conversion_tf.py [--rounds 15] [--json conversion_tf.json]

"Added" is over stepping the raw environment. Rounds are interleaved, so that a slow moment of a shared machine hits
all alike; what counts is the ratio of two rows of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
warnings.filterwarnings("ignore")

import dm_env
import gym
import gymnasium
import numpy as np
from dm_env import specs
from tf_agents.environments import wrappers
from tf_agents.environments.dm_control_wrapper import DmControlWrapper
from tf_agents.environments.gym_wrapper import GymWrapper
from tf_agents.environments.suite_gym import wrap_env

import envoi
from envoi.adapters import to_tf_agents

EPISODE = 200
ACTION = np.asarray(1)


class NullGymnasium(gymnasium.Env):
    """Nothing happens for 200 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, False, {}


class NullGym(gym.Env):
    """The same, of the gym that TF-Agents knows."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self):
        self.time = 0
        return np.zeros(4, np.float32)

    def step(self, action):
        self.time += 1
        return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, {}


class NullDmEnv(dm_env.Environment):
    """The same, of dm_env."""

    def observation_spec(self):
        return specs.Array((4,), np.float32, "observation")

    def action_spec(self):
        return specs.DiscreteArray(2, np.int64, "action")

    def reset(self):
        self.time = 0
        return dm_env.restart(np.zeros(4, np.float32))

    def step(self, action):
        self.time += 1
        if self.time >= EPISODE:
            return dm_env.termination(1.0, np.zeros(4, np.float32))
        return dm_env.transition(1.0, np.zeros(4, np.float32))


class NullModel(envoi.Model):
    """The same, of the core."""

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
    """Two vectors in a dict."""

    observation_spec = {"a": envoi.Array((4,)), "b": envoi.Array((4,))}

    def observe(self, state, rng):
        return {"a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32)}


def per_step(env, episodes=2):
    """Nanoseconds a step, resets included."""
    start = time.perf_counter()
    for _ in range(episodes):
        env.reset()
        step = env.step
        for _ in range(EPISODE):
            step(ACTION)
    return (time.perf_counter() - start) / episodes / EPISODE * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    rows = {  # name: (env, the row that it adds to, the row of envoi that it is compared with)
        "gym env": (NullGym(), None, None),
        "gymnasium env": (NullGymnasium(), None, None),
        "to_tf_agents(gymnasium)": (to_tf_agents(NullGymnasium()), "gymnasium env", None),
        "GymWrapper": (GymWrapper(NullGym()), "gym env", "to_tf_agents(gymnasium)"),
        "suite_gym.wrap_env": (wrap_env(NullGym()), "gym env", "to_tf_agents(gymnasium)"),
        "dm_env env": (NullDmEnv(), None, None),
        "to_tf_agents(dm_env)": (to_tf_agents(NullDmEnv()), "dm_env env", None),
        "DmControlWrapper": (DmControlWrapper(NullDmEnv()), "dm_env env", "to_tf_agents(dm_env)"),
        "envoi.Model": (NullModel(), None, None),
        "to_tf_agents(Model)": (to_tf_agents(NullModel()), "envoi.Model", None),
        "envoi.Model, a dict": (NullDict(), None, None),
        "to_tf_agents(Model, a dict)": (to_tf_agents(NullDict()), "envoi.Model, a dict", None),
        "TF-Agents' flattening of it": (
            wrappers.FlattenObservationsWrapper(to_tf_agents(NullDict())),
            "to_tf_agents(Model, a dict)",
            None,
        ),
    }
    rounds = {name: [] for name in rows}
    for _ in range(arguments.rounds):
        for name, (env, _, _) in rows.items():
            rounds[name].append(per_step(env))
    best = {name: min(times) for name, times in rounds.items()}
    middle = {name: statistics.median(times) for name, times in rounds.items()}

    def added(name, figures):
        return figures[name] - figures[rows[name][1]]

    print(f"{'ns a step':<32}{'best':>9}{'median':>9}{'added':>9}{'median':>9}{'peer / ours':>14}")
    for name, (_, base, ours) in rows.items():
        line = f"{name:<32}{best[name]:9.0f}{middle[name]:9.0f}"
        if base is not None:
            line += f"{added(name, best):9.0f}{added(name, middle):9.0f}"
        if ours is not None:
            line += f"{added(name, best) / added(ours, best):14.1f}"
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps({"ns_per_step": rounds}, indent=2))


if __name__ == "__main__":
    main()
