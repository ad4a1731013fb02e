"""How long episodes are: the limit of a core environment, and the same limit in an `EnvSpec`."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

import envoi
from envoi import ActionRepeat, Contextual, FixedLength, Lanes
from envoi.wrapping.delegate import Around
from envoi.wrapping.lifted_single import LiftedEnv

from ..shared.origin import core_layers, origin_of
from .entry_point_names import LIMIT_BASE
from .source_spec import copied_spec, source_spec


def limit_of(core: Any) -> tuple[int | None, bool]:
    """Returns the maximal number of steps in an episode of a core environment.

    Returns:
        The limit, or None; and True if a `TimeLimit` of that many steps around the environment would change nothing.
    """
    if isinstance(core, Lanes) and source_spec(core) is None:
        return limit_of(core.envs[0])
    if not isinstance(core, Around):
        spec = source_spec(core)
        return (None if spec is None else spec.max_episode_steps), True
    limit, exact = limit_of(core.env)
    if isinstance(core, FixedLength):
        return core.fix_length, False  # at its end, an episode that has terminated before is not truncated
    own = _own_limit(core)
    if own is not None and (limit is None or own <= limit):
        return own, True
    return limit, exact or isinstance(core, ActionRepeat)


def set_limit(spec: EnvSpec, core: Any) -> None:
    """Sets the `max_episode_steps` of a spec to the limit of a core wrapper, so that `make` ends the same episodes.

    Args:
        spec: The spec of the environment inside, with an entry for the wrapper; it is changed.
        core: The core wrapper.
    """
    limit, exact = limit_of(core)
    if limit == spec.max_episode_steps:
        return
    if exact and _is_unnoticed(core.env):
        spec.max_episode_steps = limit
    else:
        _limit_the_base(spec, limit, core)


def _own_limit(wrapper: Any) -> int | None:
    if isinstance(wrapper, envoi.TimeLimit):
        return int(wrapper.max_episode_steps)
    limit = wrapper.max_episode_length if isinstance(wrapper, Contextual) else None
    return None if limit is None else int(limit)


def _is_unnoticed(core: Any) -> bool:
    """Returns True if a lower limit on the bare environment truncates at the same steps as that limit around `core`."""
    for layer in core_layers(core):
        if origin_of(layer) is not None or not isinstance(layer, Around):
            spec = source_spec(layer)
            return spec is None or not spec.additional_wrappers
        if not isinstance(layer, LiftedEnv) or type(layer).step is not LiftedEnv.step:
            return False
        if layer.truncates and _own_limit(layer) is None:
            return False
    return False


def _limit_the_base(spec: EnvSpec, limit: int | None, core: Any) -> None:
    """Sets a spec's `max_episode_steps`, with an entry by which the bare environment keeps its own limit."""
    entries = list(spec.additional_wrappers)
    known = next((one.kwargs for one in entries if one.entry_point == LIMIT_BASE), None)
    if known is not None:
        known["instead_of"] = limit
    else:
        kwargs = {"max_episode_steps": spec.max_episode_steps, "instead_of": limit}
        entries.insert(_within(core_layers(core)[-1]), WrapperSpec("BaseLimit", LIMIT_BASE, kwargs))
    spec.max_episode_steps, spec.additional_wrappers = limit, tuple(entries)


def _within(base: Any) -> int:
    """Returns the number of wrapper entries of a source inside the wrappers that `gymnasium.make` adds."""
    layer, found = getattr(base, "source", None), 0
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, (TimeLimit, OrderEnforcing, PassiveEnvChecker)):
            spec = copied_spec(layer.env)
            found = 0 if spec is None else len(spec.additional_wrappers)
        layer = layer.env
    return found
