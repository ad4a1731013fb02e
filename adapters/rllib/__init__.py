"""RLlib, for environments of one agent, of several, and for batches.

RLlib's default networks train on few kinds of spaces, and silently train wrong on others (a `Discrete` that does not
start at 0 gets invalid actions). So the form that RLlib gets is canonical:

| core | RLlib |
|---|---|
| an image: `Array` of shape (h, w, c), h = w in `IMAGE_SIZES` | `Box` float32 of that shape; integers scaled to 0 … 1 |
| any other observation, nested or not | one flat `Box` float32; integers with few values one-hot |
| `Discrete` action | `Discrete(n)`, from 0 |
| `MultiDiscrete`, `MultiBinary`, narrow integer `Array` actions | one flat `MultiDiscrete`, from 0 |
| floating `Array` actions | one flat `Box` float32 |
| nested actions | one `Box` or `MultiDiscrete` of all leaves where they agree, else a `Tuple` of both |
| `discount` that is not the default | `info["discount"]` |
| an environment of one agent | `RLlibEnv`, a gymnasium env |
| a `MultiEnv` | `RLlibMultiEnv`, a `MultiAgentEnv` (see `envoi.adapters.rllib.multi_form`) |
| a batch, or n lanes for `gym_env_vectorize_mode="vector_entry_point"` | `RLlibVectorEnv`, a gymnasium `VectorEnv` |

With `canonical=False` the spaces are gymnasium's, as `envoi.adapters.gymnasium` has them, and nothing is narrowed.

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

RLlib itself ignores discounts: an episode that goes on after a discount of 0 is bootstrapped by it.

Seeds: RLlib gives lane i of worker k the seed s + k + i, so that lanes of different workers collide, and may send
the same seed again for each rollout. Here the seed of an episode follows from RLlib's seed *and* the worker and
whether it evaluates; in training a seed that comes again goes on instead of starting over.

Contexts: lane i of worker k, of n lanes each, is lane k · n + i of all (`Process.assign_lane`), so that what goes round
over a set of contexts begins at another one in each.

What RLlib tells a creator and what it keeps to itself:

| mode | a creator knows | `bind_worker` knows |
|---|---|---|
| `sync` | the worker; lanes are counted as they are made | worker, lanes, whether RLlib evaluates |
| `async` | the worker | the same |
| `vector_entry_point` | none of these | the same |

`bind_worker` is a callback, which `envoi.integrations.rllib.configure` sets; with a config of your own write
`config.callbacks(on_environment_created=bind_worker)`. Without it an evaluation is known by `env_config` alone
(`{"in_evaluation": True}`), and does not replay otherwise. RLlib sends a seed only where `config.debugging(seed=…)`
says one, and sends it again only for evaluations that are counted in episodes (its default), which alone replay.

A step calls the core's step; spaces, codecs, who sees a mask and which discounts can be unusual are decided when the
form is made.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium

from envoi import Env, MultiEnv

from ..gymnasium import from_gymnasium
from ..registry import from_env
from .codec import Codec, losses
from .creator import EnvCreator
from .form import RLlibEnv
from .form_base import WorkerSeeds
from .worker_callback import bind_worker

__all__ = [
    "Codec",
    "EnvCreator",
    "RLlibEnv",
    "WorkerSeeds",
    "bind_worker",
    "from_rllib",
    "losses",
    "recognises",
    "to_rllib",
]


def _is_multi_agent(env: object) -> bool:
    """Whether `env` is a `MultiAgentEnv`, also inside wrappers of gymnasium; imports nothing."""
    module = sys.modules.get("ray.rllib.env.multi_agent_env")
    if module is None or not isinstance(env, gymnasium.Env):
        return False
    return isinstance(env.unwrapped, module.MultiAgentEnv)


def recognises(env: object) -> bool:
    """Whether `env` is an environment in RLlib's form, one of RLlib's own, or a creator of ours."""
    if isinstance(env, (RLlibEnv, EnvCreator)) or _is_multi_agent(env):
        return True
    module = sys.modules.get(f"{__package__}.vector_form")
    return module is not None and isinstance(env, module.RLlibVectorEnv)


def to_rllib(
    env: Any,
    *,
    validate: bool = False,
    canonical: bool = True,
    action_masks: bool = False,
    num_envs: int | None = None,
    **arguments: Any,
) -> EnvCreator:
    """Any environment as an env creator for `ray.tune.register_env`.

    Args:
        env: A name for `envoi.adapters.load`, something callable that makes an environment of any framework, or
            an environment, of which each lane gets a copy. It may have one agent, several, or be a batch.
        validate: Check every value against its spec, with an error that names leaf, step and episode.
        canonical: Give spaces that RLlib's networks train on; False gives gymnasium's, for whoever brings connectors
            of their own.
        action_masks: Make of each observation a dict of `action_mask` and `observations`, as RLlib's
            `ActionMaskingRLModule` needs it.
        num_envs: Make batches of so many lanes. Where RLlib asks for some itself, under
            `gym_env_vectorize_mode="vector_entry_point"`, it may be left out.
        **arguments: For `load` or the callable.

    Returns:
        `creator(env_context) -> RLlibEnv | RLlibMultiEnv | RLlibVectorEnv`, each with `.core`; it pickles if `env`
        does. `from_rllib` of it gives `env` back.
    """
    return EnvCreator(env, validate, arguments, canonical, action_masks, num_envs)


def from_rllib(env: Any) -> Env | MultiEnv:
    """An environment that RLlib steps, of one agent, of several or of many lanes, as a core one.

    Args:
        env: A gymnasium env, a `MultiAgentEnv`, a vector env, or what `to_rllib` gave.

    Returns:
        A core environment; the very same object for what came from the core.
    """
    if isinstance(env, EnvCreator):
        is_ready = not isinstance(env.env, str) and not callable(env.env)
        return from_env(env.env) if is_ready else env().core
    if isinstance(env, RLlibEnv):
        return env.core
    if _is_multi_agent(env):
        from .multi_source import from_multi_agent

        return from_multi_agent(env)
    if isinstance(env, gymnasium.vector.VectorEnv):
        from ..gymnasium_vector import from_gymnasium_vector

        return from_gymnasium_vector(env)
    return from_gymnasium(env)
