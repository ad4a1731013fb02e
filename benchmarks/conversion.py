"""The time that a conversion adds to a step, compared with other libraries, in one process.

    python benchmarks/conversion.py [--rounds 15] [--only dm_env] [--json conversion.json]

Every layer goes around an environment that does nothing for 200 steps. "Added" is nanoseconds a step over stepping
that environment itself in the loop of the same form, resets included; best and median of interleaved rounds, so that
a slow moment of a shared machine hits all alike. What counts is the ratio of two rows of one run.

The peers gym (for bsuite's wrappers) and SuperSuit are optional: `make bench` puts them where they are found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dm_env
import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import conversions
from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: F401 (its import is no part of what is measured)
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from stable_baselines3.common.vec_env import DummyVecEnv

import envoi
from envoi.adapters import (
    from_dm_env,
    from_env,
    from_gymnasium,
    to_dm_env,
    to_gymnasium,
    to_gymnasium_vector,
    to_pettingzoo,
    to_pettingzoo_aec,
    to_rllib,
    to_sb3,
)

EPISODE = 200
AGENTS = ["a", "b"]
BOX = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
CHOICE = gymnasium.spaces.Discrete(2)


class NullModel(envoi.Model):
    """Nothing happens for 200 steps."""

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


class NullDmEnv(dm_env.Environment):
    def __init__(self):
        self._observation_spec = dm_env.specs.Array((4,), np.float32)
        self._action_spec = dm_env.specs.DiscreteArray(2)

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


class NullParallel(ParallelEnv):
    metadata = {"name": "null"}
    possible_agents = AGENTS
    render_mode = None

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return CHOICE

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, AGENTS[:]
        return {agent: np.zeros(4, np.float32) for agent in AGENTS}, {agent: {} for agent in AGENTS}

    def step(self, actions):
        self.time += 1
        over = self.time >= EPISODE
        if over:
            self.agents = []
        return (
            {agent: np.zeros(4, np.float32) for agent in AGENTS},
            dict.fromkeys(AGENTS, 1.0),
            dict.fromkeys(AGENTS, over),
            dict.fromkeys(AGENTS, False),
            {agent: {} for agent in AGENTS},
        )


class NullAEC(AECEnv):
    metadata = {"name": "null", "is_parallelizable": True}
    possible_agents = AGENTS
    render_mode = None

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return CHOICE

    def observe(self, agent):
        return np.zeros(4, np.float32)

    def reset(self, seed=None, options=None):
        self.time, self.agents, self._at = 0, AGENTS[:], 0
        self.agent_selection = AGENTS[0]
        self.rewards, self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0), dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._at ^= 1
        if self._at:
            self._clear_rewards()
        else:
            self.time += 1
            self.rewards = dict.fromkeys(AGENTS, 1.0)
            if self.time >= EPISODE:
                self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = AGENTS[self._at]
        self._accumulate_rewards()
        self._deads_step_first()


# Loops: nanoseconds a step of an environment in each form; in a game a step is one action of each agent.


def _timed(play: Callable[[], None], episodes: int) -> float:
    start = time.thread_time()
    for _ in range(episodes):
        play()
    return (time.thread_time() - start) / episodes / EPISODE * 1e9


def single(env, episodes=10):
    def play():
        env.reset()
        step = env.step
        for _ in range(EPISODE):
            step(1)

    return _timed(play, episodes)


ACTIONS = dict.fromkeys(AGENTS, 1)


def parallel(env, episodes=5):
    def play():
        env.reset()
        step = env.step
        for _ in range(EPISODE):
            step(ACTIONS)

    return _timed(play, episodes)


def turns(env, episodes=5):
    def play():
        env.reset()
        for _ in env.agent_iter():
            _, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else 1)

    return _timed(play, episodes)


def vector(env, episodes=5):
    actions = np.ones(len(AGENTS), int)

    def play():
        env.reset()
        for _ in range(EPISODE):
            env.step(actions)

    return _timed(play, episodes)


def one_by_one(envs, episodes=2):
    def play():
        for env in envs:
            env.reset()
        for _ in range(EPISODE):
            for env in envs:
                env.step(1)

    return _timed(play, episodes)


def lanes(env, episodes=2):
    actions = np.ones(getattr(env, "batch_size", None) or env.num_envs, int)

    def play():
        env.reset()
        for _ in range(EPISODE):
            env.step(actions)

    return _timed(play, episodes)


def to_stable_baselines3(n):
    """The rows of n lanes, each beside Stable-Baselines3's own loop over the same null environment."""
    peers = {"DummyVecEnv": lambda: DummyVecEnv([NullGymnasium] * n)}
    below = (lambda: [NullGymnasium() for _ in range(n)], one_by_one)
    return [
        Row(
            f"{n} lanes of a Model → SB3",
            (lambda: [NullModel() for _ in range(n)], one_by_one),
            lambda: to_sb3(envoi.batch(NullModel(), n)),
            lanes,
            peers,
            peer_base=below,
        ),
        Row(
            f"{n} lanes of a BatchModel → SB3",
            (lambda: envoi.batch(NullBatchModel(), n), lanes),
            lambda: to_sb3(envoi.batch(NullBatchModel(), n)),
            lanes,
            peers,
            peer_base=below,
        ),
    ]


def rllib_turns(env, episodes=5):
    def play():
        observations, _ = env.reset()
        over = False
        while not over:
            observations, _, terminateds, truncateds, _ = env.step(dict.fromkeys(observations, 1))
            over = terminateds["__all__"] or truncateds["__all__"]

    return _timed(play, episodes)


@dataclass
class Row:
    """A layer: what it goes around, ours, the peers' and the goal.

    Attributes:
        layer: What is converted to what.
        base: Makes the environment below, and the loop that steps it.
        ours: Makes our form of it.
        loop: Steps the converted environment.
        peers: Make the peers' forms, by name.
        goal: The largest share of the first peer's added time that ours may have; None where there is no peer.
        peer_base: What the peers go around, where that is something else.
    """

    layer: str
    base: tuple[Callable, Callable]
    ours: Callable
    loop: Callable
    peers: dict[str, Callable] = field(default_factory=dict)
    goal: float | None = None
    peer_base: tuple[Callable, Callable] | None = None


class ByHand(gymnasium.Env):
    """A gymnasium environment that calls the functions of `NullModel`, written by hand."""

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


class Halved(envoi.Lifted):
    """Changes one value."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: reward * 0.5)


class HalvedByHand(gymnasium.RewardWrapper):
    """`Halved`, as a wrapper of gymnasium."""

    def reward(self, reward):
        return reward * 0.5


def wrapped(env, wrapper, layers):
    for _ in range(layers):
        env = wrapper(env)
    return env


def wrapper_row(layers):
    """Returns the row of wrappers that change one value each, in the gymnasium form, over none."""
    return Row(
        f"{layers} wrappers, over none",
        (lambda: to_gymnasium(NullModel()), single),
        lambda: to_gymnasium(wrapped(NullModel(), Halved, layers)),
        single,
        {"gymnasium's": lambda: wrapped(ByHand(), HalvedByHand, layers)},
        peer_base=(ByHand, single),
    )


def optional(make):
    """Returns the function that makes a peer, or None if the peer is not installed."""
    try:
        make()
    except ImportError:
        return None
    return make


def bsuite_gym():
    from bsuite.utils import gym_wrapper

    return gym_wrapper.GymFromDMEnv(NullDmEnv())


def bsuite_dm_env():
    import gym
    from bsuite.utils import gym_wrapper

    class Old(gym.Env):
        """An environment with gym's old steps of four values, which bsuite's wrapper reads."""

        observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self):
            self.time = 0
            return np.zeros(4, np.float32)

        def step(self, action):
            self.time += 1
            return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, {}

    return gym_wrapper.DMEnvFromGym(Old())


def shimmy_gymnasium():
    from shimmy.dm_control_compatibility import DmControlCompatibilityV0

    class Shimmied(DmControlCompatibilityV0):
        """Its constructor takes dm_control's environments only; its step is what is measured."""

        def __init__(self):
            self._env = NullDmEnv()
            self.observation_space, self.action_space = BOX, CHOICE
            self.render_mode = None

        def reset(self, *, seed=None, options=None):
            return self._env.reset().observation, {}

    return Shimmied()


def supersuit(make):
    def made():
        import supersuit

        return supersuit.pettingzoo_env_to_vec_env_v1(make())

    return made


def rows() -> list[Row]:
    gymnasium.register("NullLimited-v0", NullLimited, max_episode_steps=EPISODE)
    gymnasium.register("Null-v0", NullGymnasium)
    gymnasium.register("NullByHand-v0", ByHand, max_episode_steps=EPISODE)
    peers = {
        "gymnasium.make, with a time limit": lambda: gymnasium.make("NullLimited-v0"),
        "gymnasium.make": lambda: gymnasium.make("Null-v0"),
        "gymnasium.make, no checker": lambda: gymnasium.make("Null-v0", disable_env_checker=True),
    }
    gymnasium_base = (NullGymnasium, single)
    bsuites = {"bsuite": optional(bsuite_gym), "Shimmy": optional(shimmy_gymnasium)}
    return [
        Row(
            "core → gymnasium",
            (NullModel, single),
            lambda: to_gymnasium(NullModel()),
            single,
            peers,
            0.5,
            gymnasium_base,
        ),
        Row("Model, over a gymnasium env by hand", (NullGymnasium, single), NullModel, single),
        Row(
            "Model → gymnasium, over one by hand",
            (ByHand, single),
            lambda: to_gymnasium(NullModel()),
            single,
            {"gymnasium.make's wrappers": lambda: gymnasium.make("NullByHand-v0")},
            0.25,
        ),
        *(wrapper_row(layers) for layers in (0, 1, 3, 6)),
        Row("gymnasium → core", (NullGymnasium, single), lambda: from_gymnasium(NullGymnasium()), single),
        Row(
            "dm_env → gymnasium",
            (NullDmEnv, single),
            lambda: to_gymnasium(from_dm_env(NullDmEnv())),
            single,
            bsuites,
            1.0,
        ),
        Row(
            "gymnasium → dm_env",
            (NullGymnasium, single),
            lambda: to_dm_env(from_gymnasium(NullGymnasium())),
            single,
            {"bsuite": optional(bsuite_dm_env)},
            0.9,
        ),
        Row(
            "PettingZoo parallel → AEC",
            (NullParallel, parallel),
            lambda: to_pettingzoo_aec(from_env(NullParallel())),
            turns,
            {"PettingZoo": lambda: conversions.parallel_to_aec(NullParallel())},
            0.25,
        ),
        Row(
            "PettingZoo AEC → parallel",
            (NullAEC, turns),
            lambda: to_pettingzoo(NullAEC()),
            parallel,
            {"PettingZoo": lambda: conversions.aec_to_parallel(NullAEC())},
            1.0,
        ),
        Row(
            "PettingZoo parallel → RLlib",
            (NullParallel, parallel),
            lambda: to_rllib(NullParallel(), canonical=False)({}),
            rllib_turns,
            {"RLlib": lambda: ParallelPettingZooEnv(NullParallel())},
            1.0,
        ),
        Row(
            "PettingZoo AEC → RLlib",
            (NullAEC, turns),
            lambda: to_rllib(NullAEC(), canonical=False)({}),
            rllib_turns,
            {"RLlib": lambda: PettingZooEnv(NullAEC())},
            1.0,
        ),
        Row(
            "PettingZoo parallel → vector env",
            (NullParallel, parallel),
            lambda: to_gymnasium_vector(from_env(NullParallel())),
            vector,
            {"SuperSuit": optional(supersuit(NullParallel))},
            0.2,
        ),
        *to_stable_baselines3(8),
        *to_stable_baselines3(64),
    ]


def main():
    warnings.simplefilter("ignore")  # what frameworks say of themselves
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--only", default="", help="only layers whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    figures = []
    print(f"{'ns a step':<38}{'form':<36}{'best':>9}{'median':>9}{'added':>9}{'ours / it':>11}{'goal':>7}")
    for row in rows():
        if arguments.only not in row.layer:
            continue
        peers = {name: make for name, make in row.peers.items() if make is not None}
        bases = {"(below)": row.base} | ({"(below the peers)": row.peer_base} if row.peer_base else {})
        made = {name: (make(), loop) for name, (make, loop) in bases.items()} | {"envoi": (row.ours(), row.loop)}
        made |= {name: (make(), row.loop) for name, make in peers.items()}
        times = {name: [] for name in made}
        for _ in range(arguments.rounds):
            for name, (env, loop) in made.items():
                times[name].append(loop(env))
        best = {name: min(found) for name, found in times.items()}
        ours, first = best["envoi"] - best["(below)"], next(iter(peers), None)
        for index, name in enumerate(made):
            added = best[name] - best[list(bases)[-1] if name in peers else "(below)"]
            ratio = f"{ours / added:11.2f}" if name in peers and added > 0 else " " * 11
            goal = f"{row.goal:7.2f}" if name == first and row.goal is not None else ""
            shown = " " * 9 if name in bases else f"{added:9.0f}"
            layer = "" if index else row.layer
            print(f"{layer:<38}{name:<36}{best[name]:9.0f}{statistics.median(times[name]):9.0f}{shown}{ratio}{goal}")
        figures.append({"layer": row.layer, "ns_per_step": times, "goal": row.goal})
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
