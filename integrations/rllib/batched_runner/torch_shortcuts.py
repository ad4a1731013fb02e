"""Does what RLlib's default module and connectors do by the same operations of torch, without the packing around them.

For small networks RLlib's nested calls, copies of dicts and distribution objects take several times as long as the
operations. A shortcut applies where it computes the same values, bit by bit, from the same random numbers; elsewhere
RLlib's own code runs. Together they make the CartPole rows of `benchmarks/rllib_sampling.py` half as fast again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from ray.rllib.connectors.common.tensor_to_numpy import TensorToNumpy
from ray.rllib.connectors.module_to_env.get_actions import GetActions
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchMLPHead
from ray.rllib.core.models.torch.primitives import TorchMLP
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch.nn.modules.module import _has_any_global_hook

__all__ = ["forward", "has_own_modes", "inherits", "quick"]

Layer = Callable[[torch.Tensor], torch.Tensor]


def quick(connector: Any, module: Any) -> Callable[..., Any]:
    """Returns a function that does what a connector does for one module, or the connector itself.

    Args:
        connector: A connector of RLlib's.
        module: The module, which the function gets as `rl_module` too.
    """
    shortcut = _SHORTCUTS.get(type(connector))
    return connector if shortcut is None or not _is_on_cpu(module) else partial(shortcut, connector)


def forward(module: Any, explore: bool) -> Callable[[dict[str, Any], int], dict[str, Any]]:
    """Returns a function from a module's input and the number of steps sampled before to its outputs.

    The caller puts the module in evaluation mode before, if `has_own_modes` is False for it.

    Args:
        module: The module.
        explore: True to explore, False for the best actions.
    """
    switches = has_own_modes(module)
    if not switches and (layers := _layers(module)) is not None:
        return partial(_through, layers)
    if explore:
        exploration = module.forward_exploration if switches else module._forward_exploration
        return lambda batch, t: exploration(batch, t=t)
    inference = module.forward_inference if switches else module._forward_inference
    return lambda batch, _: inference(batch)


def has_own_modes(module: Any) -> bool:
    """Returns True if a module does not switch between training and evaluation as RLlib's modules for torch do.

    Those switch the modes of all their parts at each step; one switch per sample is enough.

    Args:
        module: The module.
    """
    return not isinstance(module, TorchRLModule) or not inherits(
        module, TorchRLModule, "forward_exploration", "forward_inference"
    )


def _through(layers: list[Layer], batch: dict[str, Any], _: int) -> dict[str, Any]:
    with torch.no_grad():
        values = batch[Columns.OBS]
        for layer in layers:
            values = layer(values)
    return {Columns.ACTION_DIST_INPUTS: values}


def _layers(module: Any) -> list[Layer] | None:
    """Returns the layers of PPO's default module from a flat observation to the inputs of the action distribution.

    Returns:
        The layers; None for other modules, or if functions listen to the parts of this one.
    """
    if not (
        isinstance(module, DefaultPPOTorchRLModule)
        and inherits(module, TorchRLModule, "_forward_exploration", "_forward_inference")
        and inherits(module, DefaultPPOTorchRLModule, "_forward")
        and type(module.encoder) is TorchActorCriticEncoder
    ):
        return None
    encoder: Any = module.encoder.encoder if module.encoder.config.shared else module.encoder.actor_encoder
    if type(encoder) is not TorchMLPEncoder or type(encoder.net) is not TorchMLP:
        return None
    if _has_any_global_hook() or any(_is_listened_to(part) for part in module.modules()):
        return None
    head: Any = module.pi
    is_plain = type(head) is TorchMLPHead and not head.clip_log_std and type(head.net) is TorchMLP
    parts: list[Any] = [*encoder.net.mlp, *(head.net.mlp if is_plain else [head])]
    return [part.forward for part in parts]


def inherits(module: Any, owner: type, *names: str) -> bool:
    """Returns True if methods of a module are those of a class, replaced neither by its own class nor in itself.

    Args:
        module: The module.
        owner: The class.
        *names: The names of the methods.
    """
    return all(name not in vars(module) and getattr(type(module), name) is getattr(owner, name) for name in names)


def _is_listened_to(part: torch.nn.Module) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks) or "forward" in vars(part)


def _is_on_cpu(module: Any) -> bool:
    first = next(module.parameters(), None) if isinstance(module, torch.nn.Module) else None
    return first is not None and first.device.type == "cpu"


def _tensors(connector: NumpyToTensor, *, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    observations = batch.get(Columns.OBS)
    if (
        len(batch) == 1
        and type(observations) is np.ndarray
        and observations.dtype == np.float32
        and observations.flags.writeable
    ):
        return {Columns.OBS: torch.from_numpy(observations)}
    return connector(batch=batch, **arguments)


def _actions(
    connector: GetActions, *, batch: dict[str, Any], rl_module: Any, explore: bool, **arguments: Any
) -> dict[str, Any]:
    """Samples discrete actions as `torch.distributions.Categorical` does; other actions as RLlib does."""
    logits = batch.get(Columns.ACTION_DIST_INPUTS)
    if (
        not explore
        or Columns.ACTIONS in batch
        or type(logits) is not torch.Tensor
        or logits.ndim != 2
        or rl_module.get_exploration_action_dist_cls() is not TorchCategorical
    ):
        return connector(batch=batch, rl_module=rl_module, explore=explore, **arguments)
    log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
    choices = torch.multinomial(torch.softmax(log_probabilities, -1), 1, True)
    batch[Columns.ACTIONS] = choices[:, 0]
    if Columns.ACTION_LOGP not in batch:
        batch[Columns.ACTION_LOGP] = log_probabilities.gather(-1, choices)[:, 0]
    return batch


def _arrays(connector: TensorToNumpy, *, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    if all(type(value) is torch.Tensor and value.ndim and value.dtype in _NARROWED for value in batch.values()):
        return {name: value.detach().numpy().astype(_NARROWED[value.dtype]) for name, value in batch.items()}
    return connector(batch=batch, **arguments)


_NARROWED = {torch.float32: np.float32, torch.int64: np.int32}
"""The types of the arrays that RLlib makes of the most frequent tensors."""


_SHORTCUTS: dict[type, Callable[..., Any]] = {NumpyToTensor: _tensors, GetActions: _actions, TensorToNumpy: _arrays}
