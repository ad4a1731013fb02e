"""What frameworks whose specs describe arrays (dm_env, TF-Agents) need of a core spec, and of its values.

Everything but text and variable-sized structures is one array of a shape and dtype between two bounds:

| core | shape | low … high |
|---|---|---|
| `Array` | its shape | its bounds, or none |
| `Discrete` | () | start … start+n-1 |
| `MultiDiscrete` | its shape | start … start+nvec-1 |
| `MultiBinary` | its shape | 0 … 1 |

The way back from the array alone is an `Array`, so a framework's spec that comes from a core one remembers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, Spec, Text
from envoi.spec import SpecTree
from envoi.spec.arrays import integer_range
from envoi.tree import children, map_leaves, rebuild

from .value_conversion import Convert, branch_decoder


@dataclass(frozen=True, eq=False)
class ArrayForm:
    """A spec as one array.

    Attributes:
        shape: Sizes of the axes.
        dtype: The numpy dtype.
        low: Lower bounds (inclusive) of that shape as `Array` takes them, or None.
        high: Upper bounds, likewise.
        name: What the value is called, or None.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any] | None
    high: NDArray[Any] | None
    name: str | None

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound on either side."""
        return self.low is not None or self.high is not None

    @property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Both bounds, of that shape and dtype; a missing one is the least or the most that the dtype holds."""
        least, most = extremes(self.dtype)
        return _filled(self.low, -np.inf, least, self), _filled(self.high, np.inf, most, self)


def _filled(bound: NDArray[Any] | None, infinity: float, end: Any, form: ArrayForm) -> NDArray[Any]:
    if bound is None:
        return np.full(form.shape, end, form.dtype)
    return np.array(np.where(bound == infinity, end, bound) if bound.dtype.kind == "O" else bound, form.dtype)


def extremes(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and the most that a dtype holds: ∓inf for floats."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else integer_range(dtype)


def array_form(spec: Spec, path: str, target: str) -> ArrayForm:
    """A leaf as one array.

    Args:
        spec: A spec that is no dict, list or tuple.
        path: How to call the leaf in an error.
        target: The framework, for the error.

    Raises:
        LossyConversion: No array of numbers holds its values.
    """
    if isinstance(spec, Array):
        return ArrayForm(spec.shape, spec.dtype, spec.low_or_inf, spec.high_or_inf, spec.name)
    if isinstance(spec, Discrete):
        low, high = (np.array(bound, spec.dtype) for bound in (spec.start, spec.start + spec.n - 1))
        return ArrayForm((), spec.dtype, low, high, spec.name)
    if isinstance(spec, MultiDiscrete):
        return ArrayForm(spec.shape, spec.dtype, spec.start, np.asarray(spec.last), spec.name)
    if isinstance(spec, MultiBinary):
        low, high = np.zeros(spec.shape, np.int8), np.ones(spec.shape, np.int8)
        return ArrayForm(spec.shape, spec.dtype, low, high, spec.name)
    raise LossyConversion(path, "type", repr(spec), target, "only arrays of one shape can be said; leave it out")


def read_form(form: ArrayForm, path: str = "spec") -> Array:
    """The spec of an array that a framework describes; floats whose bounds are infinite on both sides have none.

    Raises:
        LossyConversion: Its dtype is none of numbers.
    """
    if form.dtype.kind not in "biufc":
        raise LossyConversion(path, "dtype", str(form.dtype), "the core", "use numbers, or a spec of strings")
    if form.low is not None and form.high is not None and form.dtype.kind == "f":
        least, most = extremes(form.dtype)
        if bool((form.low == least).all()) and bool((form.high == most).all()):
            return Array(form.shape, form.dtype, None, None, form.name)
    return Array(form.shape, form.dtype, form.low, form.high, form.name)


def default_discrete(spec: SpecTree) -> SpecTree:
    """The choices that a foreign action spec means: each integer scalar between two bounds becomes a `Discrete`.

    For a foreign spec does not say whether 0 … 3 are four choices or a quantity: an action is a choice, an observation
    stays an `Array`. Bounds that hold the whole range of the dtype are no choice either.

    Args:
        spec: A leaf, or a nested structure, of what was read from foreign specs.
    """
    return map_leaves(_as_choice, spec)


def _as_choice(spec: Spec) -> Spec:
    if not isinstance(spec, Array) or spec.shape != () or spec.dtype.kind not in "iu":
        return spec
    if spec.low is None or spec.high is None:
        return spec
    first, last = int(spec.low), int(spec.high)
    if (first, last) == extremes(spec.dtype):
        return spec
    return Discrete(last - first + 1, first, spec.dtype, spec.name)


# A framework's spec that remembers the core spec that it was made from.

_ORIGIN = "_envoi_spec"


def remembering(kind: type, arguments: tuple[Any, ...], spec: Spec) -> Any:
    """A framework's spec that remembers its origin; in all else it is one of `kind`.

    Copies and pickles remember too. What `replace` makes of it does not: it is another spec.

    Args:
        kind: The framework's class, such as `dm_env.specs.BoundedArray`, whose `__reduce__` gives the arguments.
        arguments: For its constructor.
        spec: The core spec that it is made from.
    """
    made = _remembering(kind)(*arguments)
    setattr(made, _ORIGIN, spec)
    return made


def origin(foreign: Any) -> Spec | None:
    """The core spec that a framework's spec was made from by `remembering`, or None."""
    return getattr(foreign, _ORIGIN, None)


@cache
def _remembering(kind: Any) -> Any:
    class Remembering(kind):
        # The frameworks' specs have slots, so there is no place to remember anything in.
        __slots__ = (_ORIGIN,)
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __reduce__(self) -> tuple[Any, ...]:
            arguments = cast("tuple[Any, ...]", super().__reduce__()[1])
            return _again, (kind, arguments, origin(self))

    Remembering.__name__, Remembering.__qualname__ = kind.__name__, kind.__qualname__
    return Remembering


def _again(kind: type, arguments: tuple[Any, ...], spec: Spec | None) -> Any:
    return kind(*arguments) if spec is None else remembering(kind, arguments, spec)


_ARRAYS = (Array, MultiDiscrete, MultiBinary)

# Values: what has another container or type there than here. Dicts, lists, tuples and named tuples are the same.


def encoder(spec: SpecTree, fresh: bool = False) -> Convert | None:
    """A core value as these frameworks want it, or None where the two are the same.

    A `Discrete` value becomes a numpy integer of the spec's dtype (which can be hashed, unlike an array), a scalar of
    another spec a 0-d array.

    Args:
        spec: What the value is.
        fresh: Make containers anew even where the two are the same.
    """
    if isinstance(spec, Discrete):
        return _to_integer(spec)
    if isinstance(spec, Spec):
        return _to_array(spec.dtype) if isinstance(spec, _ARRAYS) and spec.shape == () else None
    return _each(spec, [(key, encoder(sub, fresh)) for _, key, sub in children(spec)], fresh)


def decoder(spec: SpecTree, path: str = "action", exact: bool = False) -> Convert | None:
    """Returns what makes a framework's value as the core has it, or None where the two are the same.

    Containers are made each time. A value that lacks a part is a `SpecError` with its path.

    Args:
        spec: What the value is.
        path: How to call the value in an error.
        exact: Refuse a value with more parts than its spec has too.
    """
    if isinstance(spec, (Discrete, Text)):
        return _from_scalar_array
    if isinstance(spec, Spec):
        return _to_array(spec.dtype) if isinstance(spec, _ARRAYS) and spec.shape == () else None
    return branch_decoder(spec, [(key, decoder(sub, path + p, exact)) for p, key, sub in children(spec)], path, exact)


class Choices(dict[Any, Any]):
    """The integers of a `Discrete` spec in its dtype, by their number: looking one up costs a third of making it.

    An array of shape () cannot be looked up: that is a TypeError.
    """

    def __init__(self, spec: Discrete) -> None:
        self.kind = spec.dtype.type
        super().__init__({number: self.kind(number) for number in range(spec.start, spec.start + min(spec.n, 256))})

    def __missing__(self, value: Any) -> Any:
        return self.kind(value)


def _to_integer(spec: Discrete) -> Convert:
    choices = Choices(spec)

    def convert(value: Any) -> Any:
        try:
            return choices[value]
        except TypeError:
            return choices.kind(value)

    return convert


def _to_array(dtype: np.dtype[Any]) -> Convert:
    def convert(value: Any) -> Any:
        # Python numbers have no width of their own.
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, dtype)

    return convert


def _from_scalar_array(value: Any) -> Any:
    # An author may look a choice up in a dict, and arrays cannot be hashed.
    return value[()] if type(value) is np.ndarray else value


def _each(spec: SpecTree, parts: list[tuple[Any, Convert | None]], fresh: bool) -> Convert | None:
    if not fresh and not any(part for _, part in parts):
        return None
    if type(spec) is dict:
        return lambda value: {key: part(value[key]) if part else value[key] for key, part in parts}
    return lambda value: rebuild(spec, [part(value[key]) if part else value[key] for key, part in parts])
