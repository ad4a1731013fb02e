"""Batches: many lanes of one environment, stepped together.

A `BatchEnv` is an `Env` whose values have a leading lane axis. It never resets a lane by itself: a lane that has
ended is begun anew by `reset(mask=…)`, or by `step(actions, restart=…)` while the other lanes act. The auto-reset
modes of the frameworks are one call each:

    next step    step(actions, restart=over)
    same step    step(actions), then reset(mask=over)
    disabled     step(actions), and reset(mask=…) when the user says so

`envoi.batch(env, n)` makes one from anything: a `BatchModel` steps all lanes in one numpy call, any other
environment is looped over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..batching.values import stack
from ..errors import SpecError
from ..spec import sample
from .env import Env, Reset, Step

Mask: TypeAlias = NDArray[np.bool_]


def as_mask(mask: Any, n: int, what: str) -> Mask | None:
    """Which of `n` lanes: None where there is no choice to be made.

    Raises:
        SpecError: Not a bool for each lane.
    """
    if mask is None:
        return None
    result = np.asarray(mask)
    if result.shape != (n,) or result.dtype != bool:
        raise SpecError(
            f"{what}: expected a bool for each of {n} lanes, got shape {result.shape} and dtype {result.dtype}"
        )
    return result


class BatchEnv(Env):
    """n lanes of one environment. Specs describe one lane; every value has a leading axis of n.

    Args:
        n: How many lanes.

    Attributes:
        restarts: How lanes can begin anew: those that have ended in the `"step"` after, by `restart=`, or by a
            `"reset"` with a mask right after their end; and `"live"` lanes by a reset with a mask at any time.
        lanes_can_wait: Whether some lanes may act while the others stand still, see `step_lanes`.

    Raises:
        SpecError: `n` is below 1.
    """

    batch_size: int  # pyright: ignore[reportIncompatibleVariableOverride]
    restarts: frozenset[str] = frozenset({"step", "reset", "live"})
    lanes_can_wait: bool = False

    def __init__(self, n: int) -> None:
        if n < 1:
            raise SpecError(f"n: expected at least 1 lane, got {n}")
        self.batch_size = n  # pyright: ignore[reportIncompatibleVariableOverride]

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        """Begins an episode in the lanes of `mask`, or in all.

        Args:
            seed: One for all lanes, or one a lane.
            options: As for a single environment.
            mask: Shape (n,), which lanes.

        Returns:
            The current observations of all n lanes, and infos, empty for lanes that were not reset.
        """
        raise NotImplementedError

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        """Acts once in every lane, but for those that begin a new episode instead.

        Args:
            action: Leaves of shape (n, …).
            restart: Shape (n,), the lanes that are reset instead, whatever their action; they report their first
                observation and reset info, reward 0, no end, and discount 1.

        Raises:
            EpisodeError: One of the other lanes was not reset before, or has ended.
        """
        raise NotImplementedError

    def step_lanes(self, action: Any, lanes: Mask) -> Step:
        """Acts once in some lanes, while the others stand still, whether they have ended or not.

        Args:
            action: Leaves of shape (n, …); what lanes that stand still are told does not matter.
            lanes: Shape (n,), which lanes act.

        Returns:
            For a lane that stands still the observation it has, reward 0, no end, and discount 1.

        Raises:
            EpisodeError: One of the lanes was not reset before, or has ended.
            SpecError: The lanes of this batch cannot wait for each other.
        """
        raise SpecError(f"step_lanes: the lanes of {type(self).__name__} act together, and none can stand still")

    def seeds_of_lanes(self, seed: int) -> list[int]:
        """The seed of the generator of each lane after `reset(seed=seed)`; the same where lanes share one."""
        return [seed] * self.batch_size

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        """Sets some features of the coming episodes of some lanes, where the lanes take contexts.

        Args:
            context: By feature, one value for each of these lanes. They are known to be allowed.
            lanes: The indices of the lanes.
        """
        native = cast("Any", self)
        columns: dict[str, list[Any]] = {}
        for name, value in native.context.items():
            columns[name] = list(value) if np.ndim(value) else [value] * self.batch_size
            for index, lane in enumerate(lanes if name in context else ()):
                columns[name][lane] = context[name][index]
        native.context = columns

    def sample_action(self) -> Any:
        rng = self.streams.action
        return stack(self.action_spec, [sample(self.action_spec, rng) for _ in range(self.batch_size)])
