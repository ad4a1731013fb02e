"""Converts core environments to the form of a framework, and back without the shortcut for envoi's own forms."""

from __future__ import annotations

from typing import Any

from envoi import AgentLanes, Env, MultiEnv
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, convert
from envoi.adapters.shared.agent_count import several_agents

LANES = 2
"""Lanes of the batch that a single-agent environment becomes where a framework has batches only."""


def make_form(framework: str, core: Env | MultiEnv, exact: bool = False) -> Any:
    """Makes the form of a core environment.

    Args:
        framework: Name of the framework.
        core: The environment, which the form takes over.
        exact: Convert no spaces for the framework's convenience.
    """
    if FRAMEWORKS[framework].only_lanes and isinstance(core, Env) and core.batch_size is None:
        return convert(core, framework, n=LANES)
    if framework == "rllib":
        creator = convert(lambda: core, framework, **({"canonical": False} if exact else {}))
        # In evaluation the same seed gives the same episode.
        return creator({"in_evaluation": True})
    return convert(core, framework)


def bring_back(framework: str, form: Any, simultaneous: bool = False) -> Env | MultiEnv:
    """Imports a form as if it were a foreign environment, rather than return its core.

    Args:
        framework: Name of the framework.
        form: The form.
        simultaneous: True if all agents in play act at once, which a turn-based API cannot express.
    """
    if simultaneous and framework == "pettingzoo_aec":
        return _importer(framework, form)(form, simultaneous=True)
    return _importer(framework, form)(form)


def _importer(framework: str, form: Any) -> Any:
    """Returns the class of core environments that represent a framework's environments of the shape of a form."""
    if framework == "rllib":
        if isinstance(form.core, MultiEnv):
            from envoi.adapters.rllib.multi_source import FromRLlibMulti

            return FromRLlibMulti
        framework = "gymnasium" if form.core.batch_size is None else "gymnasium_vector"
    adapter: Any = FRAMEWORKS[framework].load()
    return adapter.FromTFAgentsBatch if getattr(form, "batched", False) else adapter.IMPORTER


def counterpart(returned: Env | MultiEnv, core: Env | MultiEnv) -> Env | MultiEnv:
    """Converts a core environment to the shape in which it was brought back: several agents, or lanes.

    Args:
        returned: The environment that was brought back.
        core: The original environment.
    """
    if isinstance(returned, MultiEnv):
        return several_agents(core)
    if returned.batch_size is None:
        return core
    if isinstance(core, MultiEnv):
        return AgentLanes(core)
    return core if core.batch_size is not None else make_batch(core, LANES)
