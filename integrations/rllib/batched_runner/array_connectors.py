"""Chooses actions with RLlib's default connectors run on the arrays of all lanes, instead of on one episode per lane.

Most of the default connectors only collect single items from episodes, or divide arrays into items. Arrays of all lanes
need neither. The others run on them as they are: they convert to tensors and back, choose actions, and scale them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Self

from gymnasium import spaces
from ray.rllib.connectors import env_to_module, module_to_env
from ray.rllib.core.columns import Columns
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

from .space_parts import parts_of
from .torch_shortcuts import forward, has_own_modes, quick

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

    Use it as a context; the module is in evaluation mode inside.

    Args:
        module: The RLModule, without memory.
        to_module: RLlib's pipeline before it, of connectors in `TO_MODULE` alone.
        to_env: RLlib's pipeline after it, of connectors in `TO_ENV` alone.
        metrics: RLlib's logger.
        explore: True to explore, False for the best actions.
        episodes: The episodes of the lanes, of which connectors see only their type.
    """

    def __init__(
        self, module: Any, to_module: Any, to_env: Any, metrics: Any, explore: bool, episodes: list[SingleAgentEpisode]
    ) -> None:
        self._module, self._metrics = module, metrics
        self._to_module = _TimedPieces(to_module, TO_MODULE, ENV_TO_MODULE_CONNECTOR, module)
        self._to_env = _TimedPieces(to_env, TO_ENV, MODULE_TO_ENV_CONNECTOR, module)
        self._forward = forward(module, explore)
        self._steps, self._inference = 0, 0.0
        self._arguments = dict[str, Any](
            rl_module=module, episodes=episodes, explore=explore, shared_data={}, metrics=metrics
        )
        self._was_training = False

    def __enter__(self) -> Self:
        if not has_own_modes(self._module):
            self._was_training = self._module.training
            self._module.eval()
        return self

    def __exit__(self, *_: object) -> None:
        if self._was_training:
            self._module.train()
        if self._steps:
            self._to_module.log(self._metrics, self._steps)
            self._to_env.log(self._metrics, self._steps)
            self._metrics.log_value(RLMODULE_INFERENCE_TIMER, self._inference / self._steps)

    def __call__(self, observations: Any, t: int) -> dict[str, Any]:
        """Returns the columns of all lanes that RLlib's connectors make: actions, actions for the env, and others.

        Args:
            observations: Nested arrays of shape (n, …).
            t: The number of steps that all env runners have made, for schedules of exploration.
        """
        batch = self._to_module({Columns.OBS: observations}, self._arguments)
        begin = time.perf_counter()
        batch = self._forward(batch, t)
        self._inference += time.perf_counter() - begin
        self._steps += 1
        return self._to_env(batch, self._arguments)


class _TimedPieces:
    """The connectors of a pipeline that run on arrays, timed as RLlib times them. The others take no time.

    Args:
        pipeline: RLlib's pipeline.
        known: The connectors that it may have; True for those that run on arrays.
        name: The name of the pipeline in the metrics.
        module: The module before or after which it runs.
    """

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
        """Logs the mean times of a step.

        Args:
            metrics: RLlib's logger.
            steps: The number of steps made.
        """
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
