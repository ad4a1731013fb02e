"""Exports to PettingZoo's AEC API and imports from it.

| core | PettingZoo |
|---|---|
| specs, values, infos, discounts, masks, `state`, one agent | as in `envoi.adapters.pettingzoo` |
| the agents that act next, in their order | `agent_selection`, one by one; the core steps when the last has acted |
| a step's rewards | `rewards`; `last()` returns the sum of an agent's rewards since it acted |
| a step's flags | `terminations`, `truncations`; an agent that has ended stays until its turn with None |
| observations, also of waiting agents | `observe(agent)` |
| the action mask | `info["action_mask"]`; if there are masks, all zeros for an agent that does not act |

In an import, a step is one action of `agent_selection`, whose turn it is. The import itself makes the last turns of
ended agents, with the action None. An agent ends, with the values of `last()`, in the step after which the source gives
it that turn; most sources do so immediately. Rewards are summed as by `last()`. With `simultaneous`, a step is a cycle
in which each agent in play acts once; a source declared parallelizable promises that only the end of a cycle matters.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| rewards that are dicts, lists or tuples | type | refused |

An import refuses environments without `possible_agents`; agents that return after their end or leave without a flag;
and with `simultaneous`, agents that end or lose their turn in the middle of a cycle.
"""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for
from ..gymnasium.specs import from_space, to_space
from ..pettingzoo import from_pettingzoo
from ..pettingzoo.form import AEC as NAME
from ..pettingzoo.form import ToPettingZooAEC, losses_of_agents, refused_rewards
from ..pettingzoo.source import FromPettingZooAEC
from ..registry import from_env
from ..shared.arrival import Copy
from ..shared.exported import several_agents
from ..shared.loss import Loss

__all__ = ["FORM", "IMPORTER", "FromPettingZooAEC", "ToPettingZooAEC", "from_pettingzoo_aec", "from_space", "losses"]
__all__ += ["recognises", "to_pettingzoo_aec", "to_space"]

FORM, IMPORTER = ToPettingZooAEC, FromPettingZooAEC
"""The form and the importer of an environment of several agents."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this API."""
    return isinstance(env, AECEnv)


def to_pettingzoo_aec(env: Any, *, validate: bool = False) -> AECEnv[Any, Any, Any]:
    """Converts any environment to a PettingZoo AEC environment.

    Args:
        env: A core environment, or any environment that `envoi.adapters.from_env` recognises. A Parallel environment is
            imported by `from_pettingzoo_aec`.
        validate: If True, every value is checked against its spec, with errors that name agent, leaf and step.

    Returns:
        An `AECEnv` with `.core`. Without `validate`, an AEC environment is returned unchanged, and an imported one as
        its source.

    Raises:
        LossyConversion: PettingZoo cannot express a part of the environment.
    """
    return exported(env, NAME, FromPettingZooAEC, lambda core: ToPettingZooAEC(core, validate), not validate, _to_core)


def _to_core(env: Any) -> Env | MultiEnv:
    return from_pettingzoo_aec(env) if isinstance(env, ParallelEnv) else from_env(env)


def from_pettingzoo_aec(env: Any, *, copy: Copy = "auto", simultaneous: bool = False) -> Env | MultiEnv:
    """Imports a PettingZoo environment, through the AEC API if possible.

    Args:
        env: An AEC or Parallel environment, possibly wrapped. If PettingZoo's `aec_to_parallel` or
            `turn_based_aec_to_parallel` made the Parallel one, the AEC environment inside is imported. Otherwise a
            Parallel one is imported through the Parallel API.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.
        simultaneous: If True, a step of the core is a whole cycle, in which each agent in play acts once. This is
            exact for a source with `is_parallelizable` in its metadata.

    Returns:
        A core environment with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: The source has no `possible_agents`, or a `Sequence` space stacks elements that are not arrays.
    """
    if isinstance(env, (aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper)):
        return from_pettingzoo_aec(env.aec_env, copy=copy, simultaneous=simultaneous)
    if not isinstance(env, AECEnv):
        return from_pettingzoo(env, copy=copy)
    return imported(env, NAME, ToPettingZooAEC, lambda source: FromPettingZooAEC(source, copy, simultaneous))


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that the AEC API cannot express."""
    return losses_for(env, _losses, several_agents)


def _losses(multi: MultiEnv) -> list[Loss]:
    return losses_of_agents(multi) + [Loss.of(error) for error in refused_rewards(multi)]
