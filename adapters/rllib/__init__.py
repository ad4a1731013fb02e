"""Exports to RLlib and imports from it: single-agent environments, multi-agent environments and batches.

RLlib's default networks support few kinds of spaces, and train wrongly on others without an error (a `Discrete` that
does not start at 0 gets invalid actions). The form for RLlib is therefore canonical:

| core | RLlib |
|---|---|
| an image: `Array` of shape (h, w, c), h = w in `IMAGE_SIZES` | `Box` float32 of that shape; integers scaled to 0 … 1 |
| any other observation, nested or not | one flat `Box` float32; integers with few values one-hot |
| `Array` of two axes or more that is no such image | flattened; images of unsigned integers scaled to 0 … 1 |
| `Discrete` action | `Discrete(n)`, from 0 |
| `MultiDiscrete`, `MultiBinary`, narrow integer `Array` actions | one flat `MultiDiscrete`, from 0 |
| floating `Array` actions | one flat `Box` float32 |
| nested actions | one `Box` of all leaves, or one `MultiDiscrete`, or a `Tuple` of both |
| `discount` that is not the default | `info["discount"]` |
| an environment of one agent | `RLlibEnv`, a gymnasium env |
| a `MultiEnv` | `RLlibMultiEnv`, a `MultiAgentEnv` (see `envoi.adapters.rllib.multi_form`) |
| a batch, or n lanes for `gym_env_vectorize_mode="vector_entry_point"` | `RLlibVectorEnv`, a gymnasium `VectorEnv` |

With `canonical="structured"`, any image stays an image, beside a vector of the other leaves; see
`envoi.adapters.rllib.observations`. With `canonical=False` the spaces are as in `envoi.adapters.gymnasium`, and
nothing is narrowed.

What is lost:

| what | field | how |
|---|---|---|
| `Text`, `Sequence`, `Graph`, `OneOf` leaves, complex arrays | type | refused |
| leaves that only another framework knows | type | refused |
| observations or actions of no numbers at all | size | refused |
| integer `Array` actions without bounds, or of more than `MAX_INTEGERS` values | bounds | refused |
| rewards that are not one number | shape | refused |
| float64 observations and actions | precision | narrowed |
| integer observations beyond 2²⁴ that are not one-hot | precision | narrowed |
| observations of two axes or more, but images as above | shape | flattened |

RLlib itself ignores discounts: it bootstraps across a discount of 0 if the episode continues.

Seeds: RLlib gives lane i of worker k the seed s + k + i, so lanes of different workers can have the same seed, and it
may send the same seed for each rollout. Here the seed of an episode is computed from RLlib's seed, the worker, and
whether the worker evaluates. In training, a repeated seed continues the random streams instead of restarting them.

Contexts: lane i of worker k, with n lanes per worker, has lane number k · n + i (`Process.assign_lane`), so a
round-robin selector starts at a different context in each lane.

RLlib gives the env creator less information than the callback `bind_worker`:

| mode | the creator knows | `bind_worker` knows |
|---|---|---|
| `sync` | the worker; lanes are counted as they are made | worker, lane, evaluation or training |
| `async` | the worker | the same |
| `vector_entry_point` | the worker, and so its lanes | the same |

`envoi.integrations.rllib.configure` sets `bind_worker`; in a config of your own write
`config.callbacks(on_environment_created=bind_worker)`. Without it, an evaluation is recognised only by `env_config`
(`{"in_evaluation": True}`), and its seeds are not repeated otherwise. RLlib sends a seed only if
`config.debugging(seed=…)` sets one, and repeats it only in evaluations that are counted in episodes (its default), so
only these have the same episodes each time.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium

from envoi import Env, MultiEnv

from ..gymnasium import from_gymnasium
from ..registry import from_env
from .codec import Codec, losses
from .creator import EnvCreator, bind_worker
from .form import ActionMasks, Canonical, RLlibEnv, RLlibForm, WorkerSeeds

__all__ = ["Codec", "EnvCreator", "RLlibEnv", "WorkerSeeds", "bind_worker", "from_rllib", "losses", "recognises"]
__all__ += ["to_rllib"]


def _is_multi_agent(env: object) -> bool:
    """Returns True for a `MultiAgentEnv`, possibly inside wrappers of gymnasium; imports nothing."""
    module = sys.modules.get("ray.rllib.env.multi_agent_env")
    if module is None or not isinstance(env, gymnasium.Env):
        return False
    return isinstance(env.unwrapped, module.MultiAgentEnv)


def recognises(env: object) -> bool:
    """Returns True for an RLlib form, an environment of RLlib's own classes, or a result of `to_rllib`."""
    return isinstance(env, (RLlibForm, EnvCreator)) or _is_multi_agent(env)


def to_rllib(
    env: Any,
    *,
    validate: bool = False,
    canonical: Canonical = True,
    action_masks: ActionMasks = False,
    num_envs: int | None = None,
    **arguments: Any,
) -> EnvCreator:
    """Converts any environment to an env creator for `ray.tune.register_env`.

    Args:
        env: A name for `envoi.adapters.load`, a callable that makes an environment of any framework, or an environment,
            which is copied for each lane. It may be single-agent, multi-agent or a batch.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and episode.
        canonical: If True, the spaces are those that RLlib's own networks support. "structured" also allows images
            beside other leaves, for the networks that `envoi.integrations.rllib.configure` sets up. If False, the
            spaces are gymnasium's, for connectors of your own.
        action_masks: If True, each observation is a dict of `action_mask` and `observations`, as the masked modules of
            `envoi.integrations.rllib.modules` and RLlib's `ActionMaskingRLModule` require; "auto" does so if the
            environment declares masks (an `action_mask` in its observations, `MultiModel.mask`) or has one in an info
            of its first reset.
        num_envs: The number of lanes of each batch, or None. It may be left out if RLlib sets it, with
            `gym_env_vectorize_mode="vector_entry_point"`.
        **arguments: Arguments for `load` or the callable.

    Returns:
        `creator(env_context) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv`, each with `.core`; it can be pickled if
        `env` can. `from_rllib(creator)` returns `env`.
    """
    return EnvCreator(env, validate, arguments, canonical, action_masks, num_envs)


def from_rllib(env: Any) -> Env | MultiEnv:
    """Imports an environment of RLlib: single-agent, multi-agent or vectorized.

    Args:
        env: A gymnasium env, a `MultiAgentEnv`, a vector env, or a result of `to_rllib`.

    Returns:
        A core environment; if `env` is a form made by envoi, its own core.
    """
    if isinstance(env, EnvCreator):
        is_ready = not isinstance(env.env, str) and not callable(env.env)
        return from_env(env.env) if is_ready else env().core
    if isinstance(env, RLlibForm):
        return env.core
    if _is_multi_agent(env):
        from .multi_source import FromRLlibMulti

        return FromRLlibMulti(env)
    if isinstance(env, gymnasium.vector.VectorEnv):
        from ..gymnasium_vector import from_gymnasium_vector

        return from_gymnasium_vector(env)
    return from_gymnasium(env)
