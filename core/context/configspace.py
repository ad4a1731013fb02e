"""Conversion of the hyperparameters and spaces of ConfigSpace and CARL to features.

| ConfigSpace, CARL | here |
|---|---|
| `UniformFloatHyperparameter`, `UniformFloatContextFeature` | `UniformFloat` |
| `UniformIntegerHyperparameter`, `UniformIntegerContextFeature` | `UniformInteger` |
| `NormalFloatHyperparameter`, `NormalFloatContextFeature` | `NormalFloat`, unless its `log` is set |
| `CategoricalHyperparameter`, `CategoricalContextFeature` | `Categorical` |
| `OrdinalHyperparameter` | `Categorical`, in its order |
| `Constant` | `Categorical` of one choice |
| any other hyperparameter | `Hyperparameter`, which delegates to it |
| `ConfigurationSpace`, CARL's `ContextSpace` and `ContextSampler` | `ContextSpace` of its features |

Objects are recognised by the names of their classes; ConfigSpace itself is never imported. Conditions and forbidden
clauses have no counterpart and are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ..errors import ContextError
from ..spec import Array
from ..tree import AnyMapping
from .categorical_feature import Categorical
from .features import Feature, is_number, plain
from .numeric_features import NormalFloat, UniformFloat, UniformInteger


@dataclass(frozen=True)
class Hyperparameter(Feature):
    """A number described by a hyperparameter of ConfigSpace that has no counterpart here, such as a beta distribution.

    Args:
        name: The name of the feature.
        source: The hyperparameter, which checks values and samples them.
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


def _uniform_float(given: Any) -> Feature:
    return UniformFloat(given.name, given.lower, given.upper, given.default_value, bool(given.log))


def _uniform_integer(given: Any) -> Feature:
    return UniformInteger(given.name, given.lower, given.upper, given.default_value, bool(given.log))


def _normal_float(given: Any) -> Feature:
    if given.log:
        return Hyperparameter(given.name, given)
    low, high = -math.inf if given.lower is None else given.lower, math.inf if given.upper is None else given.upper
    return NormalFloat(given.name, given.mu, given.sigma, given.default_value, low, high)


def _categorical(given: Any) -> Feature:
    return Categorical(given.name, tuple(given.choices), given.default_value, given.weights)


def _ordinal(given: Any) -> Feature:
    return Categorical(given.name, tuple(given.sequence), given.default_value)


def _constant(given: Any) -> Feature:
    return Categorical(given.name, (given.value,))


_COUNTERPARTS: dict[str, Callable[[Any], Feature]] = {
    "UniformFloatHyperparameter": _uniform_float,
    "UniformIntegerHyperparameter": _uniform_integer,
    "NormalFloatHyperparameter": _normal_float,
    "CategoricalHyperparameter": _categorical,
    "OrdinalHyperparameter": _ordinal,
    "Constant": _constant,
    "Hyperparameter": lambda given: Hyperparameter(given.name, given),
}


def _classes(given: Any, package: str) -> list[str]:
    """Returns the names of those of an object's classes that a package defines, the most derived first."""
    return [kind.__name__ for kind in type(given).__mro__ if kind.__module__.partition(".")[0] == package]


def feature_of(given: Any) -> Feature:
    """Returns a feature unchanged, and the counterpart of a hyperparameter.

    Args:
        given: A `Feature`, or a hyperparameter of ConfigSpace or CARL.

    Raises:
        ContextError: `given` is neither.
    """
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
    """Yields the features of a collection.

    Args:
        given: A list of features, a mapping of names to features, a `ConfigurationSpace`, or a context space of CARL.

    Raises:
        ContextError: `given` is none of these, a key is not the name of its feature, or a space has conditions or
            forbidden clauses.
    """
    if "ContextSpace" in _classes(given, "carl"):
        given = given.context_space
    if "ConfigurationSpace" in _classes(given, "ConfigSpace"):
        for field_name in ("conditions", "forbidden_clauses"):
            if len(getattr(given, field_name)):
                raise ContextError(
                    f"features: the ConfigurationSpace has {field_name.replace('_', ' ')}, which a context space "
                    f"cannot express: {list(getattr(given, field_name))}; take them out, or check contexts yourself"
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


# The names of CARL, for code that was written for it.


def UniformFloatContextFeature(  # noqa: N802
    name: str, lower: float, upper: float, default_value: float | None = None, log: bool = False
) -> UniformFloat:
    """Returns a `UniformFloat` from CARL's arguments.

    Args:
        name: The name of the feature.
        lower: The smallest value.
        upper: The largest value.
        default_value: The value in contexts that leave it out; the middle if None.
        log: If True, the logarithm is uniformly distributed.
    """
    return UniformFloat(name, lower, upper, default_value, log)


def UniformIntegerContextFeature(  # noqa: N802
    name: str, lower: float, upper: float, default_value: int | None = None, log: bool = False
) -> UniformInteger:
    """Returns a `UniformInteger` from CARL's arguments.

    Args:
        name: The name of the feature.
        lower: The smallest value.
        upper: The largest value.
        default_value: The value in contexts that leave it out; the middle if None.
        log: If True, the logarithm is uniformly distributed.
    """
    return UniformInteger(name, lower, upper, default_value, log)


def NormalFloatContextFeature(  # noqa: N802
    name: str,
    mu: float,
    sigma: float,
    lower: float = -math.inf,
    upper: float = math.inf,
    default_value: float | None = None,
) -> NormalFloat:
    """Returns a `NormalFloat` from CARL's arguments.

    Args:
        name: The name of the feature.
        mu: The mean.
        sigma: The standard deviation.
        lower: The smallest value.
        upper: The largest value.
        default_value: The value in contexts that leave it out; the mean if None.
    """
    return NormalFloat(name, mu, sigma, default_value, lower, upper)


def CategoricalContextFeature(  # noqa: N802
    name: str,
    choices: Iterable[Hashable],
    default_value: Any = None,
    *,
    weights: Iterable[float] | None = None,
) -> Categorical:
    """Returns a `Categorical` from CARL's arguments.

    Args:
        name: The name of the feature.
        choices: The values, in order.
        default_value: The value in contexts that leave it out; the first choice if None.
        weights: The relative probability of each choice; all equal if None.
    """
    return Categorical(name, tuple(choices), default_value, None if weights is None else tuple(weights))
