"""Measures how fast env runners sample under RLlib: RLlib's own, with and without native batches, and the batched one.

    python benchmarks/rllib_sampling.py [--lanes 8,64,256] [--rounds 5] [--only NAME] [--json rllib_sampling.json]

Microseconds of this process's CPU time for one step of one lane, samples and their metrics, with PPO's default module
of two layers of 64. The peer is RLlib's own runner on gymnasium's vector environment: with RLlib's default settings,
and without its scaling of actions, which no case of CartPole needs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads make tiny networks several times slower

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import gymnasium
from measuring.rllib import samples
from measuring.rows import Group, Pair
from measuring.script import lanes_option, run

from envoi.adapters import load, to_gymnasium

SAMPLE = 2048
"""Steps of one sample of a runner."""

MODEL = {"fcnet_hiddens": [64, 64]}
NAMES = {
    "gymnasium CartPole": "gymnasium:CartPole-v1",
    "envoi CartPole": "envoi:cartpole",
    "dm_control cartpole": "dm_control:cartpole/balance",
}
PLAIN, UNSCALED = "RLlib's runner", "RLlib's runner, no scaling of actions"
OURS = ("RLlib's runner, envoi's batch", "envoi's runner, gymnasium's vector env", "envoi's runner, envoi's batch")
GOALS = {("gymnasium CartPole", OURS[2]): 2.5, ("envoi CartPole", OURS[2]): 3.5}
"""The least ratios to `PLAIN` with 64 lanes."""


def config(name: str, lanes: int, **settings: Any):
    """Returns a config for one env runner."""
    from ray.rllib.algorithms.ppo import PPOConfig

    made = PPOConfig().environment(name, **settings).rl_module(model_config=MODEL)
    made.env_runners(num_env_runners=0, num_envs_per_env_runner=lanes, rollout_fragment_length=max(SAMPLE // lanes, 1))
    return made.debugging(seed=0, log_level="ERROR")


def native(name: str, lanes: int, scaled: bool):
    """Returns a config whose lanes are one batch of envoi's."""
    from envoi.adapters.rllib import bind_worker

    made = config(name, lanes, normalize_actions=scaled).env_runners(gym_env_vectorize_mode="vector_entry_point")
    return made.callbacks(on_environment_created=bind_worker)


def plain_task(name: str) -> Callable[[Any], gymnasium.Env[Any, Any]]:
    """Returns a creator of an environment for RLlib's own vector env, flattened as RLlib's default modules need."""
    return lambda _: gymnasium.wrappers.FlattenObservation(to_gymnasium(load(name)))


def runners(env: str, lanes: int) -> dict[str, Callable[[], Any]]:
    """Returns functions that make the env runners of an environment."""
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
    from ray.tune import register_env

    from envoi.integrations.rllib import register
    from envoi.integrations.rllib.batched_runner import BatchedEnvRunner

    name = NAMES[env]
    scaled = env.startswith("dm_control")
    if scaled:
        register_env("plain", plain_task(name))
    plain = "plain" if scaled else "CartPole-v1"
    register(f"bench-{name}", name, check_specs=False)
    ours, theirs = BatchedEnvRunner, SingleAgentEnvRunner
    made = {
        PLAIN: (theirs, lambda: config(plain, lanes)),
        UNSCALED: (theirs, lambda: config(plain, lanes, normalize_actions=scaled)),
        "RLlib's runner, envoi's batch": (theirs, lambda: native(f"bench-{name}", lanes, scaled)),
        "envoi's runner, gymnasium's vector env": (ours, lambda: config(plain, lanes, normalize_actions=scaled)),
        "envoi's runner, envoi's batch": (ours, lambda: native(f"bench-{name}", lanes, scaled)),
    }
    if scaled:
        del made[UNSCALED]  # its actions are real
    return {
        name: lambda kind=kind, make=make: kind(config=make(), worker_index=0) for name, (kind, make) in made.items()
    }


def groups(options):
    for env in NAMES:
        for lanes in options.lanes or ([64] if options.quick else [8, 64, 256]):
            with ExitStack() as opened:
                cases = {name: samples(opened, make, len) for name, make in runners(env, lanes).items()}
                pairs = [
                    Pair(
                        f"{env}, {ours}",
                        ours,
                        peer,
                        least=GOALS.get((env, ours)) if (lanes, peer) == (64, PLAIN) else None,
                    )
                    for ours in OURS
                    for peer in (PLAIN, UNSCALED)
                    if peer in cases
                ]
                yield Group(cases, pairs, "µs a step of a lane", lanes)


if __name__ == "__main__":
    run(__doc__, groups, rounds=5, quick=3, clock="CPU time of the process", options=lanes_option)
