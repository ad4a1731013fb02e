"""Conversion of the hyperparameters and spaces of ConfigSpace and CARL to features, and of features to ConfigSpace.

Objects are recognised by the names of their classes, so ConfigSpace is only imported by `ContextSpace.to_configspace`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np

from ..errors import ContextError, MissingBackend
from ..spec import Array
from ..tree import AnyMapping
from .features import Categorical, Feature, NormalFloat, UniformFloat, UniformInteger, is_number, plain


@dataclass(frozen=True)
class Hyperparameter(Feature):
    """A numeric feature defined by a ConfigSpace hyperparameter without an envoi class, such as a beta distribution.

    Args:
        name: The name of the feature.
        source: The hyperparameter, used to check and sample values.
    """

    source: Any = field(hash=False)  # hyperparameters of ConfigSpace are not hashable

    @property
    def default_value(self) -> Any:
        return plain(self.source.default_value)

    def allows(self, value: Any) -> bool:
        return is_number(value) and bool(self.source.legal_value(plain(value)))

    def sample(self, rng: np.random.Generator) -> Any:
        return plain(self.source.rvs(random_state=int(rng.integers(2**31))))

    @property
    def spec(self) -> Array:
        dtype = np.int64 if isinstance(self.default_value, int) else np.float64
        low, high = (None if not math.isfinite(bound) else bound for bound in (self.source.lower, self.source.upper))
        return Array((), dtype, low, high)

    def encode(self, value: Any) -> np.generic:
        return self.spec.dtype.type(value)

    def __str__(self) -> str:
        return f"a value of {self.source}"


def _normal(given: Any) -> Feature:
    if given.log:
        return Hyperparameter(given.name, given)
    low, high = -math.inf if given.lower is None else given.lower, math.inf if given.upper is None else given.upper
    return NormalFloat(given.name, given.mu, given.sigma, given.default_value, low, high)


_COUNTERPARTS: dict[str, Callable[[Any], Feature]] = {
    "UniformFloatHyperparameter": lambda h: UniformFloat(h.name, h.lower, h.upper, h.default_value, bool(h.log)),
    "UniformIntegerHyperparameter": lambda h: UniformInteger(h.name, h.lower, h.upper, h.default_value, bool(h.log)),
    "NormalFloatHyperparameter": _normal,
    "CategoricalHyperparameter": lambda h: Categorical(h.name, tuple(h.choices), h.default_value, h.weights),
    "OrdinalHyperparameter": lambda h: Categorical(h.name, tuple(h.sequence), h.default_value),
    "Constant": lambda h: Categorical(h.name, (h.value,)),
    "Hyperparameter": lambda h: Hyperparameter(h.name, h),
}


def _classes(given: Any, package: str) -> list[str]:
    """Returns the names of an object's classes that the package defines, from the most derived to the base."""
    return [kind.__name__ for kind in type(given).__mro__ if kind.__module__.partition(".")[0] == package]


def feature_of(given: Any) -> Feature:
    """Converts a hyperparameter to a feature; returns a feature unchanged."""
    if isinstance(given, Feature):
        return given
    for name in _classes(given, "ConfigSpace"):
        if name in _COUNTERPARTS:
            return _COUNTERPARTS[name](given)
    raise ContextError(
        f"features: expected a feature, such as UniformFloat('length', 0.1, 2), or a hyperparameter of ConfigSpace, "
        f"got {given!r}"
    )


def features_of(given: Any) -> Iterator[Feature]:
    """Yields the features of a collection, a ConfigSpace space or a CARL space."""
    if "ContextSpace" in _classes(given, "carl"):
        given = given.context_space
    for what in ("conditions", "forbidden_clauses") if "ConfigurationSpace" in _classes(given, "ConfigSpace") else ():
        if len(getattr(given, what)):
            raise ContextError(
                f"features: the ConfigurationSpace has {what.replace('_', ' ')}, which a context space cannot "
                f"express: {list(getattr(given, what))}; take them out, or check contexts yourself"
            )
    if isinstance(given, AnyMapping):
        for name, item in given.items():
            feature = feature_of(item)
            if feature.name != name:
                raise ContextError(f"features[{name!r}]: expected a feature of this name, got one of {feature.name!r}")
            yield feature
    elif isinstance(given, Iterable) and not isinstance(given, str):
        yield from map(feature_of, cast("Iterable[Any]", given))
    else:
        raise ContextError(f"features: expected a list of features, a mapping or a ConfigurationSpace, got {given!r}")


def configuration_space(features: Iterable[Feature]) -> Any:
    """Returns a `ConfigSpace.ConfigurationSpace` of features."""
    try:
        package: Any = import_module("ConfigSpace")  # by name, because the core declares no dependency on it
    except ImportError as error:
        raise MissingBackend("ConfigSpace is not installed; pip install ConfigSpace") from error
    return package.ConfigurationSpace(space={feature.name: _hyperparameter(feature, package) for feature in features})


def _hyperparameter(feature: Feature, package: Any) -> Any:
    match feature:
        case Hyperparameter():
            return feature.source
        case UniformFloat() | UniformInteger():
            make = getattr(package, f"{type(feature).__name__}Hyperparameter")
            return make(feature.name, feature.low, feature.high, feature.default_value, feature.log)
        case NormalFloat(name, mu, sigma):
            return package.NormalFloatHyperparameter(
                name, mu, sigma, feature.low, feature.high, default_value=feature.default_value
            )
        case Categorical(name, choices):
            return package.CategoricalHyperparameter(name, choices, feature.default, weights=feature.weights)
        case _:
            raise ContextError(f"{feature.name}: ConfigSpace has no hyperparameter for a {type(feature).__name__}")


# The names of CARL, for code that was written for it.

F = TypeVar("F", bound=Feature)


def _named_by_carl(kind: Callable[..., F], *names: str) -> Callable[..., F]:
    """Returns a function that makes a feature from CARL's arguments."""
    own = {"lower": "low", "upper": "high", "default_value": "default"}

    def make(*given: Any, **named: Any) -> F:
        arguments = {**dict(zip(names[: len(given)], given, strict=True)), **named}
        return kind(**{own.get(name, name): value for name, value in arguments.items()})

    return make


UniformFloatContextFeature = _named_by_carl(UniformFloat, "name", "lower", "upper", "default_value", "log")
UniformIntegerContextFeature = _named_by_carl(UniformInteger, "name", "lower", "upper", "default_value", "log")
NormalFloatContextFeature = _named_by_carl(NormalFloat, "name", "mu", "sigma", "lower", "upper", "default_value")
CategoricalContextFeature = _named_by_carl(Categorical, "name", "choices", "default_value", "weights")
