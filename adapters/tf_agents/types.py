"""The types of TF-Agents without TensorFlow, used if `tf_agents` is not installed: environments, time steps, specs.

Their methods behave as in TF-Agents 0.19. Left out are methods on tensors, `from_spec`, `from_array`, `num_values`, and
what an environment may override to be reset by `step`.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class ArraySpec:
    """Spec for arrays of one shape and dtype.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy dtype.
        name: The name of the value, or None.
    """

    __slots__ = ("dtype", "name", "shape")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    _fields: ClassVar[tuple[str, ...]] = ("shape", "dtype", "name")

    def __init__(self, shape: Any, dtype: DTypeLike, name: str | None = None) -> None:
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name = name

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArraySpec) and self.shape == other.shape and self.dtype == other.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field) for field in self._fields)

    def check_array(self, array: Any) -> bool:
        """Returns True if a numpy array or a number fits this spec."""
        if isinstance(array, np.ndarray):
            return self.shape == array.shape and self.dtype == array.dtype
        return isinstance(array, numbers.Number) and self.shape == () and self.dtype == np.dtype(type(array))

    def replace(self, **fields: Any) -> ArraySpec:
        """Returns the same spec with some fields replaced; None keeps a field."""
        kind = BoundedArraySpec if isinstance(self, BoundedArraySpec) else ArraySpec
        new = {name: value for name, value in fields.items() if value is not None}
        return kind(**{name: getattr(self, name) for name in self._fields} | new)


class BoundedArraySpec(ArraySpec):
    """Spec for arrays of one shape and dtype with inclusive bounds.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy integer or float dtype.
        minimum: The lower bounds, broadcastable to `shape`; None and -inf become the dtype's lowest finite number.
        maximum: The upper bounds, broadcastable to `shape`; None and inf become the greatest finite number.
        name: The name of the value, or None.

    Raises:
        ValueError: The bounds do not fit shape or dtype, or a minimum exceeds its maximum.
        TypeError: The dtype is neither integer nor float.
    """

    __slots__ = ("maximum", "minimum")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    _fields = ("shape", "dtype", "minimum", "maximum", "name")

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
        low, high = self._bound(minimum, info.min, info), self._bound(maximum, info.max, info)
        if np.any(low > high):
            raise ValueError(f"Spec bounds min has values greater than max: [{low},{high}]")
        if any(np.any(bound < info.min) or np.any(bound > info.max) for bound in (low, high)):
            raise ValueError(f"Spec bounds [{low},{high}] not within the range of the given dtype ({self.dtype})")
        self.minimum, self.maximum = low.astype(self.dtype), high.astype(self.dtype)
        self.minimum.setflags(write=False)
        self.maximum.setflags(write=False)

    def _bound(self, given: ArrayLike | None, default: Any, info: Any) -> NDArray[Any]:
        bound = np.array(default if given is None else given)
        np.broadcast_to(bound, self.shape)  # raises an error if they do not fit
        if self.dtype.kind == "f" and bound.dtype.kind == "f":
            bound[bound == -np.inf] = info.min
            bound[bound == np.inf] = info.max
        return bound

    def __repr__(self) -> str:
        return f"Bounded{super().__repr__()[:-1]}, minimum={self.minimum}, maximum={self.maximum})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedArraySpec)
            and super().__eq__(other)
            and bool((self.minimum == other.minimum).all() and (self.maximum == other.maximum).all())
        )

    def check_array(self, array: Any) -> bool:
        """Returns True if a numpy array or a number fits this spec, bounds included."""
        return super().check_array(array) and bool(np.all(array >= self.minimum) and np.all(array <= self.maximum))


class StepType:
    """The position of a time step in its episode, as an int32 array of shape ()."""

    FIRST: ClassVar[NDArray[np.int32]] = np.asarray(0, np.int32)
    MID: ClassVar[NDArray[np.int32]] = np.asarray(1, np.int32)
    LAST: ClassVar[NDArray[np.int32]] = np.asarray(2, np.int32)

    def __new__(cls, value: Any) -> Any:
        """Returns one of the three constants from its number."""
        if value in (0, 1, 2):
            return (cls.FIRST, cls.MID, cls.LAST)[int(value)]
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
        """Returns True for the first time step of an episode; for a batch, an array of shape (n,)."""
        return np.equal(self.step_type, StepType.FIRST)

    def is_mid(self) -> Any:
        """Returns True for a time step between first and last; for a batch, an array of shape (n,)."""
        return np.equal(self.step_type, StepType.MID)

    def is_last(self) -> Any:
        """Returns True for the last time step of an episode; for a batch, an array of shape (n,)."""
        return np.equal(self.step_type, StepType.LAST)


class PyEnvironment(ABC):
    """A TF-Agents environment; a subclass defines `_reset`, `_step`, `observation_spec` and `action_spec`.

    A step before the first reset begins an episode. After a last time step, `_step` itself must begin a new episode.
    """

    _current_time_step: TimeStep | None = None

    @property
    def batched(self) -> bool:
        """True if the environment is a batch, in which each value has a leading axis of n lanes."""
        return False

    @property
    def batch_size(self) -> int | None:
        """The number of lanes, or None if the environment is not batched."""
        return None

    @abstractmethod
    def observation_spec(self) -> Any:
        """Returns the spec of observations: an `ArraySpec`, or a nested structure of them."""

    @abstractmethod
    def action_spec(self) -> Any:
        """Returns the spec of actions."""

    def reward_spec(self) -> Any:
        """Returns the spec of rewards."""
        return ArraySpec((), np.float32, "reward")

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return BoundedArraySpec((), np.float32, 0.0, 1.0, "discount")

    def time_step_spec(self) -> TimeStep:
        """Returns the specs as a `TimeStep`, with the default discount spec unless a subclass overrides this method."""
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
        """Runs one step and returns its time step; before the first reset, starts an episode instead."""
        if self._current_time_step is None:
            return self.reset()
        self._current_time_step = self._step(action)
        return self._current_time_step

    def close(self) -> None:  # noqa: B027 (optional to override)
        """Releases the resources of the environment."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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
        """Returns the time step after an action."""

    @abstractmethod
    def _reset(self) -> TimeStep:
        """Returns the first time step of a new episode."""
