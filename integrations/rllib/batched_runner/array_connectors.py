"""Chooses actions with RLlib's default connectors run on the arrays of all lanes, instead of on one episode per lane.

Most of the default connectors only collect single items from episodes, or divide arrays into items. Arrays of all lanes
need neither. The others run on them as they are: they convert to tensors and back, choose actions, and scale them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.connectors import env_to_module, module_to_env
from ray.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from ray.rllib.connectors.common.tensor_to_numpy import TensorToNumpy
from ray.rllib.connectors.module_to_env.get_actions import GetActions
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import (
    CONNECTOR_PIPELINE_TIMER,
    CONNECTOR_TIMERS,
    ENV_TO_MODULE_CONNECTOR,
    MODULE_TO_ENV_CONNECTOR,
    RLMODULE_INFERENCE_TIMER,
    TIMERS,
)
from ray.rllib.utils.metrics.utils import to_snake_case

TO_MODULE = {
    env_to_module.AddObservationsFromEpisodesToBatch: False,
    env_to_module.AddTimeDimToBatchAndZeroPad: False,
    env_to_module.AddStatesFromEpisodesToBatch: False,
    env_to_module.BatchIndividualItems: False,
    env_to_module.NumpyToTensor: True,
}
"""The connectors before a module without memory that arrays pass; True for those that run on them."""

TO_ENV = {
    module_to_env.GetActions: True,
    module_to_env.TensorToNumpy: True,
    module_to_env.UnBatchToIndividualItems: False,
    module_to_env.RemoveSingleTsTimeRankFromBatch: False,
    module_to_env.NormalizeAndClipActions: True,
    module_to_env.ListifyDataForVectorEnv: False,
}
"""The connectors after a module without memory that arrays pass; True for those that run on them."""


class ActionChooser:
    """Chooses the actions of all lanes by an RLModule, between the connectors before and after it.

    Use it as a context, at whose end it logs times.
    """

    def __init__(
        self, module: Any, to_module: Any, to_env: Any, metrics: Any, explore: bool, episodes: list[SingleAgentEpisode]
    ) -> None:
        self._module, self._metrics = module, metrics
        self._to_module = _TimedPieces(to_module, TO_MODULE, ENV_TO_MODULE_CONNECTOR, module)
        self._to_env = _TimedPieces(to_env, TO_ENV, MODULE_TO_ENV_CONNECTOR, module)
        self._steps, self._inference = 0, 0.0
        self._arguments = dict[str, Any](
            rl_module=module, episodes=episodes, explore=explore, shared_data={}, metrics=metrics
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._steps:
            self._to_module.log(self._metrics, self._steps)
            self._to_env.log(self._metrics, self._steps)
            self._metrics.log_value(RLMODULE_INFERENCE_TIMER, self._inference / self._steps)

    def __call__(self, observations: Any, t: int) -> dict[str, Any]:
        """Returns the columns of all lanes that RLlib's connectors make: actions, actions for the env, and others."""
        batch = self._to_module({Columns.OBS: observations}, self._arguments)
        begin = time.perf_counter()
        explores, module = self._arguments["explore"], self._module
        batch = module.forward_exploration(batch, t=t) if explores else module.forward_inference(batch)
        self._inference += time.perf_counter() - begin
        self._steps += 1
        return self._to_env(batch, self._arguments)


class _TimedPieces:
    """The connectors of a pipeline that run on arrays, timed as RLlib times them. The others take no time."""

    def __init__(self, pipeline: Any, known: dict[Any, bool], name: str, module: Any) -> None:
        self._name = name
        self._times = {to_snake_case(type(piece).__name__): 0.0 for piece in pipeline.connectors}
        self._pieces: list[tuple[str, Callable[..., Any]]] = [
            (
                to_snake_case(type(piece).__name__),
                _scaling(piece) if isinstance(piece, module_to_env.NormalizeAndClipActions) else quick(piece, module),
            )
            for piece in pipeline.connectors
            if known[type(piece)]
        ]

    def __call__(self, batch: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        last = time.perf_counter()
        for name, piece in self._pieces:
            batch = piece(batch=batch, **arguments)
            now = time.perf_counter()
            self._times[name] += now - last
            last = now
        return batch

    def log(self, metrics: Any, steps: int) -> None:
        """Logs the mean times of a step."""
        metrics.log_value((self._name, CONNECTOR_PIPELINE_TIMER), sum(self._times.values()) / steps)
        for name, seconds in self._times.items():
            metrics.log_value((self._name, TIMERS, CONNECTOR_TIMERS, name), seconds / steps)


def _scaling(piece: module_to_env.NormalizeAndClipActions) -> Callable[..., Any]:
    """Returns a function that runs the connector that scales actions on those of all lanes."""
    space: Any = piece.input_action_space
    is_scaled = any(isinstance(part, spaces.Box) for part in parts_of(space))
    return partial(_scale if is_scaled else _copy, piece)


def _scale(piece: module_to_env.NormalizeAndClipActions, *, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Runs the connector, which scales single actions, on all of them as if they were one."""
    batch[Columns.ACTIONS] = [batch[Columns.ACTIONS]]
    batch = piece(batch=batch, **arguments)
    for column in (Columns.ACTIONS, Columns.ACTIONS_FOR_ENV):
        if column in batch:
            batch[column] = batch[column][0]
    return batch


def _copy(piece: module_to_env.NormalizeAndClipActions, *, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Gives the environment actions of its own, as the connector does with those that it leaves as they are."""
    if piece.normalize_actions or piece.clip_actions:
        batch[Columns.ACTIONS_FOR_ENV] = deepcopy(batch[Columns.ACTIONS])
    return batch


def quick(connector: Any, module: Any) -> Callable[..., Any]:
    """Returns a function that does what a connector does for one module, or the connector itself."""
    shortcut = _SHORTCUTS.get(type(connector))
    return connector if shortcut is None or not _is_on_cpu(module) else partial(shortcut, connector)


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


def parts_of(space: spaces.Space[Any]) -> Iterator[spaces.Space[Any]]:
    """Yields the spaces inside of nested `Dict` and `Tuple` spaces, or the space itself."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from parts_of(part)
    else:
        yield space
