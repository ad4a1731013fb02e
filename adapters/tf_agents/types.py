"""The types of TF-Agents without TensorFlow: environments, time steps and specs with the same methods and meaning.

They serve where `tf_agents` is not installed. What they do is what TF-Agents 0.19 does; what it does only with tensors
is left out.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class StepType:
    """Where in an episode a time step is."""

    FIRST: ClassVar[NDArray[np.int32]] = np.asarray(0, np.int32)
    MID: ClassVar[NDArray[np.int32]] = np.asarray(1, np.int32)
    LAST: ClassVar[NDArray[np.int32]] = np.asarray(2, np.int32)

    def __new__(cls, value: Any) -> Any:
        """One of the three, from its number."""
        for known in (cls.FIRST, cls.MID, cls.LAST):
            if value == known:
                return known
        raise ValueError(f"No known conversion for `{value!r}` into a StepType")


class TimeStep(NamedTuple):
    """What `reset` and `step` return; each value of a batch has a leading lane axis.

    Attributes:
        step_type: int32, see `StepType`.
        reward: A value of `reward_spec`; 0 in a first step.
        discount: A value of `discount_spec`; 1 in a first step.
        observation: A value of `observation_spec`.
    """

    step_type: Any
    reward: Any
    discount: Any
    observation: Any

    def is_first(self) -> Any:
        """Whether an episode begins here."""
        return np.equal(self.step_type, StepType.FIRST)

    def is_mid(self) -> Any:
        """Whether the episode goes on before and after this."""
        return np.equal(self.step_type, StepType.MID)

    def is_last(self) -> Any:
        """Whether the episode ends here."""
        return np.equal(self.step_type, StepType.LAST)


class ArraySpec:
    """Arrays of one shape and dtype.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy dtype.
        name: What the value is called.
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
        """What the value is called."""
        return self._name

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArraySpec) and self.shape == other.shape and self.dtype == other.dtype

    def check_array(self, array: Any) -> bool:
        """Whether a numpy array, or a number, is one of these."""
        if isinstance(array, np.ndarray):
            return self.shape == array.shape and self.dtype == array.dtype
        if isinstance(array, numbers.Number):
            return self.shape == () and self.dtype == np.dtype(type(array))
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return ArraySpec, (self.shape, self.dtype, self.name)

    @staticmethod
    def from_array(array: Any, name: str | None = None) -> ArraySpec:
        """The spec of an array or number."""
        if isinstance(array, np.ndarray):
            return ArraySpec(array.shape, array.dtype, name)
        if isinstance(array, numbers.Number):
            return ArraySpec((), type(array), name)
        raise ValueError(f"Array must be a np.ndarray or number. Got {array!r}.")

    @staticmethod
    def from_spec(spec: Any) -> ArraySpec:
        """A spec without the bounds of another."""
        return ArraySpec(spec.shape, spec.dtype, spec.name)

    def replace(self, shape: Any = None, dtype: DTypeLike | None = None, name: str | None = None) -> ArraySpec:
        """The same spec with other values."""
        return ArraySpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.name if name is None else name,
        )


class BoundedArraySpec(ArraySpec):
    """Arrays of one shape and dtype between two bounds, which are inclusive.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy integer or float dtype.
        minimum: Broadcastable to `shape`; None, and -inf, become the least finite number of the dtype.
        maximum: Likewise; None, and inf, become the largest.
        name: What the value is called.

    Raises:
        ValueError: The bounds do not fit shape or dtype, or a minimum lies above its maximum.
        TypeError: The dtype has no least number.
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
        """A spec with the bounds of another, or with those of its dtype."""
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
        """How many values each element has, for integers."""
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
        """The same spec with other values."""
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

    A step before the first reset begins an episode. So must, by `_step` itself, the one after a last time step, unless
    `handle_auto_reset` says that this class does it.

    Args:
        handle_auto_reset: Begin a new episode in a step after all lanes have ended.
    """

    def __init__(self, handle_auto_reset: bool = False) -> None:
        self._handle_auto_reset = handle_auto_reset
        self._current_time_step: TimeStep | None = None

    @property
    def batched(self) -> bool:
        """Whether there are several lanes, which every value has a leading axis of."""
        return False

    @property
    def batch_size(self) -> int | None:
        """How many lanes there are; None where there is only one environment."""
        if self.batched:
            raise RuntimeError(f"Environment {type(self)} marked itself as batched but did not override batch_size")
        return None

    def should_reset(self, current_time_step: TimeStep) -> bool:
        """Whether the next step begins a new episode, whatever the action."""
        return self._handle_auto_reset and bool(np.all(current_time_step.is_last()))

    @abstractmethod
    def observation_spec(self) -> Any:
        """An `ArraySpec`, or a nested structure of them."""

    @abstractmethod
    def action_spec(self) -> Any:
        """An `ArraySpec`, or a nested structure of them."""

    def reward_spec(self) -> Any:
        """An `ArraySpec`, or a nested structure of them."""
        return ArraySpec((), np.float32, "reward")

    def discount_spec(self) -> Any:
        """An `ArraySpec`, or a nested structure of them."""
        return BoundedArraySpec((), np.float32, 0.0, 1.0, "discount")

    def time_step_spec(self) -> TimeStep:
        """A `TimeStep` of specs; its discount is the usual one unless a subclass says otherwise."""
        step_type, discount = ArraySpec((), np.int32, "step_type"), PyEnvironment.discount_spec(self)
        return TimeStep(step_type, self.reward_spec(), discount, self.observation_spec())

    def current_time_step(self) -> TimeStep:
        """What the last `reset` or `step` returned."""
        if self._current_time_step is None:
            raise ValueError("Current timestep not initialized.")
        return self._current_time_step

    def reset(self) -> TimeStep:
        """Begins an episode."""
        self._current_time_step = self._reset()
        return self._current_time_step

    def step(self, action: Any) -> TimeStep:
        """Acts once; or begins an episode where none goes on, whatever the action."""
        if self._current_time_step is None or self.should_reset(self._current_time_step):
            return self.reset()
        self._current_time_step = self._step(action)
        return self._current_time_step

    def close(self) -> None:  # noqa: B027 (most environments hold nothing)
        """Releases what the environment holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def render(self, mode: str = "rgb_array") -> Any:
        """A picture, of shape (height, width, 3)."""
        raise NotImplementedError("No rendering support.")

    def seed(self, seed: Any) -> Any:
        """Seeds the environment."""
        raise NotImplementedError("No seed support for this environment.")

    def get_info(self) -> Any:
        """What else there is to say of the last step."""
        raise NotImplementedError("No support of get_info for this environment.")

    def get_state(self) -> Any:
        """An opaque token of everything, for `set_state`."""
        raise NotImplementedError("This environment has not implemented `get_state()`.")

    def set_state(self, state: Any) -> None:
        """Puts everything back as it was."""
        raise NotImplementedError("This environment has not implemented `set_state()`.")

    @abstractmethod
    def _step(self, action: Any) -> TimeStep:
        """What `step` does."""

    @abstractmethod
    def _reset(self) -> TimeStep:
        """What `reset` does."""
