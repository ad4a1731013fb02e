"""Chooses the form of an env and the networks that take it: images as images, action masks, nested observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import envoi
from envoi.adapters.rllib.creator import FORM
from envoi.adapters.shared.loss import warn_user

from ..modules import check_module, has_own_module, networks_of, set_modules
from ..modules.choice import ALGORITHMS_WITH_MASKS
from ..registration import RegisteredEnv
from .described_env import DescribedEnv, describe_env


class UnmaskedWarning(UserWarning):
    """An env has action masks, and the algorithm has no module that respects them."""


def describe_fitting(
    config: AlgorithmConfig, registered: RegisteredEnv, env_config: Mapping[str, Any], num_envs: int | None
) -> DescribedEnv:
    """Describes an env in the form that the algorithm's networks take.

    Args:
        config: The config, which is not changed.
        registered: The env as registered.
        env_config: RLlib's `env_config`.
        num_envs: How many envs a runner is asked to step together; None for no preference.

    Returns:
        The description, with the form.

    Raises:
        envoi.EnvoiError: Masks are asked for, and the env's actions or the algorithm have none; or see `describe_env`.
    """
    networks, is_own = networks_of(config), has_own_module(config)
    form: dict[str, Any] = {"canonical": "structured"} if networks is not None or is_own else {}
    asked = registered.options.action_masks
    has_module = networks is not None and networks.masked is not None and not is_own
    if asked is True:
        if not has_module and not is_own:
            raise envoi.EnvoiError(
                f"action_masks: {_name(config)} has no module with masks; these have: "
                f"{', '.join(ALGORITHMS_WITH_MASKS)}; or give a module of your own"
            )
        return describe_env(registered, env_config, num_envs, {**form, "action_masks": True})
    described = describe_env(registered, env_config, num_envs, {**form, "action_masks": False})
    if asked is False or not described.masked_agents:
        return described
    if has_module:
        return describe_env(registered, env_config, num_envs, {**form, "action_masks": True})
    if not is_own:
        warn_user(
            f"{registered.name}: the env has action masks, and {_name(config)} has no module that respects them, so "
            f"that it chooses illegal actions too; these have one: {', '.join(ALGORITHMS_WITH_MASKS)}",
            UnmaskedWarning,
        )
    return described


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
    own = config.rl_module_spec
    if not env.is_multi_agent and isinstance(own, RLModuleSpec) and has_own_module(config) and not _is_masked(own):
        spaces = own.observation_space or env.observation_space, own.action_space or env.action_space
        check_module(
            own.module_class, *spaces, model_config=own.model_config, catalog_class=own.catalog_class, config=config
        )


def _is_masked(spec: RLModuleSpec) -> bool:
    """Returns True for a module of envoi's, which `set_modules` has chosen for these spaces."""
    return getattr(spec.module_class, "__module__", "").startswith("envoi.")


def _name(config: AlgorithmConfig) -> str:
    return config.algo_class.__name__ if config.algo_class else type(config).__name__
