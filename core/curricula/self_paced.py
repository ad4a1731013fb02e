"""Self-paced learning: a normal distribution of contexts that moves to a target as fast as returns allow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..context.features import Feature, NormalFloat, UniformFloat
from ..errors import ContextError, MissingBackend
from .curriculum import Episode, Sampling, check_number

Vector = NDArray[np.float64]


class SelfPaced(Sampling):
    """Samples contexts from a normal distribution that moves towards a target (Klink et al., 2021, JMLR 22).

    Every `update_every` episodes, the distribution moves as close to the target (in KL divergence) as two limits allow:
    its KL divergence from the old distribution is at most `kl`, and its expected return, estimated by importance
    weights, is at least `bound`. Until a mean return has reached the bound once, a move raises the expected return
    instead; after that, the distribution stays while the mean is below the bound. Needs scipy.

    Args:
        start: The first distribution, a list of independent `NormalFloat` features.
        target: The final distribution of the same features. Samples are clipped to its bounds and to those of the
            environment's features.
        kl: The largest KL divergence of one move.
        bound: The return that the distribution must keep.
        update_every: The number of episodes between moves.
        seed: See `Curriculum`.

    Attributes:
        mean: The current mean, in the order of `target`.
        std: The current standard deviation.

    Raises:
        MissingBackend: scipy is not installed. Raised by `tell`.
    """

    learned = ("mean", "std", "_has_reached", "_rows")

    def __init__(
        self,
        start: Sequence[NormalFloat],
        target: Sequence[NormalFloat],
        *,
        kl: float = 0.05,
        bound: float,
        update_every: int = 100,
        seed: int = 0,
    ) -> None:
        for feature in (*start, *target):
            if not isinstance(cast("Any", feature), NormalFloat) or not feature.sigma:
                raise ContextError(f"start, target: expected NormalFloat features with sigma above 0, got {feature!r}")
        by_name = {feature.name: feature for feature in start}
        self.names = [feature.name for feature in target]
        if sorted(feature.name for feature in start) != sorted(set(self.names)) or not target:
            raise ContextError(f"start, target: expected the same features, got {list(by_name)} and {self.names}")
        check_number("kl", kl, 1e-9, 10)
        check_number("bound", bound, -np.inf)
        check_number("update_every", update_every, 1, integer=True)
        self.start, self.target = [by_name[name] for name in self.names], list(target)
        self.kl, self.bound, self.update_every = kl, bound, update_every
        super().__init__(seed=seed)

    def features(self) -> list[Feature]:
        return list(self.target)

    def _fit(self) -> None:
        super()._fit()
        for one, other in zip(self.start, self.target, strict=True):
            end: Any = self._reach[one.name]
            # Between start and target no value is far from both.
            ends = [feature.mu + side * 8 * feature.sigma for feature in (one, other) for side in (-1, 1)]
            self._reach[one.name] = UniformFloat(one.name, max(end.low, min(ends)), min(end.high, max(ends)))
        self._ends = [[getattr(self._reach[name], side) for name in self.names] for side in ("low", "high")]

    def restart(self) -> None:
        super().restart()
        self.mean, self.std = (np.array([getattr(one, name) for one in self.start]) for name in ("mu", "sigma"))
        self._has_reached, self._rows = False, list[tuple[list[float], float]]()

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        values = np.clip(self.mean + self.std * rng.standard_normal(len(self.names)), self._ends[0], self._ends[1])
        return dict(zip(self.names, values.tolist(), strict=True))

    def check(self, episodes: list[Episode]) -> list[Episode]:
        for key, context, *_ in episodes:
            if missing := [name for name in self.names if name not in context]:
                raise ContextError(f"tell: context {key!r}: expected a value of {missing[0]!r} in 'context'")
        return episodes

    def learn(self, episode: Episode, place: int) -> bool:
        rows = [*self._rows, ([float(episode.context[name]) for name in self.names], episode.total)]
        if len(rows) == self.update_every:
            contexts, returns = np.array([context for context, _ in rows]), np.array([total for _, total in rows])
            is_high = bool(returns.mean() >= self.bound)
            if is_high or not self._has_reached:
                self.mean, self.std = self._moved(contexts, returns, is_high)
            self._has_reached, rows = self._has_reached or is_high, []
        self._rows = rows
        return True

    def _moved(self, contexts: Vector, returns: Vector, to_target: bool) -> tuple[Vector, Vector]:
        """Returns the mean and the standard deviation after the next move."""
        try:
            optimize: Any = import_module("scipy.optimize")  # by name, because the core declares no dependency on it
        except ImportError as error:
            raise MissingBackend(
                "scipy is not installed, which SelfPaced needs; pip install 'envoi[curricula]'"
            ) from error
        mean, std, n = self.mean, self.std, len(self.names)
        mu, sigma = (np.array([getattr(one, name) for one in self.target]) for name in ("mu", "sigma"))
        # A point is the new mean, in standard deviations from the old one, and the logarithm of the new deviation
        # over the old one, so that the optimiser does not depend on the features' units.
        far = (contexts - mean) / std

        def divergence(x: Vector) -> tuple[float, Vector]:  # of the old distribution from the new one
            wide, squares = np.exp(-2 * x[n:]), 1 + x[:n] ** 2
            return float((x[n:] + squares * wide / 2 - 0.5).sum()), np.append(x[:n] * wide, 1 - squares * wide)

        def distance(x: Vector) -> tuple[float, Vector]:  # of the new distribution from the target
            new, away = std * np.exp(x[n:]) / sigma, (mean + std * x[:n] - mu) / sigma
            value = -np.log(new) + (new**2 + away**2) / 2 - 0.5
            return float(value.sum()), np.append(away * std / sigma, new**2 - 1)

        def expected(x: Vector) -> tuple[float, Vector]:  # the return under the new distribution
            wide, away = np.exp(-2 * x[n:]), far - x[:n]
            parts = np.exp((far**2 / 2 - x[n:] - away**2 * wide / 2).sum(1)) * returns / len(returns)
            return float(parts.sum()), parts @ np.column_stack((away * wide, away**2 * wide - 1))

        def at_least(of: Any, bound: float, sign: int = 1) -> dict[str, Any]:
            def value(x: Any) -> Any:
                return sign * (of(x)[0] - bound)

            def slope(x: Any) -> Any:
                return sign * of(x)[1]

            return {"type": "ineq", "fun": value, "jac": slope}

        x0, (aim, sign) = np.zeros(2 * n), (distance, 1) if to_target else (expected, -1)
        far_off = float(np.sqrt(2 * self.kl + 1) * np.exp(self.kl + 0.5))
        scale = sign / (abs(aim(x0)[0]) or 1.0)

        def scaled(x: Any) -> tuple[Any, Any]:
            value, slope = aim(x)
            return scale * value, scale * slope

        found: Any = optimize.minimize(
            scaled,
            x0,
            jac=True,
            method="SLSQP",
            # Wider than any point within the divergence, and narrow enough for numbers to stay finite.
            bounds=[(-far_off, far_off)] * n + [(-1 - self.kl, 1 + self.kl)] * n,
            constraints=[at_least(divergence, self.kl, -1), *([at_least(expected, self.bound)] if to_target else [])],
            options={"ftol": 1e-12, "maxiter": 200},
        )
        x = found.x
        holds = divergence(x)[0] <= self.kl * (1 + 1e-6) and (not to_target or expected(x)[0] >= self.bound - 1e-6)
        if not (np.isfinite(x).all() and holds and scale * aim(x)[0] <= scale * aim(x0)[0]):
            return mean, std
        return mean + std * x[:n], std * np.exp(x[n:])
