"""Converts core environments to the form of a framework, and back without the shortcut for envoi's own forms."""

from __future__ import annotations

import inspect
from typing import Any

from envoi import AgentLanes, BatchEnv, Env, Lanes, MultiEnv
from envoi import batch as make_batch
from envoi.adapters import FRAMEWORKS, convert
from envoi.adapters.shared.agent_count import several_agents

LANES_ONLY = ("gymnasium_vector", "sb3")
"""Frameworks whose environments all have lanes."""

LANES = 2
"""Lanes of the batch that a single-agent environment becomes where a framework has batches only."""


def make_form(framework: str, core: Env | MultiEnv, exact: bool = False) -> Any:
    """Makes the form of a core environment.

    Args:
        framework: Name of the framework.
        core: The environment, which the form takes over.
        exact: Convert no spaces for the framework's convenience.
    """
    if framework in LANES_ONLY and isinstance(core, Env) and core.batch_size is None:
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
    if framework == "rllib":
        kind = _rllib_importer(form)
    else:
        kinds = _importers(framework)
        batched = bool(getattr(form, "batched", False)) or framework in LANES_ONLY
        kind = next(k for k in kinds if issubclass(k, BatchEnv) is batched)
    if simultaneous and "simultaneous" in inspect.signature(kind).parameters:
        return kind(form, simultaneous=True)
    return kind(form)


def _importers(framework: str) -> list[Any]:
    adapter = FRAMEWORKS[framework].load()
    found = [thing for name, thing in vars(adapter).items() if name.startswith("From") and inspect.isclass(thing)]
    kinds = [kind for kind in found if issubclass(kind, (Env, MultiEnv)) and not issubclass(kind, Lanes)]
    return [kind for kind in kinds if not inspect.isabstract(kind)]


def _rllib_importer(form: Any) -> Any:
    from envoi.adapters.gymnasium import FromGymnasium

    if isinstance(form.core, MultiEnv):
        from envoi.adapters.rllib.multi_source import FromRLlibMulti

        return FromRLlibMulti
    if form.core.batch_size is not None:
        return _importers("gymnasium_vector")[0]
    return FromGymnasium


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
