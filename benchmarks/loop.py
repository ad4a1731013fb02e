"""A loop over gymnasium's environments beside its `SyncVectorEnv`, in the same run.

    python benchmarks/loop.py [--lanes 64] [--rounds 31] [--json loop.json]

Both step the same kind of environment through the same interface; what is measured is CPU time a step of a lane. The
"bare" loop stacks nothing: no vector environment in one process can be much faster than that.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import measuring.null_envs  # noqa: F401 (registers "Null-v0")
from measuring.loops import sampled
from measuring.rows import Group, Pair
from measuring.script import run

import envoi
from envoi.adapters import load, to_gymnasium_vector


class Bare:
    """The environments alone."""

    def __init__(self, name, n):
        self.envs = [gymnasium.make(name, disable_env_checker=True) for _ in range(n)]

    def reset(self, seed):
        for env in self.envs:
            env.reset(seed=seed)

    def step(self, actions):
        for env, action in zip(self.envs, actions, strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


def groups(options):
    n = options.lanes
    for name, row in (("CartPole-v1", "a loop of CartPoles"), ("Null-v0", "a loop of null envs")):
        makers = {
            "envoi": lambda name=name: to_gymnasium_vector(envoi.batch(load(f"gymnasium:{name}"), n)),
            "gymnasium SyncVectorEnv": lambda name=name: gymnasium.make_vec(name, n, vectorization_mode="sync"),
            "bare": lambda name=name: Bare(name, n),
        }
        cases = {title: sampled(make, n, max(10, 4000 // n)) for title, make in makers.items()}
        goals = {"gymnasium SyncVectorEnv": 1 if n == 64 else None, "bare": None}
        pairs = [Pair(row, "envoi", peer, least=goal) for peer, goal in goals.items()]
        yield Group(cases, pairs, "ns a step of a lane", n)


if __name__ == "__main__":
    run(
        __doc__, groups, rounds=31, quick=9, options=lambda parser: parser.add_argument("--lanes", type=int, default=64)
    )
