"""Chooses the form of an env and the networks that take it: images as images, action masks, nested observations."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import envoi
from envoi.adapters.rllib.creator import FORM
from envoi.adapters.shared.loss import warn_user

from ..algorithms import ACTIONS, check_actions
from ..modules import check_module, has_own_module, networks_of, set_modules
from ..modules.choice import ALGORITHMS_WITH_MASKS, is_own_module
from ..registration import RegisteredEnv
from .described_env import DescribedEnv, describe_env


class UnmaskedWarning(UserWarning):
    """An env has action masks, and the algorithm has no module that respects them."""


def describe_fitting(config: AlgorithmConfig, registered: RegisteredEnv, num_envs: int | None) -> DescribedEnv:
    """Describes an env in the form that the algorithm's networks take.

    Args:
        config: The config, which is not changed.
        registered: The env as registered, with the options of the config.
        num_envs: How many envs a runner is asked to step together; None for no preference.

    Returns:
        The description, with the form.

    Raises:
        envoi.EnvoiError: The algorithm cannot choose from the actions; masks are asked for, and the env's actions or
            the algorithm have none; or see `describe_env`.
    """
    networks, is_own = networks_of(config), has_own_module(config)
    form: dict[str, Any] = {"canonical": "structured"} if networks is not None or is_own else {}
    described = describe_env(registered, config.env_config, num_envs, {**form, "action_masks": False})
    known = _name_in(ACTIONS, config)
    if known is not None and not is_own:
        check_actions(known, described.action_space)
    asked = registered.options.action_masks
    if asked is False or (asked == "auto" and (is_own or not described.masked_agents)):
        return described
    if not is_own and (networks is None or networks.masked is None):
        _say_unmasked(_name(config), registered)
        return described
    return describe_env(registered, config.env_config, num_envs, {**form, "action_masks": True})


def _say_unmasked(algorithm: str, registered: RegisteredEnv) -> None:
    """Warns that an algorithm has no module with action masks, or raises the error if they are asked for."""
    if ACTIONS.get(algorithm) == {"Box"}:
        raise envoi.EnvoiError(
            f"action_masks: {algorithm} chooses only real numbers, none of which a mask forbids; leave "
            "action_masks='auto'"
        )
    able = f"these have one: {', '.join(ALGORITHMS_WITH_MASKS)}"
    if registered.options.action_masks is True:
        raise envoi.EnvoiError(
            f"action_masks: {algorithm} has no module with masks; {able}; or give a module of your own"
        )
    warn_user(
        f"{registered.name}: the env has action masks, and {algorithm} has no module that respects them, so that it "
        f"chooses illegal actions too; {able}",
        UnmaskedWarning,
    )


def set_networks(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets the form of the env, and the module that its observations need unless the user has set one.

    Args:
        config: The config.
        env: The env.

    Raises:
        envoi.EnvoiError: No network of the algorithm takes such observations, or the user's module does not fit them;
            the message names the leaf.
    """
    config.env_config = {**config.env_config, FORM: dict(env.form)}
    set_modules(config, env.spaces_of_agents.values())
    given: Any = config.rl_module_spec
    # Which agents each of several modules plays is not known yet.
    if isinstance(given, RLModuleSpec) and is_own_module(config, given):
        for observations, actions in _distinct(env.spaces_of_agents.values()):
            check_module(
                given.module_class,
                observations if given.observation_space is None else given.observation_space,
                actions if given.action_space is None else given.action_space,
                model_config=given.model_config,
                catalog_class=given.catalog_class,
                config=config,
            )


def _distinct(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns pairs of spaces, each once; spaces have no hash."""
    found: list[tuple[Any, Any]] = []
    for pair in pairs:
        if pair not in found:
            found.append(pair)
    return found


def _name(config: AlgorithmConfig) -> str:
    return config.algo_class.__name__ if config.algo_class else type(config).__name__


def _name_in(names: Container[str], config: AlgorithmConfig) -> str | None:
    """Returns the name of an algorithm, or of the first class that it derives from, that is one of some names."""
    classes: tuple[type, ...] = getattr(config.algo_class, "__mro__", ())
    return next((base.__name__ for base in classes if base.__name__ in names), None)
