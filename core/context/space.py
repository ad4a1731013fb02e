"""Context spaces: the features of an environment, and the contexts that they allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError, nearest
from ..seeding import check_seed
from ..spec import Array, Discrete
from ..tree import AnyList, AnyScalar, AnyTuple
from .configspace import configuration_space, feature_of, features_of
from .features import Feature, fit, plain, text_of


class ContextSpace:
    """The features of an environment's contexts, in order.

    Args:
        features: A list or mapping of features or ConfigSpace hyperparameters; a `ConfigSpace.ConfigurationSpace`; or a
            context space of CARL; see `context.configspace`.

    Raises:
        ContextError: Two features have the same name, or an element is not a feature.
    """

    def __init__(self, features: Any) -> None:
        self._features: dict[str, Feature] = {}
        self._defaults: dict[str, Any] | None = None  # memoised, because every reset reads it
        for feature in features_of(features):
            if feature.name in self._features:
                raise ContextError(f"{feature.name}: there are two features of this name")
            self._features[feature.name] = feature

    @classmethod
    def of(cls, given: Any) -> ContextSpace:
        """Converts anything that the constructor accepts to a context space. Returns a context space unchanged."""
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
        """Returns a space with only the features in `names`, in that order.

        Raises:
            ContextError: A name is unknown; the message suggests similar ones.
        """
        return ContextSpace([self._feature(name) for name in names])

    def _feature(self, name: Any, path: str = "features") -> Feature:
        if name not in self._features:
            raise ContextError(f"{path}[{name!r}]: no such feature; {nearest(str(name), self._features)}")
        return self._features[name]

    def insert_defaults(self, context: Mapping[str, Any], context_keys: Iterable[str] | None = None) -> dict[str, Any]:
        """Checks a context and fills in defaults. Returns the context in the order of the features.

        Args:
            context: Values of some of the features.
            context_keys: The features whose defaults are filled in; None for all.

        Raises:
            ContextError: See `verify`; or `context_keys` contains an unknown name.
        """
        self.verify(context)
        keys = self._features if context_keys is None else {self._feature(k, "context_keys").name for k in context_keys}
        full = {**self.defaults, **context}
        return {name: full[name] for name in self._features if name in context or name in keys}

    def verify(self, context: Mapping[str, Any], path: str = "context") -> None:
        """Checks that a context has only known features with allowed values.

        Args:
            context: Values of some of the features.
            path: The name of the context in the message.

        Raises:
            ContextError: A feature is unknown or its value is not allowed. The message suggests similar names or
                describes the allowed values.
        """
        if not isinstance(cast("Any", context), Mapping):
            raise ContextError(f"{path}: expected a mapping of feature names to values, got {context!r}")
        for name, value in context.items():
            feature = self._feature(name, path)
            if not feature.allows(value):
                kind = f" ({type(value).__name__})" if isinstance(value, AnyScalar) else ""
                raise ContextError(f"{path}[{name!r}]: expected {feature}, got {text_of(plain(value))}{kind}")

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
        """Samples random contexts.

        Args:
            n: The number of contexts; None for a single one.
            seed: An integer of at least 0, a random generator, or None for a random seed.
            features: The features to sample: a list of names, or of features that define other distributions; see
                `distributions`. Others have their defaults. None for all.

        Raises:
            ContextError: A uniform feature has infinite bounds; or see `distributions`.
        """
        if not (n is None or (isinstance(cast("Any", n), (int, np.integer)) and n >= 0)):
            raise ContextError(f"n: expected how many contexts, at least 0, or None for one alone, got {n!r}")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_seed(seed))
        varied = self._features if features is None else self.distributions(features)
        contexts = [
            {**self.defaults, **{name: feature.sample(rng) for name, feature in varied.items()}}
            for _ in range(1 if n is None else n)
        ]
        if features is not None:
            for context in contexts:
                self.verify(context, "a sampled context")
        return contexts[0] if n is None else contexts

    def distributions(self, features: Any) -> dict[str, Feature]:
        """Returns distributions by feature name, and checks that they stay within the allowed values.

        A normal distribution without bounds gets the bounds of this space's feature with the same name. `features` is a
        list of names and features, or any other argument of the constructor.

        Raises:
            ContextError: A feature is unknown or occurs twice, or its distribution exceeds the allowed values.
        """
        if isinstance(features, ContextSpace):
            given = list(features._features.values())
        elif isinstance(features, (AnyList, AnyTuple)):
            given = [self._feature(item) if isinstance(item, str) else feature_of(item) for item in features]
        else:
            given = list(features_of(features))
        found: dict[str, Feature] = {}
        for feature in given:
            if feature.name in found:
                raise ContextError(f"features: expected each feature once, got {feature.name!r} twice")
            found[feature.name] = fit(feature, self._feature(feature.name))
        return {name: found[name] for name in self._features if name in found}

    def grid(self, values: Mapping[str, Iterable[Any]]) -> dict[int, dict[str, Any]]:
        """Returns all combinations of values as full contexts with ids 0, 1, 2, …. The last feature varies fastest.

        `values` maps each feature that varies to its values. Other features have their defaults.

        Raises:
            ContextError: See `verify`.
        """
        combinations = itertools.product(*values.values())
        return {
            i: self.insert_defaults(dict(zip(values, combination, strict=True)))
            for i, combination in enumerate(combinations)
        }

    def to_configspace(self) -> Any:
        """Converts to a `ConfigSpace.ConfigurationSpace`, which the constructor of `ContextSpace` accepts.

        Raises:
            ContextError: A feature has a custom class, which ConfigSpace cannot express.
            MissingBackend: ConfigSpace is not installed.
        """
        return configuration_space(self._features.values())

    def spec(self) -> dict[str, Array | Discrete]:
        """Returns the spec of encoded contexts, with a scalar or an index for each feature."""
        return {name: feature.spec for name, feature in self._features.items()}

    def encode(self, context: Mapping[str, Any]) -> dict[str, np.generic]:
        """Encodes a context as numbers that lie in `spec()`. Omitted features have their defaults.

        Raises:
            ContextError: See `verify`.
        """
        full = self.insert_defaults(context)
        return {name: feature.encode(full[name]) for name, feature in self._features.items()}

    def vector(self, context: Mapping[str, Any], names: Iterable[str] | None = None) -> NDArray[np.float64]:
        """Converts a context to a float64 array of shape (features,).

        Args:
            context: Values of some of the features; the others have their defaults.
            names: The features to include, in order; None for all.

        Raises:
            ContextError: See `verify`; or a name is unknown; or float64 cannot represent an integer exactly.
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
