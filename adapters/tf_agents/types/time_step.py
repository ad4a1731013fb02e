"""Time steps, the results of `reset` and `step`, as in `tf_agents.trajectories.time_step`."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
