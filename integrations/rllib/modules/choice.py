"""Chooses the modules and networks that an algorithm needs for images, nested observations and action masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module import DefaultBCTorchRLModule
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import envoi

from .catalogs import (
    StructuredBCCatalog,
    StructuredDQNCatalog,
    StructuredPPOCatalog,
    StructuredSACCatalog,
    StructuredTQCCatalog,
)
from .masked import MaskedAPPOModule, MaskedBCModule, MaskedDQNModule, MaskedPPOModule
from .observation_parts import is_flat, is_masked, parts, unmasked


@dataclass(frozen=True)
class Networks:
    """What envoi has for an algorithm.

    Args:
        catalog: The catalog with encoders for images and nested observations.
        masked: The module with action masks; None if there is none.
    """

    catalog: Any
    masked: Any = None


_NETWORKS: Mapping[Any, Networks] = {
    DefaultPPOTorchRLModule: Networks(StructuredPPOCatalog, MaskedPPOModule),
    DefaultAPPOTorchRLModule: Networks(StructuredPPOCatalog, MaskedAPPOModule),
    DefaultDQNTorchRLModule: Networks(StructuredDQNCatalog, MaskedDQNModule),
    DefaultBCTorchRLModule: Networks(StructuredBCCatalog, MaskedBCModule),
    DefaultSACTorchRLModule: Networks(StructuredSACCatalog),
    DefaultTQCTorchRLModule: Networks(StructuredTQCCatalog),
}
"""By the default module of an algorithm, or the first base class of it that is listed."""


def networks_of(config: Any) -> Networks | None:
    """Returns what envoi has for the algorithm of a config; None if nothing, as for DreamerV3, whose networks differ.

    Args:
        config: RLlib's `AlgorithmConfig`.
    """
    default = config.get_default_rl_module_spec()
    kinds = getattr(default.module_class, "__mro__", ()) if isinstance(default, RLModuleSpec) else ()
    return next((_NETWORKS[kind] for kind in kinds if kind in _NETWORKS), None)


def module_spec(config: Any, observation_space: Any, action_space: Any) -> RLModuleSpec | None:
    """Returns the spec of the module for an algorithm and spaces; None if RLlib's default module fits them.

    Args:
        config: RLlib's `AlgorithmConfig`, which is not changed.
        observation_space: The observation space of one agent.
        action_space: Its action space.

    Raises:
        envoi.EnvoiError: No network of the algorithm takes such observations; the message names the leaf.
    """
    if is_flat(observation_space):
        return None
    networks = networks_of(config)
    algorithm = config.algo_class.__name__ if config.algo_class else type(config).__name__
    inner = unmasked(observation_space)
    if networks is None:
        if isinstance(inner, spaces.Box) and inner is observation_space:
            return None
        raise envoi.EnvoiError(
            f"{algorithm}: its networks take one array, and the observations are {observation_space}; leave "
            "action_masks=False and canonical=True, or give a module of your own"
        )
    parts(observation_space)  # names a leaf that no network encodes
    default = config.get_default_rl_module_spec()
    if not is_masked(observation_space):
        return RLModuleSpec(module_class=default.module_class, catalog_class=networks.catalog)
    if networks.masked is None:
        raise envoi.EnvoiError(f"{algorithm} has no action masks here; these have: {', '.join(ALGORITHMS_WITH_MASKS)}")
    _check_mask(observation_space, action_space)
    return RLModuleSpec(module_class=networks.masked, catalog_class=networks.catalog)


ALGORITHMS_WITH_MASKS = ("PPO", "APPO", "IMPALA", "DQN", "MARWIL", "BC")
"""The algorithms that have a module with action masks."""


def _check_mask(observation_space: Any, action_space: Any) -> None:
    if isinstance(action_space, spaces.Discrete):
        expected = int(action_space.n)
    elif isinstance(action_space, spaces.MultiDiscrete):
        expected = int(action_space.nvec.sum())
    else:
        raise envoi.EnvoiError(f"action_mask: masks are for Discrete and MultiDiscrete actions, got {action_space}")
    size = observation_space["action_mask"].shape
    if size != (expected,):
        raise envoi.EnvoiError(f"action_mask: expected shape ({expected},), one element for each action, got {size}")


def set_modules(config: Any, observation_space: Any, action_space: Any) -> None:
    """Sets the module that spaces need on a config, unless the user has set one.

    The user's `model_config` stays as it is.

    Args:
        config: RLlib's `AlgorithmConfig`, which is changed.
        observation_space: The observation space of one agent.
        action_space: Its action space.

    Raises:
        envoi.EnvoiError: No network of the algorithm takes such observations, or the user's module does not.
    """
    default, given = config.get_default_rl_module_spec(), config.rl_module_spec
    if not isinstance(given, RLModuleSpec) or not isinstance(default, RLModuleSpec):
        return  # of several modules, which the user set
    if given.module_class is not default.module_class:
        return
    spec = module_spec(config, observation_space, action_space)
    if spec is None:
        return
    if given.catalog_class not in (None, default.catalog_class):
        spec.catalog_class = given.catalog_class
    if given.model_config != default.model_config:
        spec.model_config = given.model_config
    config.rl_module(rl_module_spec=spec)
