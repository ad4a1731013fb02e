"""PettingZoo's Parallel API, both ways.

| core | PettingZoo |
|---|---|
| specs; values | the spaces and values of `envoi.adapters.gymnasium`, one space an agent |
| `possible_agents`, `agents` | the same, as lists; sorted by the core's order |
| `state`, `state_spec` | `state()`, `state_space` |
| the agents whose turn it is | `"active_agent"`, or `"active_agents"` of several, in the info of each in play |
| an action of each agent that acts | an action of each in play; that of a waiting one is ignored and may be absent |
| observations of the agents that act next or have ended | of all in play, waiting ones too, and of ended ones |
| a discount that is not the default (0 if terminated, else 1) | `info["discount"]` |
| `infos["__common__"]`, of no specific agent | `info["__common__"]` of each agent |
| the action mask | `info["action_mask"]`; an observation's `"action_mask"` is copied there on the way here |
| an environment of one agent | one of `"agent_0"` |

Taken on the way here: dicts in any order, infos without an agent, extra keys of infos (which come under
`"__common__"`), an end without a final observation (the last one is repeated, and marked). An AEC environment that
says that it is parallelizable comes with all its agents acting at once, see `envoi.adapters.pettingzoo_aec`.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |

Refused on the way here: environments without `possible_agents`; agents that return after their end, or leave without a
flag.

Decided at construction: spaces, which values need another container or type, which agents need a mask. Left for a step:
the core's or the source's own step, one dict of each kind, and a look at flags, discounts and infos.
"""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from envoi import Env, MultiEnv

from ..conversion import exported, imported
from ..gymnasium.specs import from_space, to_space
from ..registry import framework, from_env
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToPettingZoo
from .form_base import NAME, losses
from .names import load
from .source import FromPettingZoo

__all__ = [
    "FORM",
    "IMPORTER",
    "FromPettingZoo",
    "Loss",
    "ToPettingZoo",
    "from_pettingzoo",
    "from_space",
    "load",
    "losses",
    "recognises",
    "to_pettingzoo",
    "to_space",
]

FORM, IMPORTER = ToPettingZoo, FromPettingZoo
"""The form and the importer of an environment of several agents."""


def recognises(env: object) -> bool:
    """Returns whether `env` is an environment of this API."""
    return isinstance(env, ParallelEnv)


def to_pettingzoo(env: Any, *, validate: bool = False) -> ParallelEnv[Any, Any, Any]:
    """Any environment as a PettingZoo Parallel one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises. An AEC environment
            comes as `from_pettingzoo` says.
        validate: Check every value against its spec, with an error that names agent, leaf, step and episode.

    Returns:
        A `ParallelEnv` with `.core`; the very same object for what came from this API.

    Raises:
        LossyConversion: PettingZoo cannot express a part of it.
    """
    return exported(env, NAME, FromPettingZoo, lambda core: ToPettingZoo(core, validate), not validate, _to_core)


def _to_core(env: Any) -> Env | MultiEnv:
    return from_pettingzoo(env) if isinstance(env, AECEnv) else from_env(env)


def from_pettingzoo(env: Any, *, copy: Copy = "auto") -> Env | MultiEnv:
    """A PettingZoo environment as a core one, seen through the Parallel API.

    Args:
        env: A Parallel environment, wrappers and all. Or an AEC one: what PettingZoo's own `parallel_to_aec` made is
            taken out of it; else all its agents act at once if it says that it is parallelizable, or in turn.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: The source does not say which agents may appear, or a space is of a kind that only its
            author knows.
    """
    if isinstance(env, AECEnv):
        return _from_aec(env, copy)
    return imported(env, NAME, ToPettingZoo, lambda source: FromPettingZoo(source, copy))


def _from_aec(env: AECEnv[Any, Any, Any], copy: Copy) -> Env | MultiEnv:
    """Imports an AEC environment, with all agents acting at once where that is exact.

    That is so where PettingZoo's own `parallel_to_aec` made it, which is undone, and where its metadata say that it is
    parallelizable, so that a step can be a whole cycle of turns.
    """
    inner = env.env if isinstance(env, OrderEnforcingWrapper) else env
    if isinstance(inner, parallel_to_aec_wrapper):
        return from_pettingzoo(inner.env, copy=copy)
    aec = framework("pettingzoo_aec").load()  # not imported above, for it imports this package
    return aec.from_pettingzoo_aec(env, copy=copy, simultaneous=bool(env.metadata.get("is_parallelizable")))
