"""The base class of environments, as in `tf_agents.environments.py_environment`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

import numpy as np

from .array_spec import ArraySpec, BoundedArraySpec
from .time_step import TimeStep


class PyEnvironment(ABC):
    """An environment of TF-Agents; a subclass defines `_reset`, `_step`, `observation_spec` and `action_spec`.

    A step before the first reset begins an episode. After a last time step, `_step` itself has to begin a new episode,
    unless `handle_auto_reset` is True.

    Args:
        handle_auto_reset: If True, `step` begins a new episode by `reset` after all lanes have ended.
    """

    def __init__(self, handle_auto_reset: bool = False) -> None:
        self._handle_auto_reset = handle_auto_reset
        self._current_time_step: TimeStep | None = None

    @property
    def batched(self) -> bool:
        """True if the environment is a batch, in which each value has a leading axis of n lanes."""
        return False

    @property
    def batch_size(self) -> int | None:
        """The number of lanes; None if the environment is not batched."""
        if self.batched:
            raise RuntimeError(f"Environment {type(self)} marked itself as batched but did not override batch_size")
        return None

    def should_reset(self, current_time_step: TimeStep) -> bool:
        """Returns True if the next step begins a new episode, whatever the action."""
        return self._handle_auto_reset and bool(np.all(current_time_step.is_last()))

    @abstractmethod
    def observation_spec(self) -> Any:
        """Returns the spec of observations: an `ArraySpec`, or a nested structure of them."""

    @abstractmethod
    def action_spec(self) -> Any:
        """Returns the spec of actions: an `ArraySpec`, or a nested structure of them."""

    def reward_spec(self) -> Any:
        """Returns the spec of rewards: an `ArraySpec`, or a nested structure of them."""
        return ArraySpec((), np.float32, "reward")

    def discount_spec(self) -> Any:
        """Returns the spec of discounts: an `ArraySpec`, or a nested structure of them."""
        return BoundedArraySpec((), np.float32, 0.0, 1.0, "discount")

    def time_step_spec(self) -> TimeStep:
        """Returns a `TimeStep` of specs, whose discount is the default one unless a subclass overrides this method."""
        step_type, discount = ArraySpec((), np.int32, "step_type"), PyEnvironment.discount_spec(self)
        return TimeStep(step_type, self.reward_spec(), discount, self.observation_spec())

    def current_time_step(self) -> TimeStep:
        """Returns the result of the last `reset` or `step`."""
        if self._current_time_step is None:
            raise ValueError("Current timestep not initialized.")
        return self._current_time_step

    def reset(self) -> TimeStep:
        """Starts a new episode and returns its first time step."""
        self._current_time_step = self._reset()
        return self._current_time_step

    def step(self, action: Any) -> TimeStep:
        """Acts once and returns the time step; before the first reset, starts an episode instead."""
        if self._current_time_step is None or self.should_reset(self._current_time_step):
            return self.reset()
        self._current_time_step = self._step(action)
        return self._current_time_step

    def close(self) -> None:  # noqa: B027 (optional to override)
        """Releases the resources of the environment."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def render(self, mode: str = "rgb_array") -> Any:
        """Returns an image of shape (height, width, 3), uint8."""
        raise NotImplementedError("No rendering support.")

    def seed(self, seed: Any) -> Any:
        """Seeds the environment."""
        raise NotImplementedError("No seed support for this environment.")

    def get_info(self) -> Any:
        """Returns the info of the last step."""
        raise NotImplementedError("No support of get_info for this environment.")

    def get_state(self) -> Any:
        """Returns an opaque copy of the environment's state, for `set_state`."""
        raise NotImplementedError("This environment has not implemented `get_state()`.")

    def set_state(self, state: Any) -> None:
        """Restores a state that `get_state` returned."""
        raise NotImplementedError("This environment has not implemented `set_state()`.")

    @abstractmethod
    def _step(self, action: Any) -> TimeStep:
        """Returns the time step after an action; see `step`."""

    @abstractmethod
    def _reset(self) -> TimeStep:
        """Returns the first time step of a new episode; see `reset`."""
