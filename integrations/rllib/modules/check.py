"""Checks that a module of the user's own fits the spaces of an environment, before a job starts."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from torch.utils import _pytree as pytree

import envoi
from envoi.adapters.rllib.masks import is_masked

from .catalogs import leaf_name, parts

_LANES = 2


class _MissingColumn(LookupError):
    """A column of the batch that a connector of the user's may add, such as past actions."""


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
    """Returns sampled observations, with all actions legal, and the first state of a module with a memory."""
    batched = batch_space(space, _LANES)
    batched.seed(0)
    sampled = batched.sample()
    if is_masked(space):
        sampled["action_mask"][:] = 1
    observations = pytree.tree_map(torch.as_tensor, _plain(sampled))
    batch = _Batch({Columns.OBS: pytree.tree_map(lambda x: x.float() if x.is_floating_point() else x, observations)})
    if module.is_stateful():
        states = pytree.tree_map(torch.as_tensor, module.get_initial_state())
        batch[Columns.STATE_IN] = pytree.tree_map(lambda leaf: torch.stack([leaf] * _LANES), states)
        batch[Columns.OBS] = pytree.tree_map(lambda leaf: leaf[:, None], batch[Columns.OBS])  # one step in time
    return batch


def _plain(value: Any) -> Any:
    """Returns a nested value whose dicts are plain ones."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return tuple(_plain(inner) for inner in value) if isinstance(value, tuple) else value
