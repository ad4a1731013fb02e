"""Chooses actions with RLlib's default connectors run on the arrays of all lanes, instead of on one episode per lane.

Most of the default connectors only collect single items from episodes, or divide arrays into items. Arrays of all lanes
need neither. The others run on them as they are: they convert to tensors and back, choose actions, and scale them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from ray.rllib.connectors import env_to_module, module_to_env
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.torch import TorchRLModule
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
        self._module, self._explore, self._metrics = module, explore, metrics
        self._to_module = _TimedPieces(to_module, TO_MODULE, ENV_TO_MODULE_CONNECTOR)
        self._to_env = _TimedPieces(to_env, TO_ENV, MODULE_TO_ENV_CONNECTOR)
        self._steps, self._inference = 0, 0.0
        self._arguments = dict[str, Any](
            rl_module=module, episodes=episodes, explore=explore, shared_data={}, metrics=metrics
        )
        # RLlib's own `forward_…` switch the modes of all parts of the module at each step.
        self._switches = isinstance(module, TorchRLModule) and all(
            getattr(type(module), name) is getattr(TorchRLModule, name)
            for name in ("forward_exploration", "forward_inference")
        )
        self._was_training = False

    def __enter__(self) -> Self:
        if self._switches:
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

    def _forward(self, batch: dict[str, Any], t: int) -> dict[str, Any]:
        module = self._module
        if self._explore:
            return (module._forward_exploration if self._switches else module.forward_exploration)(batch, t=t)
        return (module._forward_inference if self._switches else module.forward_inference)(batch)


class _TimedPieces:
    """The connectors of a pipeline that run on arrays, timed as RLlib times them. The others take no time."""

    def __init__(self, pipeline: Any, known: dict[Any, bool], name: str) -> None:
        self._name = name
        self._times = {to_snake_case(type(piece).__name__): 0.0 for piece in pipeline.connectors}
        self._pieces: list[tuple[str, Callable[..., Any]]] = [
            (
                to_snake_case(type(piece).__name__),
                partial(_scale, piece) if isinstance(piece, module_to_env.NormalizeAndClipActions) else piece,
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


def _scale(piece: module_to_env.NormalizeAndClipActions, *, batch: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Runs the connector that scales single actions on all of them, as if they were one."""
    batch[Columns.ACTIONS] = [batch[Columns.ACTIONS]]
    batch = piece(batch=batch, **arguments)
    for column in (Columns.ACTIONS, Columns.ACTIONS_FOR_ENV):
        if column in batch:
            batch[column] = batch[column][0]
    return batch
