"""Chooses the modules and networks that an algorithm needs, and checks that a user's module fits an env."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.bc.torch.default_bc_torch_rl_module import DefaultBCTorchRLModule
from ray.rllib.algorithms.cql.torch.default_cql_torch_rl_module import DefaultCQLTorchRLModule
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.iql.torch.default_iql_torch_rl_module import DefaultIQLTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.algorithms.tqc.torch.default_tqc_torch_rl_module import DefaultTQCTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from torch.utils import _pytree as pytree

import envoi
from envoi.adapters.rllib.masks import is_masked, unmasked
from envoi.protocol.multi_env import MASK

from .catalogs import (
    StructuredBCCatalog,
    StructuredDQNCatalog,
    StructuredPPOCatalog,
    StructuredSACCatalog,
    StructuredTQCCatalog,
    is_flat,
    leaf_name,
    parts,
)
from .masked import MaskedAPPOModule, MaskedBCModule, MaskedDQNModule, MaskedPPOModule, MaskedSACModule


@dataclass(frozen=True)
class Networks:
    """The catalog and the module that envoi has for an algorithm."""

    catalog: Any
    masked: Any = None


_NETWORKS: Mapping[Any, Networks] = {
    DefaultPPOTorchRLModule: Networks(StructuredPPOCatalog, MaskedPPOModule),
    DefaultAPPOTorchRLModule: Networks(StructuredPPOCatalog, MaskedAPPOModule),
    DefaultDQNTorchRLModule: Networks(StructuredDQNCatalog, MaskedDQNModule),
    DefaultBCTorchRLModule: Networks(StructuredBCCatalog, MaskedBCModule),
    DefaultSACTorchRLModule: Networks(StructuredSACCatalog, MaskedSACModule),
    DefaultCQLTorchRLModule: Networks(StructuredSACCatalog),
    DefaultIQLTorchRLModule: Networks(StructuredSACCatalog),
    DefaultTQCTorchRLModule: Networks(StructuredTQCCatalog),
}
"""By the default module of an algorithm, or the first base class of it that is listed."""


def networks_of(config: Any) -> Networks | None:
    """Returns envoi's networks for a config's algorithm, or None if there are none, as for DreamerV3."""
    default = config.get_default_rl_module_spec()
    kinds = getattr(default.module_class, "__mro__", ()) if isinstance(default, RLModuleSpec) else ()
    return next((_NETWORKS[kind] for kind in kinds if kind in _NETWORKS), None)


def module_spec(config: Any, observation_space: Any, action_space: Any) -> RLModuleSpec | None:
    """Returns the module spec for an algorithm and spaces, or None if RLlib's default module fits them."""
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


ALGORITHMS_WITH_MASKS = ("PPO", "APPO", "IMPALA", "DQN", "SAC", "MARWIL", "BC")
"""The algorithms that have a module with action masks."""


def _check_mask(observation_space: Any, action_space: Any) -> None:
    if not isinstance(action_space, (spaces.Discrete, spaces.MultiDiscrete)):
        raise envoi.EnvoiError(f"action_mask: masks are for Discrete and MultiDiscrete actions, got {action_space}")
    expected = int(action_space.n if isinstance(action_space, spaces.Discrete) else action_space.nvec.sum())
    size = observation_space[MASK].shape
    if size != (expected,):
        raise envoi.EnvoiError(f"action_mask: expected shape ({expected},), one element for each action, got {size}")


def is_own_module(config: Any, spec: RLModuleSpec) -> bool:
    """Returns True if a module spec has a class that the user has set."""
    default = getattr(config.get_default_rl_module_spec(), "module_class", None)
    return spec.module_class not in (None, default) and spec.module_class not in _MASKED


def has_own_module(config: Any) -> bool:
    """Returns True if the user has set a module class, for one policy or for several."""
    return any(is_own_module(config, spec) for spec in _specs(config.rl_module_spec))


def set_modules(config: Any, spaces_of_policies: Iterable[tuple[Any, Any]]) -> None:
    """Sets the modules that a config's spaces need; keeps those that the user has set.

    The user's `model_config` stays as it is.
    """
    default, given = config.get_default_rl_module_spec(), config.rl_module_spec
    if not isinstance(default, RLModuleSpec):
        return
    needed = [module_spec(config, *each) for each in spaces_of_policies]
    shared = max(needed, key=lambda spec: 0 if spec is None else 2 if spec.module_class in _MASKED else 1)
    changed = False
    for spec in _specs(given):
        if is_own_module(config, spec):
            continue
        own = spec.observation_space
        found = shared if own is None else module_spec(config, own, spec.action_space)
        if spec.model_config == default.model_config:
            spec.model_config = None  # RLlib merges that of the config when it makes the module
        is_chosen = spec.module_class in _MASKED or spec.catalog_class in _CATALOGS  # by an earlier call
        if found is None and not is_chosen:
            continue
        changed = True
        found = found or default
        spec.module_class = found.module_class
        if is_chosen or spec.catalog_class in (None, default.catalog_class):
            spec.catalog_class = found.catalog_class
    if changed:
        config.rl_module(rl_module_spec=given)


_MASKED = frozenset(networks.masked for networks in _NETWORKS.values() if networks.masked is not None)
_CATALOGS = frozenset(networks.catalog for networks in _NETWORKS.values())
"""envoi's own modules and catalogs."""


def _specs(spec: Any) -> Iterable[RLModuleSpec]:
    return [spec] if isinstance(spec, RLModuleSpec) else list(spec.rl_module_specs.values())


# Modules of the user's own.

_LANES = 2


class _MissingColumn(LookupError):
    """Raised if a module reads a column that a user's connector may add to the batch, such as past actions."""


class _Batch(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        raise _MissingColumn(key)


def check_module(
    module_class: Any,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    model_config: Any = None,
    catalog_class: Any = None,
    config: Any = None,
) -> None:
    """Builds a module for the spaces of an environment, and lets it choose actions for two sampled observations."""
    if not isinstance(module_class, type) or not issubclass(module_class, RLModule):
        raise envoi.EnvoiError(f"module: expected a subclass of ray.rllib's RLModule, got {module_class!r}")
    name = f"{module_class.__module__}:{module_class.__qualname__}"
    if config is not None:
        _check_apis(name, module_class, config)
    given = vars(model_config) if hasattr(model_config, "__dataclass_fields__") else model_config or {}
    spec = RLModuleSpec(
        module_class=module_class,
        observation_space=observation_space,
        action_space=action_space,
        model_config={**(config.model_config if config is not None else {}), **given},
        catalog_class=catalog_class,
    )
    seen = [
        f"{leaf_name(part.path)} of shape {part.space.shape}, {part.space.dtype}" for part in parts(observation_space)
    ]
    shown = " and ".join(seen) + (", beside action_mask" if is_masked(observation_space) else "")
    fault = f"could not be built for {shown} and action {action_space}"
    with torch.random.fork_rng(devices=()), torch.no_grad():  # leaves torch's random numbers as they are
        try:
            module: Any = spec.build()
            fault = f"does not take {shown}"
            outputs = module.forward_inference(_batch(module, observation_space))
        except _MissingColumn:
            return
        except Exception as error:
            line = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise envoi.EnvoiError(f"module {name}: {fault}: {line}") from error
        _check_outputs(name, module, outputs, action_space)


def _check_apis(name: str, module_class: type, config: Any) -> None:
    default = config.get_default_rl_module_spec()
    needed = getattr(default, "module_class", None)
    if not isinstance(needed, type):
        return
    for api in (ValueFunctionAPI, QNetAPI, TargetNetworkAPI):
        if issubclass(needed, api) and not issubclass(module_class, api):
            algorithm = config.algo_class.__name__ if config.algo_class else type(config).__name__
            raise envoi.EnvoiError(
                f"module {name}: {algorithm} needs a module that implements {api.__name__} "
                f"(ray.rllib.core.rl_module.apis), as its default {needed.__name__} does"
            )


def _check_outputs(name: str, module: Any, outputs: Any, action_space: Any) -> None:
    if Columns.ACTIONS in outputs:
        return
    if Columns.ACTION_DIST_INPUTS not in outputs:
        raise envoi.EnvoiError(
            f"module {name}: forward_inference returns {sorted(map(str, outputs))}; expected "
            f"{Columns.ACTIONS!r} or {Columns.ACTION_DIST_INPUTS!r}"
        )
    try:
        distribution = module.get_inference_action_dist_cls()
        expected = int(distribution.required_input_dim(space=action_space, model_config=module.model_config))
    except Exception:  # a distribution of the user's own may not tell
        return
    got = outputs[Columns.ACTION_DIST_INPUTS].shape[-1]
    if got != expected:
        raise envoi.EnvoiError(
            f"module {name}: {Columns.ACTION_DIST_INPUTS!r} has {got} elements for the action {action_space}; "
            f"{distribution.__name__} takes {expected}"
        )


def _batch(module: Any, space: spaces.Space[Any]) -> _Batch:
    """Samples observations in which all actions are legal; adds the initial state of a module with a memory."""
    batched = batch_space(space, _LANES)
    batched.seed(0)
    sampled = batched.sample()
    if is_masked(space):
        sampled[MASK][:] = 1
    observations = pytree.tree_map(torch.as_tensor, sampled)
    batch = _Batch({Columns.OBS: pytree.tree_map(lambda x: x.float() if x.is_floating_point() else x, observations)})
    if module.is_stateful():
        states = pytree.tree_map(torch.as_tensor, module.get_initial_state())
        batch[Columns.STATE_IN] = pytree.tree_map(lambda leaf: torch.stack([leaf] * _LANES), states)
        batch[Columns.OBS] = pytree.tree_map(lambda leaf: leaf[:, None], batch[Columns.OBS])  # one step in time
    return batch
