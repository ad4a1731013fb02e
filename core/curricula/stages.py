"""Curricula of a fixed order: stages that success unlocks, and boxes that move."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..context.features import Feature, UniformFloat, UniformInteger
from ..errors import ContextError
from ..tree import AnyList, AnyTuple
from .curriculum import Curriculum, Episode, Sampling, check_choice, check_ids, check_number

Box = Mapping[str, tuple[float, float]]


class Sequential(Curriculum):
    """Chooses uniformly from the contexts of the current stage. Results of episodes decide when the stage changes.

    After every `window` episodes of the current stage, the mean of `measure` decides: at `promote` or above, the next
    stage begins; below `promote - margin` in `patience` windows in a row, the previous stage resumes.

    Args:
        stages: Lists of ids, the first stage first.
        promote: The mean at or above which the next stage begins.
        window: The number of episodes in each mean.
        patience: The number of consecutive windows below the margin before going back.
        margin: How far below `promote` a mean must be to go back; None to never go back.
        measure: `"success"`, `"return"` or `"length"`.
        seed: See `Curriculum`.

    Attributes:
        stage: The index of the current stage.
    """

    learned = ("stage", "_measured", "_failed")

    def __init__(
        self,
        stages: Sequence[Sequence[Hashable]],
        *,
        promote: float = 0.8,
        window: int = 20,
        patience: int = 1,
        margin: float | None = None,
        measure: str = "success",
        seed: int = 0,
    ) -> None:
        self.stages = [list(s) if isinstance(cast("Any", s), (AnyList, AnyTuple)) else [] for s in stages]
        if not self.stages or not all(self.stages):
            raise ContextError(f"stages: expected lists of ids, at least one in each, got {stages!r}")
        check_choice("measure", measure, ("success", "return", "length"))
        check_number("promote", promote, -math.inf)
        check_number("window", window, 1, integer=True)
        check_number("patience", patience, 1, integer=True)
        if margin is not None:
            check_number("margin", margin, 0)
        self.promote, self.window, self.patience, self.margin = promote, window, patience, margin
        self.measure = measure
        self._instead_of_success = "use measure='return'" if measure == "success" else ""
        super().__init__(seed=seed)

    def _fit(self) -> None:
        for index, stage in enumerate(self.stages):
            check_ids(f"stages[{index}]", stage, self.contexts)

    def restart(self) -> None:
        super().restart()
        self.stage, self._measured, self._failed = 0, list[float](), 0

    def learn(self, episode: Episode, place: int) -> bool:
        if episode.context_id not in self.stages[self.stage]:
            return False
        values = {"success": episode.success, "return": episode.total, "length": episode.length}
        self._measured = [*self._measured, cast("float", values[self.measure])]
        if len(self._measured) < self.window:
            return False
        mean, self._measured = sum(self._measured) / self.window, []
        is_low = self.margin is not None and mean < self.promote - self.margin
        self._failed = self._failed + 1 if is_low else 0
        step = 1 if mean >= self.promote else -1 if self._failed >= self.patience else 0
        if step:
            self.stage, self._failed = min(max(self.stage + step, 0), len(self.stages) - 1), 0
        return bool(step)

    def weigh(self) -> NDArray[np.float64]:
        weights = np.zeros(len(self.contexts_keys))
        weights[[self._place[key] for key in self.stages[self.stage]]] = 1
        return weights


class Annealed(Sampling):
    """Samples features uniformly from a box that moves from `start` to `end`; other features have their defaults.

    Each bound moves linearly with the total length (or successes) of completed episodes, until the total reaches
    `steps`.

    Args:
        start: The first box, `{feature: (low, high)}`.
        end: The last box, of the same features.
        steps: The total at which the box reaches `end`.
        measure: `"length"` or `"success"`.
        seed: See `Curriculum`.
    """

    learned = ("_sum",)

    def __init__(self, start: Box, end: Box, steps: float, *, measure: str = "length", seed: int = 0) -> None:
        for what, box in (("start", start), ("end", end)):
            for name, pair in box.items():
                if not isinstance(cast("Any", pair), (AnyTuple, AnyList)) or len(pair) != 2 or not pair[0] <= pair[1]:
                    raise ContextError(f"{what}[{name!r}]: expected (low, high) with low ≤ high, got {pair!r}")
        if set(start) != set(end) or not start:
            raise ContextError(f"start, end: expected boxes of the same features, got {list(start)} and {list(end)}")
        check_choice("measure", measure, ("length", "success"))
        check_number("steps", steps, 1)
        self.start, self.end, self.steps, self.measure = dict(start), dict(end), steps, measure
        self._instead_of_success = "use measure='length'" if measure == "success" else ""
        super().__init__(seed=seed)

    def features(self) -> list[Feature]:
        declared = {} if self._space is None else self._space.features
        kinds = {n: UniformInteger if isinstance(declared.get(n), UniformInteger) else UniformFloat for n in self.start}
        low_and_high = {n: (*self.start[n], *self.end[n]) for n in self.start}
        return [kind(name, min(low_and_high[name]), max(low_and_high[name])) for name, kind in kinds.items()]

    def restart(self) -> None:
        super().restart()
        self._sum = 0.0

    def learn(self, episode: Episode, place: int) -> bool:
        self._sum += episode.length if self.measure == "length" else cast("float", episode.success)
        return True

    @property
    def box(self) -> dict[str, tuple[float, float]]:
        """The current box, `{feature: (low, high)}`."""
        part = min(self._sum / self.steps, 1.0)
        return {
            name: (low + (self.end[name][0] - low) * part, high + (self.end[name][1] - high) * part)
            for name, (low, high) in self.start.items()
        }

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for number, (name, (low, high)) in zip(rng.random(len(self.start)).tolist(), self.box.items(), strict=True):
            if isinstance(self._reach[name], UniformInteger):
                first = math.ceil(low)
                values[name] = first + int(number * (max(math.floor(high), first) - first + 1))
            else:
                values[name] = low + number * (high - low)
        return values
