"""Contexts: the parameters that distinguish one instance of an environment from another.

A context maps feature names to values (`{"gravity": 9.8, "length": 0.5}`). A `ContextSpace` defines the features, their
defaults, and the values that they may have. A set of contexts maps ids to contexts, and a `Selector` chooses one of
them for each episode.

    space = ContextSpace([UniformFloat("length", 0.1, 2, default=0.5), Categorical("floor", ("wood", "ice"))])
    save_contexts("train.yaml", space.sample(10, seed=0))
"""

from .binding import Attributes, Binding, Factory, Function, Native
from .configspace import (
    CategoricalContextFeature,
    Hyperparameter,
    NormalFloatContextFeature,
    UniformFloatContextFeature,
    UniformIntegerContextFeature,
)
from .features import Categorical, Feature, NormalFloat, UniformFloat, UniformInteger
from .regions import ContextRanges, Regions, parse_contexts, read_contexts, regions
from .selectors import (
    AbstractSelector,
    Custom,
    CustomSelector,
    Random,
    RandomSelector,
    RoundRobin,
    RoundRobinSelector,
    Sampled,
    Selector,
    Static,
    StaticSelector,
)
from .sets import Context, Contexts, ContextSet, fill, load_contexts, save_contexts
from .space import ContextSpace

__all__ = [
    "AbstractSelector",
    "Attributes",
    "Binding",
    "Categorical",
    "CategoricalContextFeature",
    "Context",
    "ContextRanges",
    "ContextSet",
    "ContextSpace",
    "Contexts",
    "Custom",
    "CustomSelector",
    "Factory",
    "Feature",
    "Function",
    "Hyperparameter",
    "Native",
    "NormalFloat",
    "NormalFloatContextFeature",
    "Random",
    "RandomSelector",
    "Regions",
    "RoundRobin",
    "RoundRobinSelector",
    "Sampled",
    "Selector",
    "Static",
    "StaticSelector",
    "UniformFloat",
    "UniformFloatContextFeature",
    "UniformInteger",
    "UniformIntegerContextFeature",
    "fill",
    "load_contexts",
    "parse_contexts",
    "read_contexts",
    "regions",
    "save_contexts",
]
