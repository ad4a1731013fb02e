"""Exports to PettingZoo's Parallel API and imports from it.

| core | PettingZoo |
|---|---|
| specs; values | the spaces and values of `envoi.adapters.gymnasium`, one space per agent |
| `possible_agents`, `agents` | the same, as lists; sorted by the core's order |
| `state`, `state_spec` | `state()`, `state_space` |
| the agents whose turn it is | `"active_agent"`, or `"active_agents"` of several, in the info of each in play |
| an action of each acting agent | an action of each agent in play; a waiting agent's action is optional and ignored |
| observations of the agents that act next or have ended | also of waiting agents |
| a discount that is not the default (0 if terminated, else 1) | `info["discount"]` |
| `infos["__common__"]`, of no specific agent | `info["__common__"]` of each agent |
| the action mask | `info["action_mask"]`; an import copies an observation's `"action_mask"` there |
| a single-agent environment | an environment with the agent `"agent_0"` |

An import accepts dicts in any order, infos in which agents are missing, extra keys of infos (which are put under
`"__common__"`), and an end without a final observation (the last one is repeated, and marked as synthetic). In an AEC
environment that is declared parallelizable, all agents act simultaneously, see `envoi.adapters.pettingzoo_aec`.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |

An import refuses environments without `possible_agents`, and agents that return after their end or leave without a
flag.
"""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from envoi import Env, MultiEnv

from ..conversion import exported, imported
from ..gymnasium.specs import from_space, to_space
from ..registry import from_env
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import AEC, NAME, ToPettingZoo, ToPettingZooAEC, losses
from .names import load, names
from .source import FromPettingZoo, FromPettingZooAEC

__all__ = ["FORM", "IMPORTER", "FromPettingZoo", "Loss", "ToPettingZoo", "from_pettingzoo", "from_space", "load"]
__all__ += ["losses", "names", "recognises", "to_pettingzoo", "to_space"]

FORM, IMPORTER = ToPettingZoo, FromPettingZoo
"""The form and the importer of an environment of several agents."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this API."""
    return isinstance(env, ParallelEnv)


def to_pettingzoo(env: Any, *, validate: bool = False) -> ParallelEnv[Any, Any, Any]:
    """Converts any environment to a PettingZoo Parallel environment.

    Args:
        env: A core environment, or any environment that `envoi.adapters.from_env` recognises. An AEC environment is
            imported by `from_pettingzoo`.
        validate: If True, every value is checked against its spec, with errors that name agent, leaf and step.

    Returns:
        A `ParallelEnv` with `.core`. Without `validate`, a Parallel environment is returned unchanged, and an imported
        one as its source.

    Raises:
        LossyConversion: PettingZoo cannot express a part of the environment.
    """
    return exported(env, NAME, FromPettingZoo, lambda core: ToPettingZoo(core, validate), not validate, _to_core)


def _to_core(env: Any) -> Env | MultiEnv:
    return from_pettingzoo(env) if isinstance(env, AECEnv) else from_env(env)


def from_pettingzoo(env: Any, *, copy: Copy = "auto") -> Env | MultiEnv:
    """Imports a PettingZoo environment, through the Parallel API if possible.

    Args:
        env: A Parallel or AEC environment, possibly wrapped. If PettingZoo's `parallel_to_aec` made the AEC one, the
            Parallel environment inside is imported. Otherwise AEC agents act simultaneously if the metadata declare the
            environment parallelizable, and in turn if not.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.

    Returns:
        A core environment with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: The source has no `possible_agents`, or a `Sequence` space stacks elements that are not arrays.
    """
    if not isinstance(env, AECEnv):
        return imported(env, NAME, ToPettingZoo, lambda source: FromPettingZoo(source, copy))
    inner = env.env if isinstance(env, OrderEnforcingWrapper) else env
    if isinstance(inner, parallel_to_aec_wrapper):
        return from_pettingzoo(inner.env, copy=copy)
    at_once = bool(env.metadata.get("is_parallelizable"))
    return imported(env, AEC, ToPettingZooAEC, lambda source: FromPettingZooAEC(source, copy, at_once))
