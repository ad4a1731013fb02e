"""The types of TF-Agents without TensorFlow: environments, time steps and specs with the same methods and meaning.

They are used if `tf_agents` is not installed, and behave as in TF-Agents 0.19. Methods on tensors are left out.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class StepType:
    """The position of a time step in its episode, as an int32 array of shape ()."""

    FIRST: ClassVar[NDArray[np.int32]] = np.asarray(0, np.int32)
    MID: ClassVar[NDArray[np.int32]] = np.asarray(1, np.int32)
    LAST: ClassVar[NDArray[np.int32]] = np.asarray(2, np.int32)

    def __new__(cls, value: Any) -> Any:
        """Returns one of the three constants from its number."""
        for known in (cls.FIRST, cls.MID, cls.LAST):
            if value == known:
                return known
        raise ValueError(f"No known conversion for `{value!r}` into a StepType")


class TimeStep(NamedTuple):
    """The result of `reset` and `step`; each value of a batch has a leading axis of n lanes.

    Attributes:
        step_type: See `StepType`; int32 of shape (), or (n,) for a batch.
        reward: A value of `reward_spec`; 0 in a first step.
        discount: A value of `discount_spec`; 1 in a first step.
        observation: A value of `observation_spec`.
    """

    step_type: Any
    reward: Any
    discount: Any
    observation: Any

    def is_first(self) -> Any:
        """Returns True if the time step is the first of its episode; of shape (n,) for a batch."""
        return np.equal(self.step_type, StepType.FIRST)

    def is_mid(self) -> Any:
        """Returns True if the time step is neither the first nor the last one; of shape (n,) for a batch."""
        return np.equal(self.step_type, StepType.MID)

    def is_last(self) -> Any:
        """Returns True if the time step is the last of its episode; of shape (n,) for a batch."""
        return np.equal(self.step_type, StepType.LAST)


class ArraySpec:
    """The spec of arrays of one shape and dtype.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy dtype.
        name: The name of the value, or None.
    """

    __slots__ = ("_dtype", "_name", "_shape")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, shape: Any, dtype: DTypeLike, name: str | None = None) -> None:
        self._shape: tuple[int, ...] = tuple(shape)
        self._dtype = np.dtype(dtype)
        self._name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name of the value, or None."""
        return self._name

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArraySpec) and self.shape == other.shape and self.dtype == other.dtype

    def check_array(self, array: Any) -> bool:
        """Returns True if a numpy array or a number fits this spec."""
        if isinstance(array, np.ndarray):
            return self.shape == array.shape and self.dtype == array.dtype
        if isinstance(array, numbers.Number):
            return self.shape == () and self.dtype == np.dtype(type(array))
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return ArraySpec, (self.shape, self.dtype, self.name)

    @staticmethod
    def from_array(array: Any, name: str | None = None) -> ArraySpec:
        """Returns the spec of an array or number.

        Args:
            array: A numpy array or a number.
            name: The name of the spec.

        Raises:
            ValueError: It is neither an array nor a number.
        """
        if isinstance(array, np.ndarray):
            return ArraySpec(array.shape, array.dtype, name)
        if isinstance(array, numbers.Number):
            return ArraySpec((), type(array), name)
        raise ValueError(f"Array must be a np.ndarray or number. Got {array!r}.")

    @staticmethod
    def from_spec(spec: Any) -> ArraySpec:
        """Returns the spec of the same shape, dtype and name as another, without its bounds."""
        return ArraySpec(spec.shape, spec.dtype, spec.name)

    def replace(self, shape: Any = None, dtype: DTypeLike | None = None, name: str | None = None) -> ArraySpec:
        """Returns the same spec with some fields replaced.

        Args:
            shape: The new sizes of the axes; None keeps them.
            dtype: The new dtype; None keeps it.
            name: The new name; None keeps it.
        """
        return ArraySpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.name if name is None else name,
        )


class BoundedArraySpec(ArraySpec):
    """The spec of arrays of one shape and dtype between two bounds, which are inclusive.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy integer or float dtype.
        minimum: The lower bounds, broadcastable to `shape`; None and -inf become the least finite number of the dtype.
        maximum: The upper bounds, broadcastable to `shape`; None and inf become the greatest finite number.
        name: The name of the value, or None.

    Raises:
        ValueError: The bounds do not fit shape or dtype, or a minimum exceeds its maximum.
        TypeError: The dtype is neither integer nor float.
    """

    __slots__ = ("_maximum", "_minimum")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        shape: Any,
        dtype: DTypeLike,
        minimum: ArrayLike | None = None,
        maximum: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(shape, dtype, name)
        kind = self.dtype.kind
        if kind not in "iuf":
            raise TypeError(f"Cannot find minimum value of {self.dtype}")
        info: Any = np.finfo(self.dtype) if kind == "f" else np.iinfo(self.dtype)
        low, high = (
            self._bound(given, default, info, what)
            for given, default, what in ((minimum, info.min, "minimum"), (maximum, info.max, "maximum"))
        )
        if np.any(low > high):
            raise ValueError(f"Spec bounds min has values greater than max: [{low},{high}]")
        if any(np.any(bound < info.min) or np.any(bound > info.max) for bound in (low, high)):
            raise ValueError(f"Spec bounds [{low},{high}] not within the range of the given dtype ({self.dtype})")
        self._minimum, self._maximum = low.astype(self.dtype), high.astype(self.dtype)
        self._minimum.setflags(write=False)
        self._maximum.setflags(write=False)

    def _bound(self, given: ArrayLike | None, default: Any, info: Any, what: str) -> NDArray[Any]:
        bound = np.array(default if given is None else given)
        try:
            np.broadcast_to(bound, self.shape)
        except ValueError as error:
            raise ValueError(f"{what} is not compatible with shape. Message: {error!r}.") from error
        if self.dtype.kind == "f" and bound.dtype.kind == "f":
            bound[bound == -np.inf] = info.min
            bound[bound == np.inf] = info.max
        return bound

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedArraySpec:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns a bounded spec with the shape, dtype and bounds of another.

        Args:
            spec: The other spec; without bounds, those of its dtype are taken.
            name: The new name; None keeps that of `spec`.
        """
        name = spec.name if name is None else name
        if hasattr(spec, "minimum") and hasattr(spec, "maximum"):
            return BoundedArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, name)
        return BoundedArraySpec(spec.shape, spec.dtype, name=name)

    @property
    def minimum(self) -> NDArray[Any]:
        """The lower bounds; broadcastable to `shape`, read-only."""
        return self._minimum

    @property
    def maximum(self) -> NDArray[Any]:
        """The upper bounds; broadcastable to `shape`, read-only."""
        return self._maximum

    @property
    def num_values(self) -> NDArray[Any] | None:
        """The number of values of each element, of the spec's shape; None unless the dtype is an integer."""
        if self.dtype.kind not in "iu":
            return None
        with np.errstate(over="ignore"):  # the whole range of an integer has more values than it can count
            return np.broadcast_to(self.maximum, self.shape) - np.broadcast_to(self.minimum, self.shape) + 1

    def __repr__(self) -> str:
        return (
            f"BoundedArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r}, "
            f"minimum={self.minimum}, maximum={self.maximum})"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedArraySpec)
            and super().__eq__(other)
            and bool((self.minimum == other.minimum).all() and (self.maximum == other.maximum).all())
        )

    def check_array(self, array: Any) -> bool:
        return (
            super().check_array(array) and bool(np.all(array >= self.minimum)) and bool(np.all(array <= self.maximum))
        )

    def replace(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        shape: Any = None,
        dtype: DTypeLike | None = None,
        minimum: ArrayLike | None = None,
        maximum: ArrayLike | None = None,
        name: str | None = None,
    ) -> BoundedArraySpec:
        """Returns the same spec with some fields replaced.

        Args:
            shape: The new sizes of the axes; None keeps them.
            dtype: The new dtype; None keeps it.
            minimum: The new lower bounds; None keeps them.
            maximum: The new upper bounds; None keeps them.
            name: The new name; None keeps it.
        """
        return BoundedArraySpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.minimum if minimum is None else minimum,
            self.maximum if maximum is None else maximum,
            self.name if name is None else name,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundedArraySpec, (self.shape, self.dtype, self.minimum, self.maximum, self.name)


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
