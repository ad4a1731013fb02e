"""Sampling of several agents under RLlib: its own env runner and vector environment, and envoi's, in one process.

    python benchmarks/rllib_multi_agent.py [--rounds 9] [--envs 1 8 64] [--only pursuit] [--json rllib_multi_agent.json]

Agent-steps per second of processor time of this process, median and quartiles of interleaved rounds, for the policies
that each game needs, with two layers of 64. RLlib's runner and "one by one" step the very same environments; "as a
batch" steps the game's own batch. All have `normalize_actions=False`, as no action is real; with RLlib's default, True,
its own runner is slower. A goal is the least multiple of RLlib's figure, for 64 environments.
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
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
warnings.filterwarnings("ignore")  # what frameworks say of themselves

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

from envoi.integrations.rllib import register
from envoi.integrations.rllib.multi_agent_runner import BatchedMultiAgentEnvRunner

POLICIES = {
    "envoi:pursuit": {"hunter_0": "hunters", "hunter_1": "hunters", "prey": "prey"},
    "envoi:rps": {"player_0": "players", "player_1": "players"},
    "envoi:nim": {"first": "players", "second": "players"},
}
"""The games, and the policy of each of their agents."""

RUNNERS = {
    "RLlib": (MultiAgentEnvRunner, False),
    "one by one": (BatchedMultiAgentEnvRunner, False),
    "as a batch": (BatchedMultiAgentEnvRunner, "auto"),
}
"""The runners: their class, and the option `vectorize` of the environment."""

GOAL = {"as a batch": 3.0}
STEPS = 32


def make(env, kind, vectorize, lanes):
    policies = POLICIES[env]
    name = f"{env}-{vectorize}"
    register(name, env, vectorize=vectorize)
    config = (
        PPOConfig()
        .environment(name, disable_env_checking=True, normalize_actions=False)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=lanes, rollout_fragment_length=STEPS)
        .multi_agent(policies=set(policies.values()), policy_mapping_fn=lambda agent, *_, **__: policies[agent])
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .debugging(seed=0, log_level="ERROR")
    )
    gymnasium.registry.pop("rllib-multi-agent-env-v0", None)
    return kind(config=config, worker_index=1)


def per_second(runner, seconds=0.5):
    """Returns agent-steps per second of processor time, of samples and their metrics."""
    steps, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        steps += sum(episode.agent_steps() for episode in runner.sample())
        runner.get_metrics()
    return steps / (time.process_time() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default 9)")
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 8, 64], help="environments of a runner")
    parser.add_argument("--only", default="", help="only games whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    figures = []
    columns = "".join(f"{name:>9}" for name in ("q1", "median", "q3", "x RLlib"))
    print(f"{'agent-steps/CPU-s':<18}{'envs':>6}  {'runner':<12}{columns}{'goal':>6}")
    for env in POLICIES:
        if arguments.only not in env:
            continue
        for lanes in arguments.envs:
            runners = {name: make(env, kind, vectorize, lanes) for name, (kind, vectorize) in RUNNERS.items()}
            if env == "envoi:nim":
                del runners["as a batch"]  # its players take turns
            found = {name: [] for name in runners}
            for runner in runners.values():
                runner.sample()
            for _ in range(arguments.rounds):
                for name, runner in runners.items():
                    found[name].append(per_second(runner))
            for name, speeds in found.items():
                quartiles = statistics.quantiles(speeds, n=4) if len(speeds) > 1 else speeds * 3
                ratio = statistics.median(mine / own for mine, own in zip(speeds, found["RLlib"], strict=True))
                goal = f"{GOAL[name]:6g}" if name in GOAL and lanes == 64 else ""
                line = f"{env:<18}{lanes:>6}  {name:<12}" + "".join(f"{speed:9.0f}" for speed in quartiles)
                print(f"{line}{ratio:9.2f}{goal}", flush=True)
                figures.append({"env": env, "envs": lanes, "runner": name, "agent_steps_per_second": speeds})
            for runner in runners.values():
                runner.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
