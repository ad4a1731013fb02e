"""The part of a context that an agent observes: some of its features, as scaled numbers within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError, nearest
from ..spec import Discrete
from .binding import check_names
from .features import is_number
from .space import ContextSpace

SCALES = ("no", "by_mean", "by_default")
CHANGING = "changing_context_features"

Context = Mapping[str, Any]


class Visible:
    """The features of a context that an agent observes, and their conversion to numbers.

    Args:
        contexts: All full contexts that may occur, at least one.
        default: The full default context; None if it is not known.
        space: The declared features; None if there are none.
        chosen: The visible features, in order; None for all. `"changing_context_features"`, alone or as the only
            element of a list, selects those whose values differ between contexts.
        mask: Features to leave out of the chosen ones.
        scale: The divisor of each feature: `"no"` for none, `"by_mean"` for the mean over the contexts, `"by_default"`
            for the default value; a divisor of 0 counts as 1.
        bounds: `(low, high)` or `(low, high, dtype)` by feature, in place of the bounds of the space.
        unbounded: The features whose values may leave their bounds.
        hidden: If True, no feature is visible; the other arguments are still checked.

    Attributes:
        names: The visible features, in order.
        sizes: The number of numbers of each visible feature.
        low: The lower bounds of the numbers, float64 of shape (numbers,).
        high: The upper bounds of the numbers, likewise.

    Raises:
        ContextError: A feature, the scale or a bound is unknown or malformed, or a visible feature is not a number.
    """

    def __init__(
        self,
        contexts: Sequence[Context],
        default: Context | None,
        space: ContextSpace | None,
        chosen: Sequence[str] | str | None,
        mask: Sequence[str] | None,
        scale: str,
        bounds: Mapping[str, Sequence[Any]],
        unbounded: frozenset[str],
        hidden: bool = False,
    ) -> None:
        first = contexts[0]
        self._features = {} if space is None else space.features
        names = self._selected(contexts, chosen, mask)
        self.names: list[str] = [] if hidden else names
        check_names(bounds, first, "feature")
        if scale not in SCALES:
            raise ContextError(
                f"scale_context_features: expected one of {list(SCALES)}, got {scale!r}; {nearest(str(scale), SCALES)}"
            )
        if scale == "by_default" and default is None:
            raise ContextError("scale_context_features: 'by_default' needs default_context, which was not given")
        self.sizes = {name: np.size(first[name]) for name in self.names}
        for context in contexts:
            for name in self.names:
                self._number(name, context[name])
        self._factors = {name: np.asarray(1.0) for name in self.names}
        for name in self.names:
            if scale == "no" or isinstance(getattr(self._features.get(name), "spec", None), Discrete):
                continue  # the index of a choice is not scaled
            values = [context[name] for context in contexts] if scale == "by_mean" else [cast("Context", default)[name]]
            factor = np.mean([np.asarray(value, np.float64) for value in values], axis=0)
            self._factors[name] = np.where(factor == 0, 1.0, factor)
        self._any_scale = any((factor != 1.0).any() for factor in self._factors.values())
        self.low, self.high = self._bounds(contexts, bounds, unbounded)

    @staticmethod
    def _selected(
        contexts: Sequence[Context], chosen: Sequence[str] | str | None, mask: Sequence[str] | None
    ) -> list[str]:
        known = list(contexts[0])
        if isinstance(chosen, str) and chosen != CHANGING:
            raise ContextError(
                f"state_context_features: expected a list of features, None or {CHANGING!r}, got {chosen!r}"
            )
        names = known if chosen is None else [chosen] if isinstance(chosen, str) else list(chosen)
        if CHANGING in names and CHANGING not in known:
            if len(names) > 1:  # CARL would silently leave the others out
                raise ContextError(f"state_context_features: expected {CHANGING!r} alone, got {names}")
            names = [n for n in known if any(not np.array_equal(c[n], contexts[0][n]) for c in contexts)]
        _check_known("state_context_features", names, known)
        if len(set(names)) < len(names):
            raise ContextError(f"state_context_features: expected each feature once, got {names}")
        if isinstance(mask, str):
            raise ContextError(f"context_mask: expected a list of features, got {mask!r}")
        _check_known("context_mask", mask or (), known)
        return [name for name in names if name not in (mask or ())]

    def _number(self, name: str, value: Any) -> NDArray[np.float64]:
        if name in self._features:
            return np.asarray(self._features[name].encode(value), np.float64)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ContextError(
                f"context[{name!r}]: expected a number to be seen, got {value!r}; declare it as a Categorical, or hide "
                "it (context_mask, hide_context)"
            )
        return array.astype(np.float64)

    def _bounds(
        self, contexts: Sequence[Context], given: Mapping[str, Sequence[Any]], unbounded: frozenset[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        lows: list[Any] = []
        highs: list[Any] = []
        for name in self.names:
            low, high = self.bounds_of(name, given)
            if name in unbounded:
                low, high = -np.inf, np.inf
            for context in contexts:
                value = self._number(name, context[name])
                if (value < low).any() or (value > high).any():
                    raise ContextError(
                        f"context[{name!r}]: expected a number from {low} to {high}, got {context[name]!r}"
                    )
            ends = np.broadcast_to(self._factors[name], np.shape(contexts[0][name]))
            with np.errstate(invalid="ignore"):
                one, other = np.asarray(low) / ends, np.asarray(high) / ends
            lows.append(np.minimum(one, other).ravel())
            highs.append(np.maximum(one, other).ravel())
        return (np.concatenate(lows), np.concatenate(highs)) if lows else (np.zeros(0), np.zeros(0))

    def bounds_of(self, name: str, given: Mapping[str, Sequence[Any]]) -> tuple[Any, Any]:
        """Returns the bounds of a feature's numbers, before they are scaled.

        Args:
            name: The name of the feature.
            given: `(low, high)` or `(low, high, dtype)` by feature, in place of the bounds of the space.

        Returns:
            `(low, high)`; infinite where there is no bound.

        Raises:
            ContextError: The given bounds are malformed.
        """
        if name in given:
            own = given[name]
            pair = list(own[:2]) if isinstance(cast("Any", own), Sequence) and len(own) in (2, 3) else []
            are_numbers = all(is_number(bound) or bound in (-np.inf, np.inf) for bound in pair)
            if not (pair and are_numbers and pair[0] <= pair[1]):
                raise ContextError(
                    f"context_bounds[{name!r}]: expected (low, high) or (low, high, dtype), low ≤ high, got {own!r}"
                )
            return own[0], own[1]
        spec = getattr(self._features.get(name), "spec", None)
        if isinstance(spec, Discrete):
            return spec.start, spec.start + spec.n - 1
        low, high = getattr(spec, "low", None), getattr(spec, "high", None)
        return (-np.inf if low is None else low), (np.inf if high is None else high)

    def vector(self, context: Context) -> NDArray[np.float64]:
        """Returns the visible numbers of a full context: float64, of shape (numbers,)."""
        return np.concatenate([np.zeros(0), *(part.ravel() for part in self._parts(context))])

    def _parts(self, context: Context) -> list[NDArray[np.float64]]:
        parts = [self._number(name, context[name]) for name in self.names]
        if not self._any_scale:
            return parts
        return [part / self._factors[name] for name, part in zip(self.names, parts, strict=True)]


def _check_known(what: str, names: Sequence[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise ContextError(f"{what}: no feature {name!r}; {nearest(str(name), known)}")
