"""Learning progress: contexts whose success rate changes are chosen more often."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError
from .curriculum import Curriculum, Episode, check_ids, check_number


class LearningProgress(Curriculum):
    """Chooses by bidirectional learning progress of success rates (Kanitscheider et al., 2021, arXiv:2106.14876).

    As in "OMNI" (Zhang et al., 2023, arXiv:2306.01711), averages start from the first rate: here a context's averages
    start at its first update. An update uses the mean success per context over the last `update_every` episodes;
    contexts without episodes keep their averages. A fraction `uniform` of choices is uniform, because only training
    evaluates contexts, so a context that is never chosen could show no progress.

    Args:
        baseline: The success rate of a random policy (below 1) by context id; 0 for other contexts.
        smoothing: The weight of a new value in both averages, the fast one and the slow one that follows it.
        reweighing: The parameter θ of the function that stretches low success rates.
        uniform: The fraction of choices that are uniform.
        update_every: The number of episodes between updates.
        bounds: `(low, high)` of returns. Returns are then rescaled to success rates from 0 to 1, in place of the
            success that the environment reports. A return outside the bounds is an error.
        seed: See `Curriculum`.
    """

    learned = ("_fast", "_slow", "_raw", "_has_rates", "_batch", "_count")

    def __init__(
        self,
        *,
        baseline: Mapping[Hashable, float] | None = None,
        smoothing: float = 0.1,
        reweighing: float = 0.1,
        uniform: float = 0.25,
        update_every: int = 100,
        bounds: tuple[float, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.baseline = dict(baseline or {})
        for key, rate in self.baseline.items():
            check_number(f"baseline[{key!r}]", rate, 0, 1 - 1e-9)
        for name, part in (("smoothing", smoothing), ("reweighing", reweighing), ("uniform", uniform)):
            check_number(name, part, 0, 1)
        check_number("update_every", update_every, 1, integer=True)
        if bounds is not None and not (len(bounds) == 2 and -np.inf < bounds[0] < bounds[1] < np.inf):
            raise ContextError(f"bounds: expected finite (low, high) of returns with low < high, got {bounds!r}")
        self.smoothing, self.reweighing, self.uniform = smoothing, reweighing, uniform
        self.update_every, self.bounds = update_every, bounds
        self._instead_of_success = "give the bounds of returns, (low, high)" if bounds is None else ""
        super().__init__(seed=seed)

    def _fit(self) -> None:
        check_ids("baseline", self.baseline, self.contexts)
        self._base = np.array([self.baseline.get(key, 0.0) for key in self.contexts_keys])

    def restart(self) -> None:
        super().restart()
        n = len(self.contexts_keys)
        self._fast, self._slow, self._raw, self._has_rates = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, bool)
        self._batch, self._count = [[0.0] * n, [0.0] * n], 0  # successes and episodes since the last update

    def check(self, episodes: list[Episode]) -> list[Episode]:
        super().check(episodes)
        if self.bounds is None:
            return episodes
        low, high = self.bounds
        for episode in episodes:
            rounding = 1e-9 * max(1.0, abs(episode.total))
            if not low - rounding <= episode.total <= high + rounding:
                raise ContextError(
                    f"context {episode.context_id!r}: expected a return within bounds={self.bounds}, got "
                    f"{episode.total}; give bounds that hold all returns"
                )
        return [Episode(*one[:4], min(1.0, max(0.0, (one.total - low) / (high - low))), one.score) for one in episodes]

    def learn(self, episode: Episode, place: int) -> bool:
        self._batch[0][place] += cast("float", episode.success)
        self._batch[1][place] += 1
        self._count += 1
        if self._count < self.update_every:
            return False
        successes, episodes = np.array(self._batch)
        there, had, new = episodes > 0, self._has_rates, self.smoothing
        rates = np.divide(successes, episodes, out=np.zeros(len(episodes)), where=there)

        def follow(average: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(there, np.where(had, new * values + (1 - new) * average, values), average)

        self._raw = follow(self._raw, rates)
        self._fast = follow(self._fast, np.maximum(rates - self._base, 0) / (1 - self._base))
        self._slow = follow(self._slow, self._fast)
        self._has_rates = had | there
        self._batch, self._count = [[0.0] * len(rates), [0.0] * len(rates)], 0
        return True

    @property
    def progress(self) -> NDArray[np.float64]:
        """The absolute change of each context's success rate, up or down, in the order of `contexts_keys`."""
        return np.abs(self._reweighed(self._fast) - self._reweighed(self._slow))

    def _reweighed(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        theta = self.reweighing
        divisor = rates + theta * (1 - 2 * rates)
        return np.divide((1 - theta) * rates, divisor, out=np.zeros_like(rates), where=divisor > 0)

    def weigh(self) -> NDArray[np.float64]:
        progress, n = self.progress, len(self.contexts_keys)
        some = (progress > 0) | (self._raw > 0)
        some = some if some.any() else np.ones(n, bool)
        chosen = progress[some]
        weights = np.zeros(n)
        weights[some] = 1 / (1 + np.exp(-(chosen - chosen.mean()) / (chosen.std() or 1.0)))
        return (1 - self.uniform) * weights / weights.sum() + self.uniform / n
