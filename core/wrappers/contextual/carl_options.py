"""The options of CARL's `CARLEnv` (Benjamins et al., 2023): their checks, and the names that newer versions have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from ...context import selectors
from ...context.selectors import RoundRobin, Selector
from ...errors import ContextError, SpecError, nearest
from ...spec.base import shown


class Placing(NamedTuple):
    """Where an observation shows its context.

    Attributes:
        in_dict: If True, in a dict beside the observation; else in one array with it.
        by_name: If True, as a dict by feature; else as a vector.
        keys: The keys of the observation and of the context in the dict.
    """

    in_dict: bool
    by_name: bool
    keys: tuple[str, str]


def placing_of(dict_observation_space: bool, obs_context_as_dict: bool | None) -> Placing:
    """Returns where an observation shows its context.

    Args:
        dict_observation_space: CARL's option: a dict with the context as a vector.
        obs_context_as_dict: CARL's newer option; None for the older one.

    Raises:
        ContextError: Both are given.
    """
    if obs_context_as_dict is None:
        return Placing(bool(dict_observation_space), False, ("state", "context"))
    if dict_observation_space:
        raise ContextError("dict_observation_space, obs_context_as_dict: expected one of these layouts, got both")
    return Placing(True, obs_context_as_dict, ("obs", "context"))


def features_of(
    state_context_features: Sequence[str] | str | None, obs_context_features: Sequence[str] | str | None
) -> Sequence[str] | str | None:
    """Returns the features that the agent sees.

    Args:
        state_context_features: CARL's option.
        obs_context_features: Its newer name.

    Raises:
        ContextError: Both are given.
    """
    if obs_context_features is None:
        return state_context_features
    if state_context_features is not None:
        raise ContextError("obs_context_features, state_context_features: expected one of these, got both")
    return obs_context_features


def selector_of(given: Any, arguments: Mapping[str, Any] | None) -> Selector:
    """Returns the selector that is asked for.

    Args:
        given: A selector, its class, a class of CARL with the same name, or None for `RoundRobin`.
        arguments: The arguments of a class.

    Raises:
        ContextError: It is none of these; or arguments are given for a selector that is made already.
    """
    kind = given if isinstance(given, type) else type(given)
    if given is None:
        given = RoundRobin
    elif kind.__module__.startswith("carl.") and isinstance(given, type):
        given = getattr(selectors, kind.__name__, given)
    if isinstance(given, type) and issubclass(given, Selector):
        return given(**(arguments or {}))
    if not isinstance(given, Selector):
        near = ""
        if isinstance(given, str):
            near = f"; {nearest(given, ('RoundRobin', 'Random', 'Static', 'Custom', 'Sampled'))}"
        raise ContextError(
            f"context_selector: expected a selector of envoi.context or its class, got {shown(given)}{near}"
        )
    if arguments:
        raise ContextError(f"context_selector_kwargs: {given!r} is made already; give its class")
    return given


def logger_of(given: Any) -> Any:
    """Returns the function that logs contexts, or None.

    Args:
        given: A function `(episode, total_steps, context)`, an object with such a method `write_context`, or None.

    Raises:
        ContextError: It is none of these.
    """
    log = getattr(given, "write_context", given)
    if log is not None and not callable(log):
        raise ContextError(f"logger: expected a function (episode, total_steps, context), got {shown(given)}")
    return log


def check_flags(**flags: Any) -> None:
    """Checks that options are bools.

    Raises:
        ContextError: One is not.
    """
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ContextError(f"{name}: expected True or False, got {flag!r}")


def check_lanes(n_envs: Any) -> None:
    """Checks a number of lanes.

    Raises:
        SpecError: It is neither an integer nor None.
    """
    if not isinstance(n_envs, (int, np.integer, NoneType)):
        raise SpecError(f"n_envs: expected how many lanes, or None, got {n_envs!r}")


def check_limit(max_episode_length: Any) -> None:
    """Checks a limit of steps.

    Raises:
        SpecError: It is neither an integer of at least 1 nor None.
    """
    is_integer = isinstance(max_episode_length, (int, np.integer)) and not isinstance(max_episode_length, bool)
    if max_episode_length is not None and not (is_integer and max_episode_length >= 1):
        raise SpecError(f"max_episode_length: expected an integer of at least 1, got {max_episode_length!r}")
