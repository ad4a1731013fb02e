"""Measures how fast env runners sample under RLlib: RLlib's own, with and without native batches, and the batched one.

The unit is environment steps per second of CPU time of one runner, with PPO's default module of two layers of 64. Cases
of one environment and number of lanes are interleaved; each figure is the median of its rounds, and the ratio that of
the paired rounds to RLlib's own runner on gymnasium's vector environment, with RLlib's default settings.

    python benchmarks/rllib_sampling.py [--json FILE] [--lanes 8,64,256] [--rounds 5] [--steps 6000] [--only NAME]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads make tiny networks several times slower

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.tune import register_env

from envoi.adapters import load, to_gymnasium
from envoi.adapters.rllib import bind_worker
from envoi.integrations.rllib import register
from envoi.integrations.rllib.batched_runner.batched_env_runner import BatchedEnvRunner

SAMPLE = 2048
"""Steps of one sample of a runner; a round takes as many samples as its steps need."""

MODEL = {"fcnet_hiddens": [64, 64]}
PLAIN = "RLlib's own, gymnasium's vector env"


def config(name: str, lanes: int, **settings: Any) -> PPOConfig:
    """Returns a config for one env runner.

    Args:
        name: The registered environment.
        lanes: The number of lanes.
        **settings: Settings of `AlgorithmConfig.environment`.
    """
    made = PPOConfig().environment(name, **settings).rl_module(model_config=MODEL)
    made.env_runners(num_env_runners=0, num_envs_per_env_runner=lanes, rollout_fragment_length=max(SAMPLE // lanes, 1))
    return made.debugging(seed=0, log_level="ERROR")


def native(name: str, lanes: int, scaled: bool) -> PPOConfig:
    """Returns a config whose lanes are one batch of envoi's.

    Args:
        name: The registered environment.
        lanes: The number of lanes.
        scaled: True if RLlib scales actions, which it need not if no action is a Box.
    """
    made = config(name, lanes, normalize_actions=scaled).env_runners(gym_env_vectorize_mode="vector_entry_point")
    return made.callbacks(on_environment_created=bind_worker)


def plain_task(name: str) -> Callable[[Any], gymnasium.Env[Any, Any]]:
    """Returns a creator of an environment for RLlib's own vector env, flattened as RLlib's default modules need."""

    def make(_: Any) -> gymnasium.Env[Any, Any]:
        return gymnasium.wrappers.FlattenObservation(to_gymnasium(load(name)))

    return make


def cases(env: str) -> dict[str, Callable[[int], Any]]:
    """Returns the cases of an environment by name: functions from the number of lanes to an env runner.

    Args:
        env: "gymnasium CartPole", "envoi CartPole" or "dm_control cartpole".
    """
    name = {
        "gymnasium CartPole": "gymnasium:CartPole-v1",
        "envoi CartPole": "envoi:cartpole",
        "dm_control cartpole": "dm_control:cartpole/balance",
    }[env]
    scaled = env.startswith("dm_control")
    if scaled:
        register_env("plain", plain_task(name))
    plain = "plain" if scaled else "CartPole-v1"
    register(f"bench-{name}", name, check_specs=False)

    def runner(kind: Any, make: Callable[[int], PPOConfig]) -> Callable[[int], Any]:
        return lambda lanes: kind(config=make(lanes), worker_index=0)

    def batch(lanes: int) -> PPOConfig:
        return native(f"bench-{name}", lanes, scaled)

    return {
        PLAIN: runner(SingleAgentEnvRunner, lambda lanes: config(plain, lanes)),
        "RLlib's own, no scaling of actions": runner(
            SingleAgentEnvRunner, lambda lanes: config(plain, lanes, normalize_actions=scaled)
        ),
        "RLlib's own, envoi's batch": runner(SingleAgentEnvRunner, batch),
        "batched, gymnasium's vector env": runner(
            BatchedEnvRunner, lambda lanes: config(plain, lanes, normalize_actions=scaled)
        ),
        "batched, envoi's batch": runner(BatchedEnvRunner, batch),
    }


ENVS = ("gymnasium CartPole", "envoi CartPole", "dm_control cartpole")


def rate(runner: Any, steps: int) -> float:
    """Returns the steps per CPU second of a runner that samples at least `steps` steps, with their metrics.

    Args:
        runner: The env runner.
        steps: The number of steps.
    """
    taken, start = 0, time.process_time()
    while taken < steps:
        taken += sum(map(len, runner.sample()))
        runner.get_metrics()
    return taken / (time.process_time() - start)


def measure(env: str, lanes: int, rounds: int, steps: int) -> dict[str, tuple[float, float]]:
    """Returns the steps per CPU second of each case, and their ratio to RLlib's own runner.

    Args:
        env: A name of `ENVS`.
        lanes: The number of lanes.
        rounds: The number of interleaved rounds.
        steps: The steps of a case in a round.
    """
    runners = {name: make(lanes) for name, make in cases(env).items()}
    for runner in runners.values():
        rate(runner, SAMPLE)
    found: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            found[name].append(rate(runner, steps))
    for runner in runners.values():
        runner.stop()
    return {
        name: (
            statistics.median(values),
            statistics.median(one / base for one, base in zip(values, found[PLAIN], strict=True)),
        )
        for name, values in found.items()
    }


def main() -> None:
    """Prints the table, and writes it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--lanes", default="8,64,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    table: list[dict[str, Any]] = []
    for env in ENVS:
        if asked.only not in env:
            continue
        for lanes in map(int, asked.lanes.split(",")):
            print(f"\n{env}, {lanes} lanes: steps per CPU second, and as a multiple of RLlib's own", flush=True)
            for name, (steps, ratio) in measure(env, lanes, asked.rounds, asked.steps).items():
                print(f"  {name:40s} {steps:9,.0f} {ratio:6.2f}", flush=True)
                table.append({"env": env, "lanes": lanes, "runner": name, "steps": steps, "ratio": ratio})
    if asked.json:
        asked.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
