"""Stable-Baselines3's vector environments (`VecEnv`), both ways.

| core | Stable-Baselines3 |
|---|---|
| specs of one lane | `observation_space`, `action_space`: gymnasium's, as in `envoi.adapters.gymnasium` |
| values of shape (n, …); a dict or tuple of them | the same |
| reward | float32, shape (n,) |
| terminated or truncated | `dones`, bool, shape (n,) |
| truncated and not terminated | `info["TimeLimit.truncated"]`, in every info |
| `step(actions)`, then `reset(mask=over)` | one step: an ended lane is reset at once |
| the observation at the end | `info["terminal_observation"]` |
| the info at the end; the info of the next reset | the lane's info; `reset_infos` |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` |
| `reset(seed=[s, s+1, …], options=…)` | `seed(s)` and `set_options(…)`, for the next `reset()` alone |
| `info["action_mask"]` | `env_method("action_masks")`, of the episode under way |
| attributes and methods of the lanes | `get_attr`, `set_attr`, `env_method`, `env_is_wrapped` |

Two things of a step have no place there: the reward before it became float32, and that a terminated lane was truncated
too. A form keeps them in `last`, and they come back when the form is read.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| `Text`, `Sequence`, `Graph`, `OneOf` leaves | type | refused |
| dicts, lists and tuples inside of others in observations | nesting | refused |
| actions that are dicts, lists or tuples | nesting | refused |
| `Discrete`, `MultiDiscrete` leaves that do not start at 0 | start | refused |
| `Array` observations of shape (), `MultiDiscrete` leaves not of one axis | shape | refused |
| rewards that are not one number | shape | refused |
| float64, and 32-bit and wider integer, rewards | precision | narrowed |
| a batch whose lanes cannot be reset in the step of their end | restarts | refused |
| several agents of different spaces | spaces | refused |
| several agents that take turns | turns | refused |

An import of a `DummyVecEnv` consists of its sub-environments, whose rewards keep their precision. The lanes of any
other source, such as a `SubprocVecEnv` or a `VecEnvWrapper`, can only be stepped together, see `FromSB3`.

A form behaves like a vector environment of `envoi.adapters.gymnasium_vector` in mode `SAME_STEP`, under the names of
Stable-Baselines3.
"""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.vec_env import VecEnv

from envoi import BatchEnv

from ..conversion import exported, imported
from ..gymnasium_vector import batch_of
from ..shared.arrival import Copy
from .form import CurriculumVecEnv, ToSB3
from .source import FromDummyVecEnv, FromSB3, loops_only
from .specs import NAME, losses

__all__ = ["FORM", "IMPORTER", "FromDummyVecEnv", "FromSB3", "ToSB3", "from_sb3", "losses", "recognises", "to_sb3"]
__all__ += ["CurriculumVecEnv"]

# The form and the importer of a batch.
FORM, IMPORTER = ToSB3, FromSB3


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, VecEnv)


def to_sb3(env: Any, n: int | None = None, *, validate: bool = False) -> VecEnv:
    """Converts any environment to a Stable-Baselines3 `VecEnv`.

    Args:
        env: A core environment or batch, any environment that `envoi.adapters.from_env` recognises, or a function that
            makes one. A single environment is copied for each lane and is not changed. Multiple agents become lanes.
        n: The number of lanes; by default as many as `env` has, or 1.
        validate: Check every value against its spec, with an error that names leaf, step and lane.

    Returns:
        A `VecEnv` with `.core`. Without `validate`, a `VecEnv` is returned unchanged, and an imported one as its
        source.

    Raises:
        SpecError: `env` has a number of lanes other than `n`, or cannot be copied.
        LossyConversion: Stable-Baselines3 cannot express a part of it, or its lanes cannot be reset as they end.
    """
    as_it_is = not validate and n in (None, getattr(env, "num_envs", n))
    return exported(
        env, NAME, (FromSB3, FromDummyVecEnv), lambda c: ToSB3(c, validate), as_it_is, lambda e: batch_of(e, n, NAME)
    )


def from_sb3(env: VecEnv, *, copy: Copy = "auto") -> BatchEnv:
    """Imports a Stable-Baselines3 `VecEnv` as a core batch.

    Args:
        env: The `VecEnv`, possibly wrapped.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.

    Returns:
        A core batch with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: A space has a custom class, or the lanes have different spaces.
    """
    return imported(env, NAME, ToSB3, lambda env: (FromDummyVecEnv if loops_only(env) else FromSB3)(env, copy))
