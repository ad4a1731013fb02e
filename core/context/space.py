"""Context spaces: which features an environment has, and which contexts that makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError, nearest
from ..seeding import check_seed
from ..spec import Array, Discrete
from .configspace import feature_of, features_of
from .distributions import fitted
from .features import Feature, plain


class ContextSpace:
    """The features of an environment, in order.

    Args:
        features: A list of features, or a mapping by name; hyperparameters of ConfigSpace count as features, and a
            `ConfigSpace.ConfigurationSpace` or a context space of CARL is taken as a whole, see `context.configspace`.

    Raises:
        ContextError: Two features have the same name, or something is no feature.
    """

    def __init__(self, features: Any) -> None:
        self._features: dict[str, Feature] = {}
        self._defaults: dict[str, Any] | None = None  # asked for at every reset
        for feature in features_of(features):
            if feature.name in self._features:
                raise ContextError(f"{feature.name}: there are two features of this name")
            self._features[feature.name] = feature

    @classmethod
    def of(cls, given: Any) -> ContextSpace:
        """A context space as it is, or one of whatever the constructor takes."""
        return given if isinstance(given, ContextSpace) else cls(given)

    @property
    def features(self) -> dict[str, Feature]:
        """The features by name."""
        return dict(self._features)

    @property
    def defaults(self) -> dict[str, Any]:
        """The default context."""
        if self._defaults is None:
            self._defaults = {name: feature.default_value for name, feature in self._features.items()}
        return dict(self._defaults)

    def subspace(self, names: Iterable[str]) -> ContextSpace:
        """The space of some of the features, in the order given.

        Raises:
            ContextError: An unknown name, with near ones.
        """
        return ContextSpace([self._feature(name) for name in names])

    def _feature(self, name: Any, path: str = "features") -> Feature:
        if name not in self._features:
            raise ContextError(f"{path}[{name!r}]: no such feature; {nearest(str(name), self._features)}")
        return self._features[name]

    def insert_defaults(self, context: Mapping[str, Any], context_keys: Iterable[str] | None = None) -> dict[str, Any]:
        """A full context: `context` with defaults filled in, checked, in the order of the features.

        Args:
            context: Values of some of the features.
            context_keys: The features whose defaults are filled in; None for all.

        Raises:
            ContextError: See `verify`; or `context_keys` names no feature.
        """
        self.verify(context)
        keys = self._features if context_keys is None else {self._feature(k, "context_keys").name for k in context_keys}
        full = {**self.defaults, **context}
        return {name: full[name] for name in self._features if name in context or name in keys}

    def verify(self, context: Mapping[str, Any], path: str = "context") -> None:
        """Checks that every feature of `context` exists and may have its value.

        Args:
            context: Values of some of the features.
            path: How to call the context in a message.

        Raises:
            ContextError: It does not, with near names; or it may not, with what it may be.
        """
        if not isinstance(cast("Any", context), Mapping):
            raise ContextError(f"{path}: expected a mapping of feature names to values, got {context!r}")
        for name, value in context.items():
            feature = self._feature(name, path)
            if not feature.allows(value):
                kind = f" ({type(cast('Any', value)).__name__})" if isinstance(value, np.generic) else ""
                raise ContextError(f"{path}[{name!r}]: expected {feature}, got {plain(value)!r}{kind}")

    @overload
    def sample(
        self, n: None = None, *, seed: int | np.random.Generator | None = None, features: Any = None
    ) -> dict[str, Any]: ...

    @overload
    def sample(
        self, n: int, *, seed: int | np.random.Generator | None = None, features: Any = None
    ) -> list[dict[str, Any]]: ...

    def sample(
        self, n: int | None = None, *, seed: int | np.random.Generator | None = None, features: Any = None
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Random contexts.

        Args:
            n: How many; None for one alone.
            seed: An integer, a generator to draw from, or None for the system's entropy.
            features: What varies, while the others have their defaults: names, or features that say how theirs is
                distributed, see `distributions`. None for all.

        Returns:
            One context, or a list of `n`, each in the order of the features.

        Raises:
            ContextError: A feature without finite bounds cannot be sampled uniformly; or see `distributions`.
        """
        if not (n is None or (isinstance(cast("Any", n), (int, np.integer)) and n >= 0)):
            raise ContextError(f"n: expected how many contexts, at least 0, or None for one alone, got {n!r}")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_seed(seed))
        varied = self._features if features is None else self.distributions(features)
        contexts = [self._draw(varied, rng) for _ in range(1 if n is None else n)]
        if features is not None:
            for context in contexts:
                self.verify(context, "a sampled context")
        return contexts[0] if n is None else contexts

    def _draw(self, varied: Mapping[str, Feature], rng: np.random.Generator) -> dict[str, Any]:
        return {
            name: varied[name].sample(rng) if name in varied else feature.default_value
            for name, feature in self._features.items()
        }

    def distributions(self, features: Any) -> dict[str, Feature]:
        """How some of the features are to vary, checked against what they may be.

        A normal distribution without bounds of its own gets those of its feature.

        Args:
            features: A list of names and features, or whatever the constructor takes.

        Returns:
            The features by name, in the order of this space.

        Raises:
            ContextError: There is no such feature; it comes twice; or the distribution could leave what is allowed.
        """
        if isinstance(features, ContextSpace):
            given = list(features._features.values())
        elif isinstance(features, (list, tuple)):
            items = cast("list[Any]", features)
            given = [self._feature(item) if isinstance(item, str) else feature_of(item) for item in items]
        else:
            given = list(features_of(features))
        found: dict[str, Feature] = {}
        for feature in given:
            if feature.name in found:
                raise ContextError(f"features: {feature.name!r} is there twice")
            found[feature.name] = fitted(feature, self._feature(feature.name))
        return {name: found[name] for name in self._features if name in found}

    def grid(self, values: Mapping[str, Iterable[Any]]) -> dict[int, dict[str, Any]]:
        """Contexts of all combinations of some values, the last feature varying fastest; defaults for the others.

        Args:
            values: The values of each feature that varies.

        Returns:
            Full contexts by number, as `Contextual` takes them.

        Raises:
            ContextError: See `verify`.
        """
        combinations = itertools.product(*values.values())
        return {
            i: self.insert_defaults(dict(zip(values, combination, strict=True)))
            for i, combination in enumerate(combinations)
        }

    def spec(self) -> dict[str, Array | Discrete]:
        """What `encode` returns: by feature, a scalar within its finite bounds, or the index of a choice."""
        return {name: feature.spec for name, feature in self._features.items()}

    def encode(self, context: Mapping[str, Any]) -> dict[str, np.generic]:
        """A context as numbers, a value of `spec()`; what it leaves out has its default, as in `insert_defaults`.

        Raises:
            ContextError: See `verify`.
        """
        full = self.insert_defaults(context)
        return {name: feature.encode(full[name]) for name, feature in self._features.items()}

    def vector(self, context: Mapping[str, Any], names: Iterable[str] | None = None) -> NDArray[np.float64]:
        """A context as a float64 array of shape (features,).

        Args:
            context: What it leaves out has its default.
            names: Which features, in order; None for all.

        Raises:
            ContextError: See `verify`; an unknown name; or an integer too large for a float64.
        """
        encoded = self.encode(context)
        chosen = list(encoded) if names is None else [self._feature(name, "names").name for name in names]
        vector = np.array([encoded[name] for name in chosen], np.float64)
        for name, number in zip(chosen, vector.tolist(), strict=True):
            if number != encoded[name].item():
                raise ContextError(f"context[{name!r}]: expected an integer that float64 holds, got {encoded[name]}")
        return vector

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextSpace) and list(self._features.values()) == list(other._features.values())

    def __hash__(self) -> int:
        return hash(tuple(self._features.values()))

    def __repr__(self) -> str:
        return f"ContextSpace({list(self._features.values())!r})"
