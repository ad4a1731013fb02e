"""Sampling of several agents under RLlib: its own env runner and vector environment, and envoi's, in one process.

    python benchmarks/rllib_multi_agent.py [--rounds 7] [--envs 1 8 64] [--only pursuit] [--json rllib_multi_agent.json]

Microseconds of this process's CPU time for one step of one agent, samples and their metrics, for the policies that
each game needs, with two layers of 64. Both runners step the very same environments, with `normalize_actions=False`, as
no action is real; with RLlib's default, True, its own runner is slower. A goal is for 64 environments.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")

from contextlib import ExitStack
from functools import partial

import gymnasium
from measuring.rllib import samples
from measuring.rows import Group, Pair
from measuring.script import run

POLICIES = {
    "envoi:pursuit": {"hunter_0": "hunters", "hunter_1": "hunters", "prey": "prey"},
    "envoi:rps": {"player_0": "players", "player_1": "players"},
    "envoi:nim": {"first": "players", "second": "players"},
}
"""The games, and the policy of each of their agents."""

OURS, THEIRS = "envoi, one by one", "RLlib's runner"

STEPS = 32


def runner(env: str, is_ours: bool, lanes: int):
    """Returns an env runner."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from envoi.integrations.rllib import register
    from envoi.integrations.rllib.batched_runner import BatchedMultiAgentEnvRunner

    policies = POLICIES[env]
    register(env, env)
    config = (
        PPOConfig()
        .environment(env, disable_env_checking=True, normalize_actions=False)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=lanes, rollout_fragment_length=STEPS)
        .multi_agent(policies=set(policies.values()), policy_mapping_fn=lambda agent, *_, **__: policies[agent])
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
        .debugging(seed=0, log_level="ERROR")
    )
    gymnasium.registry.pop("rllib-multi-agent-env-v0", None)
    return (BatchedMultiAgentEnvRunner if is_ours else MultiAgentEnvRunner)(config=config, worker_index=1)


def groups(options):
    for env in POLICIES:
        for lanes in options.envs or ([64] if options.quick else [1, 8, 64]):
            with ExitStack() as opened:
                cases = {
                    name: samples(opened, partial(runner, env, is_ours, lanes), lambda episode: episode.agent_steps())
                    for name, is_ours in ((THEIRS, False), (OURS, True))
                }
                pairs = [Pair(f"{env}, one by one", OURS, THEIRS, least=2.2 if lanes == 64 else None)]
                yield Group(cases, pairs, "µs a step of an agent", lanes)


def options(parser):
    parser.add_argument("--envs", type=int, nargs="+", help="environments of a runner (default 1 8 64)")


if __name__ == "__main__":
    run(__doc__, groups, rounds=7, quick=5, clock="CPU time of the process", options=options)
