"""Imports the pools of envpool, whose lanes are stepped in C++ threads, as native batches.

    load("envpool:CartPole-v1", n=64)                 all lanes at a time
    load("envpool:Pong-v5", n=64, batch_size=16)      16 of them at a time, see `FromEnvpool.recv`

| envpool, gymnasium's interface | core |
|---|---|
| `observation_space`, `action_space`: those of one lane | specs, by gymnasium's |
| an observation or action in another dtype than its space | in the dtype of the spec |
| reward, float32 | float32, shape (n,) |
| `terminated`, `truncated` | the same, shape (n,) |
| none | discount: 0 if terminated, else 1 |
| a lane that has ended is reset in the following step | `step(actions, restart=over)` |
| `reset(env_id)` | `reset(mask=…)`, of any lanes |
| `step(actions, env_id)` | `step(actions, hold=…)`, if all lanes are stepped at a time |
| `send(actions, env_id)`, `recv()` | `send`, `recv` |
| infos as arrays | infos by lane, without `env_id` and `players`, which are indices of lanes |
| `seed=[…]` of the constructor | `reset(seed=…)`: the pool is made again, with a seed for each lane |

What is lost:

| what | how |
|---|---|
| that an episode terminates in the very step of its time limit | arrives as truncated alone |
| snapshots, copies and pickles of a pool | refused |
| `reset(seed=…)` of some of the lanes | refused |
| reset options | the first ones give a warning |
| pools with several players, and those of dm_env's interface | refused |
| rewarders of `(state, action, next_state)` | get observations, because a pool shows no states |

Without a seed, `load` gives each lane a random one; envpool itself gives each pool the seed 42.
"""

from __future__ import annotations

from typing import Any

from envpool.python.envpool import EnvPoolMixin  # pyright: ignore[reportMissingImports]

from envoi import BatchEnv

from ..conversion import imported
from .names import load, names
from .source import NAME, FromEnvpool

__all__ = ["IMPORTER", "FromEnvpool", "from_envpool", "load", "names", "recognises"]

IMPORTER = FromEnvpool


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, EnvPoolMixin)


def from_envpool(env: Any) -> BatchEnv:
    """Imports a pool of envpool.

    Args:
        env: The pool, made by `envpool.make_gymnasium`.

    Returns:
        A core batch with `.source`, which is replaced by `reset(seed=…)`.

    Raises:
        SpecError: It belongs to another framework, or has dm_env's interface.
        LossyConversion: It has several players in a lane.
    """
    return imported(env, NAME, FromEnvpool, FromEnvpool)
