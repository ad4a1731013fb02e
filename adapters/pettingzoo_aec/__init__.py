"""PettingZoo's AEC API, both ways.

| core | PettingZoo |
|---|---|
| specs, values, infos, discounts, masks, `state`, one agent | as in `envoi.adapters.pettingzoo` |
| the agents that act next, in their order | `agent_selection`, one by one; the core steps when the last has acted |
| a step's rewards | `rewards`; `last()` gives what an agent has collected since it acted |
| a step's flags | `terminations`, `truncations`; an agent that has ended stays until its turn with None |
| observations, waiting agents' too | `observe(agent)` |
| the action mask | `info["action_mask"]`; of zeros for an agent that does not act, where there are masks |

On the way here a step is one action of `agent_selection`, whose turn it is. The turns of the dead are run through: an
agent ends, with what `last()` says then, in the step after which the source gives it its turn with None, which most
sources do at once. Rewards are summed as `last()` sums them. With `simultaneous` a step is a whole cycle, in which
every agent in play acts once; a source that says that it is parallelizable promises that only the end of it is seen.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| rewards that are dicts, lists or tuples | type | refused |

Refused on the way here: environments without `possible_agents`; agents that return after their end, or leave without a
flag; with `simultaneous`, agents that end or lose their turn in the middle of a cycle.

Decided at construction: as in `envoi.adapters.pettingzoo`. Left for a step: to keep an action, or the core's own step;
the source's own step, and a look at flags, rewards and infos.
"""

from __future__ import annotations

from typing import Any

from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for
from ..gymnasium.specs import from_space, to_space
from ..pettingzoo import from_pettingzoo
from ..pettingzoo.form_base import losses_of_agents
from ..registry import from_env
from ..shared.agent_count import several_agents
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import NAME, ToPettingZooAEC, refused_rewards
from .source import FromPettingZooAEC

__all__ = [
    "FORM",
    "IMPORTER",
    "FromPettingZooAEC",
    "ToPettingZooAEC",
    "from_pettingzoo_aec",
    "from_space",
    "losses",
    "recognises",
    "to_pettingzoo_aec",
    "to_space",
]

FORM, IMPORTER = ToPettingZooAEC, FromPettingZooAEC
"""The form and the importer of an environment of several agents."""


def recognises(env: object) -> bool:
    """Returns whether `env` is an environment of this API."""
    return isinstance(env, AECEnv)


def to_pettingzoo_aec(env: Any, *, validate: bool = False) -> AECEnv[Any, Any, Any]:
    """Any environment as a PettingZoo AEC one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises. A Parallel
            environment comes as `from_pettingzoo_aec` says.
        validate: Check every value against its spec, with an error that names agent, leaf, step and episode.

    Returns:
        An `AECEnv` with `.core`; the very same object for what came from this API.

    Raises:
        LossyConversion: PettingZoo cannot express a part of it.
    """
    return exported(env, NAME, FromPettingZooAEC, lambda core: ToPettingZooAEC(core, validate), not validate, _to_core)


def _to_core(env: Any) -> Env | MultiEnv:
    return from_pettingzoo_aec(env) if isinstance(env, ParallelEnv) else from_env(env)


def from_pettingzoo_aec(env: Any, *, copy: Copy = "auto", simultaneous: bool = False) -> Env | MultiEnv:
    """A PettingZoo environment as a core one, seen through the AEC API.

    Args:
        env: An AEC environment, wrappers and all. Or a Parallel one, which is imported as such; what PettingZoo's own
            `aec_to_parallel` and `turn_based_aec_to_parallel` made is taken out of it.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.
        simultaneous: Whether a step of the core is a whole cycle, in which every agent in play acts once. This is
            exact for a source whose metadata say `is_parallelizable`.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: The source does not say which agents may appear, or a space is of a kind that only its
            author knows.
    """
    if isinstance(env, (aec_to_parallel_wrapper, turn_based_aec_to_parallel_wrapper)):
        return from_pettingzoo_aec(env.aec_env, copy=copy, simultaneous=simultaneous)
    if not isinstance(env, AECEnv):
        return from_pettingzoo(env, copy=copy)
    return imported(env, NAME, ToPettingZooAEC, lambda source: FromPettingZooAEC(source, copy, simultaneous))


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Returns what of a core environment would not survive the way to the AEC API and back."""
    return losses_for(env, _losses, several_agents)


def _losses(multi: MultiEnv) -> list[Loss]:
    return losses_of_agents(multi) + [Loss.of(error) for error in refused_rewards(multi)]
