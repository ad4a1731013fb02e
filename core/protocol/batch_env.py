"""Batches: many lanes of one environment, stepped together.

A `BatchEnv` is an `Env` whose values have a leading lane axis. It never resets a lane by itself: the caller resets
lanes that have ended by `reset(mask=…)`, or by `step(actions, restart=…)` while the other lanes act; lanes of
`step(actions, hold=…)` pause. This expresses the auto-reset modes of all frameworks:

    next step    step(actions, restart=over)
    same step    step(actions), then reset(mask=over)
    disabled     step(actions), and reset(mask=…) when the user calls it

`envoi.batch(env, n)` makes a batch of any environment: a `BatchModel` steps all lanes in one numpy call, others are
looped over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..lane_values import lane, stack
from ..spec import SpecTree, sample
from ..spec.base import shown
from ..steps.flat import Finish, flat_step
from ..steps.program import VALUES, Program, Stage, library_name
from ..tree import map_leaves
from .env import Env, Reset, Step
from .infos import Infos

Mask: TypeAlias = NDArray[np.bool_]

Seeds: TypeAlias = int | Sequence[int | None] | None
"""One seed for all lanes, a sequence with one (or None) per lane, or None."""

LANES_VALUES = f"{', '.join(VALUES)}, over"
"""The registers of a batch's step; flags and `over` (the lanes that have ended) are None if all are False."""


class LanesStep(NamedTuple):
    """The steps of some lanes of a batch that can step its lanes independently."""

    lanes: NDArray[np.intp]  # the indices of k lanes, of shape (k,)
    step: Step  # with leaves of shape (k, …)


make_batch_reset: Callable[[tuple[Any, Infos]], Reset] = partial(cast("Any", tuple).__new__, Reset)
"""Makes a `Reset` of n lanes from a tuple of its values, like `make_step`."""

make_batch_step: Callable[[tuple[Any, Any, Mask, Mask, Any, Infos]], Step] = partial(cast("Any", tuple).__new__, Step)
"""Makes a `Step` of n lanes from a tuple of its values; flags have shape (n,)."""


@overload
def as_mask(mask: Mask, n: int, what: str) -> Mask: ...
@overload
def as_mask(mask: Any, n: int, what: str) -> Mask | None: ...


def as_mask(mask: Any, n: int, what: str) -> Mask | None:
    """Returns a mask of lanes as an array, after checking it."""
    if mask is None:
        return None
    result = np.asarray(mask)
    if result.shape != (n,) or result.dtype != bool:
        raise SpecError(
            f"{what}: expected a bool for each of {n} lanes, got shape {result.shape} and dtype {result.dtype}"
        )
    return result


class BatchEnv(Env):
    """A batch of n lanes of one environment. Specs describe a single lane; values have a leading axis of size n.

    A subclass defines `reset`, and `step` or `advance`.

    Args:
        n: The number of lanes.

    Attributes:
        restarts: The supported ways to reset only some lanes: `"step"`, ended lanes during the next step, by
            `restart=`; `"reset"`, ended lanes right after their end, by `reset(mask=…)`; `"live"`, any lanes at any
            time, by `reset(mask=…)`.
        lanes_can_wait: True if some lanes can act while the others pause, by `step(…, hold=…)`.

    Raises:
        SpecError: `n` is below 1.
    """

    batch_size: int  # pyright: ignore[reportIncompatibleVariableOverride]
    restarts: frozenset[str] = frozenset({"step", "reset", "live"})
    lanes_can_wait: bool = False

    _passing: ClassVar[tuple[str, ...]] = ("_written_step",)  # what copies and pickles omit
    _written_step: Any = None

    def __init__(self, n: int) -> None:
        if n < 1:
            raise SpecError(f"n: expected at least 1 lane, got {n}")
        self.batch_size = n  # pyright: ignore[reportIncompatibleVariableOverride]

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        """Begins an episode in some or all lanes.

        Args:
            seed: One seed for all lanes, or a sequence of one per lane.
            options: As for a single environment.
            mask: The lanes to reset, bool of shape (n,); None for all.

        Returns:
            The current observations of all n lanes, and infos, which are empty for lanes that were not reset.

        Raises:
            SpecError: `mask` or `seed` has another shape.
        """
        raise NotImplementedError

    def step(self, action: Any, restart: Mask | None = None, hold: Mask | None = None) -> Step:
        """Steps every lane, except lanes that begin a new episode instead or pause.

        Args:
            action: The actions, with leaves of shape (n, …). Actions of lanes that do not act are ignored.
            restart: The lanes to reset instead, bool of shape (n,). They return their first observation and reset info,
                reward 0, both flags False, and discount 1.
            hold: The lanes that pause, bool of shape (n,); they may have ended. Their state does not change, and they
                return their current observation, an empty info, reward 0, both flags False, and discount 1.

        Raises:
            EpisodeError: A lane that must act has not been reset, or has ended.
            SpecError: A lane is in both masks, or the lanes of this batch cannot pause; see `lanes_can_wait`.
        """
        if self._written_step is None:
            self._written_step = flat_step(type(self).step_program, as_lanes_step, self)
        return self._written_step(self, action, restart, hold)

    def advance(self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None) -> tuple[Any, ...]:
        """Steps the lanes for `step`, which has checked the masks; they are None if they select no lane.

        Args:
            action: As for `step`.
            restart: As for `step`.
            hold: As for `step`.
            idle: The lanes that do not act, because they are in one of the masks.

        Returns:
            The six values of a step. Flags that are all False, and default discounts, may be None.
        """
        raise NotImplementedError

    def step_program(self) -> Program:
        """Returns the program of a step: one stage that calls `advance`."""
        stage = Stage(
            f"{library_name(type(self), 'a batch')}: a step of all lanes",
            f"{', '.join(VALUES)} = batch.advance(action, restart, hold, idle)\nover = None",
            {"batch": self},
            save="_back0 = batch.hold_episode()",
            undo="_back0()",
        )
        return Program((stage,), self.step_record, opening=masks_of(self))

    def __getstate__(self) -> dict[str, Any]:
        # Written steps are not copied: those of a copy would step the original.
        return {name: value for name, value in vars(self).items() if name not in self._passing}

    def seeds_of_lanes(self, seed: int) -> list[int]:
        """Returns the seed that `reset(seed=seed)` gives to each lane's generator (equal seeds if lanes share one)."""
        return [seed] * self.batch_size

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        """Sets context features for the coming episodes of some lanes, if the batch supports contexts.

        Args:
            context: Maps each feature to one value per selected lane, or to one value for all. Check the values first.
            lanes: The indices of the lanes.
        """
        native = cast("Any", self)
        columns: dict[str, list[Any]] = {}
        given = each_of(context, len(lanes))
        for name, value in native.context.items():
            columns[name] = list(value) if np.ndim(value) else [value] * self.batch_size
            for index, number in enumerate(lanes if name in given else ()):
                columns[name][number] = given[name][index]
        native.context = columns

    def sample_action(self) -> Any:
        rng = self.streams.action
        return stack(self.action_spec, [sample(self.action_spec, rng) for _ in range(self.batch_size)])


def masks_of(batch: Env) -> Stage:
    """Returns the first stage of a batch, which checks the masks."""
    masks = """\
idle = None
if restart is not None or hold is not None:
    restart, hold = step_masks(batch, restart, hold)
    idle = either(restart, hold)"""
    names: dict[str, Any] = {"step_masks": step_masks, "either": either, "batch": batch}
    return Stage("the lanes that begin, and those that pause", masks, names)


def step_masks(batch: Any, restart: Any = None, hold: Any = None) -> tuple[Mask | None, Mask | None]:
    """Checks the two masks of a batch's step and returns them as arrays; None for a mask that selects no lane."""
    restart, hold = (as_mask(mask, batch.batch_size, what) for mask, what in ((restart, "restart"), (hold, "hold")))
    restart = restart if restart is not None and np.count_nonzero(restart) else None
    if hold is None or not np.count_nonzero(hold):
        return restart, None
    if not batch.lanes_can_wait:
        raise SpecError(f"hold: the lanes of {type(batch).__name__} act together; none of them can pause")
    if restart is not None and np.count_nonzero(both := hold & restart):
        lanes = np.flatnonzero(both).tolist()
        raise SpecError(f"hold: lanes {lanes} are in restart, too; a lane begins an episode or pauses")
    return restart, hold


def check_count(path: str, values: Any, n: int) -> None:
    """Checks that values have one entry per lane; numpy would broadcast a single one."""
    found = len(values) if hasattr(values, "__len__") and getattr(values, "shape", None) != () else shown(values)
    if found != n:
        raise SpecError(f"{path}: expected one for each of {n} lanes, got {found}")


def each_of(context: Mapping[str, Any], n: int) -> Mapping[str, Any]:
    """Returns a context with one value per lane for each feature, by repeating values that all lanes share."""
    return {name: value if np.ndim(value) else [value] * n for name, value in context.items()}


def full_lanes_step(values: Any, discount_spec: SpecTree, n: int) -> Step:
    """Makes a batch's `Step`, and fills in flags and discounts that a fast step left out as None."""
    observation, reward, terminated, truncated, discount, infos = values
    if terminated is None:
        terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    if discount is None:
        discount = default_discounts(discount_spec, terminated)
    return make_batch_step((observation, reward, terminated, truncated, discount, infos))


def step_of_lane(env: Env, step: Step, index: int) -> Step:
    """Returns the step of one lane of a batch; `env` has the specs of a lane."""
    observation, reward, terminated, truncated, discount, infos = cast("tuple[Any, ...]", step)
    return Step(
        lane(env.observation_spec, observation, index),
        lane(env.reward_spec, reward, index),
        bool(terminated[index]),
        bool(truncated[index]),
        lane(env.discount_spec, discount, index),
        dict(infos[index]),
    )


def as_lanes_step(program: Program) -> Finish:
    """Returns the last lines of a written batch step, which make a `Step`."""
    batch = program.opening and program.opening.names["batch"]
    values = f"({', '.join(VALUES)}), batch.discount_spec, batch.batch_size"
    return Finish(
        "a Step", f"return full_lanes_step({values})", names={"full_lanes_step": full_lanes_step, "batch": batch}
    )


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """Returns the union of two masks; None if both are None."""
    return other if one is None else one if other is None else one | other


def default_discounts(spec: SpecTree, terminated: Mask) -> Any:
    """Returns the default discounts of n lanes: 0 after a termination, else 1."""

    def of_leaf(leaf: Any) -> NDArray[Any]:
        column = (~terminated).astype(leaf.dtype)
        return np.repeat(column, math.prod(leaf.shape)).reshape(len(terminated), *leaf.shape) if leaf.shape else column

    return map_leaves(of_leaf, spec)
