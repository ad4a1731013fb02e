"""A selector that samples its contexts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..errors import ContextError
from .contexts_by_id import Context, Contexts
from .distributions import extremes
from .features import Feature
from .selectors import Selector
from .space import ContextSpace

_MOST_CORNERS = 256


class Sampled(Selector):
    """Samples a new context for each episode; the ids are 0, 1, 2, ….

    Features that are not sampled have the values of the environment's default context.

    Args:
        space: The features to sample: a `ContextSpace`, or an argument of its constructor, such as a list of features.
            A normal distribution without bounds gets those of the environment's feature.
        n: The number of different contexts, which repeat in the same order; None for a new one in each episode. All n
            of them follow from a single random number, taken for the first.
        defaults: Values of other features, in place of the environment's defaults.

    Raises:
        ContextError: `n` is not an integer of at least 1. Raised by `begin`: several contexts are given, which would
            never be used, or the distributions do not fit the environment's features.
    """

    def __init__(self, space: Any, n: int | None = None, defaults: Context | None = None) -> None:
        is_count = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
        if n is not None and not (is_count and n >= 1):
            raise ContextError(f"Sampled: n: expected how many contexts, at least 1, or None, got {n!r}")
        self.space = ContextSpace.of(space)
        self.n = None if n is None else int(n)
        self._own_defaults = None if defaults is None else dict(defaults)
        self._declared: ContextSpace | None = None
        self._fitted = self.space
        self.defaults: Context = self._own_defaults or {}
        super().__init__()

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        super().begin(contexts, space)
        if len(self.contexts) > 1:
            raise ContextError(
                f"Sampled: makes its own contexts, so it would never use {self.contexts_keys}; leave `contexts` out, "
                "and give what stays the same as the default context"
            )
        self.defaults = {**next(iter(self.contexts.values())), **(self._own_defaults or {})}
        self._declared = space
        self._fitted = self.space if space is None else ContextSpace(space.distributions(self.space))

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        number = self.choose(rng)
        if self.n is not None:
            if "entropy" not in self.position:
                self.position = {**self.position, "entropy": int(rng.integers(2**63))}
            rng = np.random.default_rng((self.position["entropy"], number))
        context = {**self.defaults, **self._fitted.sample(seed=rng)}
        if self._declared is not None:
            self._declared.verify(context, f"contexts[{number}]")
        return number, context

    @property
    def drawn_from(self) -> dict[str, Feature]:
        """The distributions of the sampled features, restricted to the values that the environment allows, by name."""
        return self._fitted.features

    def corners(self, default: Context) -> list[dict[str, Any]]:
        """Returns contexts that bound all those that may be sampled, feature by feature.

        Args:
            default: The values of the features that are not sampled.

        Returns:
            All combinations of the features' smallest and largest values (or of all choices). If there are more than
            256, only: all smallest values, all largest values, and each extreme value alone with the others at their
            defaults. A normal distribution without bounds counts as ended 8 standard deviations from its mean; one
            value in 10¹⁵ lies beyond.
        """
        ends = {name: extremes(feature) for name, feature in self._fitted.features.items()}
        if math.prod(map(len, ends.values())) <= _MOST_CORNERS:
            combinations = [dict(zip(ends, values, strict=True)) for values in itertools.product(*ends.values())]
        else:
            together = [{name: values[end] for name, values in ends.items()} for end in (0, -1)]
            combinations = [*together, *({name: value} for name, values in ends.items() for value in values)]
        centre = {**default, **self._fitted.defaults}
        return [{**centre, **combination} for combination in combinations]

    def choose(self, rng: np.random.Generator) -> Any:
        return self.n_calls if self.n is None else self.n_calls % self.n

    def _arguments(self) -> dict[str, Any]:
        others = {"n": self.n, "defaults": self._own_defaults}
        return {"space": self.space, **{name: value for name, value in others.items() if value is not None}}
