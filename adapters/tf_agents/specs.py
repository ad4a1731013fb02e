"""Conversions of TF-Agents' specs, rewards and discounts; the table is in `envoi.adapters.tf_agents`."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from operator import index, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import Array, Discrete, Env, LossyConversion, Spec
from envoi.spec import SpecTree
from envoi.spec.base import is_uniform
from envoi.tree import children, leaves, map_leaves, rebuild

from ..conversion import losses_in
from ..shared.array_specs import ArrayForm, array_form, branch_encoder, default_discrete, origin, read_form, remembering
from ..shared.loss import Loss

if TYPE_CHECKING or find_spec("tf_agents") is None:
    from .types import ArraySpec, BoundedArraySpec, PyEnvironment, StepType, TimeStep
else:
    from tf_agents.environments.py_environment import PyEnvironment  # noqa: F401
    from tf_agents.specs.array_spec import ArraySpec, BoundedArraySpec
    from tf_agents.trajectories.time_step import StepType, TimeStep  # noqa: F401

NAME = "tf_agents"

Convert = Callable[[Any], Any]


def to_spec(spec: SpecTree, path: str = "spec") -> Any:
    """Converts a core spec to a TF-Agents one, with the same nesting and an `OrderedDict` for each dict.

    Args:
        spec: The core spec.
        path: The spec's path, for errors.

    Returns:
        An `ArraySpec` or `BoundedArraySpec`, or a nested structure of them.

    Raises:
        LossyConversion: TF-Agents has no such spec; the message names the leaf.
    """
    return stated_spec(spec, spec, path)


def stated_spec(spec: SpecTree, stated: SpecTree, path: str) -> Any:
    """Converts `stated` to a TF-Agents spec that remembers the core spec `spec`, which has the same structure."""
    if isinstance(spec, Spec):
        return _make_spec(array_form(stated, path, NAME), spec, path)
    if isinstance(spec, dict):
        try:
            sorted(spec)
        except TypeError as error:
            hint = "TensorFlow sorts them, so use strings alone"
            raise LossyConversion(path, "keys", str(list(spec)), NAME, hint) from error
    parts = zip(children(spec), children(stated), strict=True)
    return rebuild(ordered(spec), [stated_spec(sub, leaf, path + part) for (part, _, sub), (_, _, leaf) in parts])


def _make_spec(form: ArrayForm, spec: Spec, path: str) -> Any:
    if form.dtype.kind == "c" or form.dtype.itemsize > 8:
        hint = "split it into real and imaginary parts" if form.dtype.kind == "c" else "use float64"
        raise LossyConversion(path, "dtype", str(form.dtype), NAME, hint)
    name = None if form.name is None else tensor_name(form.name)
    # TF-Agents refuses bounds for bool.
    if not form.is_bounded or form.dtype.kind == "b":
        return remembering(ArraySpec, (form.shape, form.dtype, name), spec)
    low, high = form.bounds
    if is_uniform(low) and is_uniform(high):  # TF-Agents' own specs broadcast both bounds or none
        low, high = low.flat[0], high.flat[0]
    return remembering(BoundedArraySpec, (form.shape, form.dtype, low, high, name), spec)


def tensor_name(name: str) -> str:
    """Returns a name with `_` in place of each character that TensorFlow does not allow in names of tensors."""
    result = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
    return result if re.match(r"[A-Za-z0-9.]|$", result) else f".{result}"


def from_spec(spec: Any, path: str = "spec", action: bool = False) -> SpecTree:
    """Converts a TF-Agents spec to a core one.

    Args:
        spec: An `ArraySpec`, or a nested structure of them.
        path: The spec's path, for errors.
        action: True if it describes actions; bounded integer scalars then become `Discrete`.

    Returns:
        The core spec; the original one if `spec` came from `to_spec`.

    Raises:
        LossyConversion: A leaf is not an `ArraySpec` of numbers.
    """
    if isinstance(spec, (dict, list, tuple)):
        return rebuild(_plain(spec), [from_spec(sub, path + part, action) for part, _, sub in children(spec)])
    if not isinstance(spec, ArraySpec):
        raise LossyConversion(path, "type", f"a {type(spec).__name__}", "the core", "use an ArraySpec")
    known = origin(spec)
    if known is not None:
        return known
    read = _read(spec, path)
    return default_discrete(read) if action else read


def _plain(branch: Any) -> Any:
    """Returns a plain dict, list or (named) tuple, because TensorFlow wraps some containers in proxies."""
    if isinstance(branch, dict):
        return dict(branch)
    kind = branch.__class__
    if hasattr(kind, "_fields"):
        return kind(*branch)
    return list(branch) if isinstance(branch, list) else tuple(branch)


def _read(spec: ArraySpec, path: str) -> Array:
    """Reads a spec from its fields, and not from the core spec that it may remember."""
    shape, dtype = tuple(spec.shape), np.dtype(spec.dtype)
    if not isinstance(spec, BoundedArraySpec):
        return read_form(ArrayForm(shape, dtype, None, None, spec.name), path)
    low, high = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (spec.minimum, spec.maximum))
    if dtype.kind == "f":
        # TF-Agents represents an infinite bound by the greatest finite number.
        info = np.finfo(dtype)
        low = np.where(low == info.min, dtype.type(-np.inf), low)
        high = np.where(high == info.max, dtype.type(np.inf), high)
    return read_form(ArrayForm(shape, dtype, low, high, spec.name), path)


# Rewards and discounts: agents compute with float32.


def number_spec(spec: SpecTree, what: str, exact: bool) -> SpecTree:
    """Returns the spec of rewards or discounts as TF-Agents' agents receive them: in float32."""
    # The bounds include reward 0 and discount 1 of a first step, and discount 0 of a termination.
    most = 0 if what == "reward" else 1

    def stated(leaf: Spec) -> Spec:
        form = array_form(leaf, what, NAME)
        if form.dtype.kind == "c":
            return leaf
        dtype = form.dtype if exact else np.dtype(np.float32)
        with np.errstate(over="ignore"):  # a bound beyond float32's range becomes infinite
            kind = dtype if dtype.kind == "f" else np.dtype(object)  # integer dtypes have no infinity
            low = None if form.low is None else np.minimum(form.low, 0).astype(kind)
            high = None if form.high is None else np.maximum(form.high, most).astype(kind)
        return Array(form.shape, dtype, low, high, form.name)

    return map_leaves(stated, spec)


def from_number_spec(spec: Any, path: str) -> SpecTree:
    """Converts the TF-Agents spec of rewards or discounts to a core one."""

    def read(leaf: Any) -> SpecTree:
        known: Any = origin(leaf)
        return from_spec(leaf, path) if known is None or known.dtype.kind == leaf.dtype.kind else _read(leaf, path)

    return map_leaves(read, spec)


def losses(env: Env, exact: bool = False) -> list[Loss]:
    """Lists the parts of a single-agent environment that TF-Agents cannot express.

    Args:
        env: The core environment.
        exact: True if rewards and discounts keep their dtypes.
    """
    numbers = {"reward": env.reward_spec, "discount": env.discount_spec}
    specs = {"observation": env.observation_spec, "action": env.action_spec, **numbers}
    found = losses_in(specs, to_spec)
    refused = {loss.path for loss in found}
    for path, leaf in (pair for what, spec in numbers.items() if not exact for pair in leaves(spec, what)):
        if path not in refused and not np.can_cast(leaf.dtype, np.float32):
            found.append(Loss(path, "precision", str(leaf.dtype), NAME, False, "agents compute with float32"))
    return found


# Values.


def ordered(spec: SpecTree) -> Any:
    """Returns a nested structure with an `OrderedDict` for each of its dicts, at any depth."""
    if isinstance(spec, dict):
        return OrderedDict((key, ordered(sub)) for key, sub in spec.items())
    return rebuild(spec, [ordered(sub) for _, _, sub in children(spec)]) if isinstance(spec, (list, tuple)) else spec


def array_encoder(spec: SpecTree, fresh: bool = False) -> Convert | None:
    """Returns a function that makes `OrderedDict`s of dicts and 0-d arrays of scalars; None if a spec has neither."""
    if isinstance(spec, Discrete):
        kind = spec.dtype
        return lambda value: np.array(index(value), kind)  # `index` refuses what is not an integer
    if isinstance(spec, Spec):
        dtype: Any = getattr(spec, "dtype", None)
        if getattr(spec, "shape", None) != ():
            return None
        return lambda value: np.asarray(value, None if isinstance(value, (np.ndarray, np.generic)) else dtype)
    parts = [(key, array_encoder(sub, fresh)) for _, key, sub in children(spec)]
    if len(parts) > 1 and isinstance(spec, dict) and not any(part for _, part in parts):
        keys, take = tuple(spec), itemgetter(*spec)
        return lambda value: OrderedDict(zip(keys, take(value), strict=True))
    if isinstance(spec, dict):
        return lambda value: OrderedDict([(key, part(value[key]) if part else value[key]) for key, part in parts])
    return branch_encoder(spec, parts, fresh)


def number_encoder(spec: SpecTree) -> Convert:
    """Returns a function that converts a reward or discount to new arrays of the dtypes of `spec`."""
    if isinstance(spec, Spec):
        dtype: Any = getattr(spec, "dtype", None)
        return lambda value: np.array(value, dtype)
    branch = ordered(spec)
    return lambda value: map_leaves(lambda leaf, number: np.array(number, leaf.dtype), branch, value)


def constant(spec: SpecTree, number: float, lanes: tuple[int, ...] = ()) -> Callable[[], Any]:
    """Returns a function without arguments that returns a constant reward or discount in shared, read-only arrays."""

    def make(leaf: Any) -> Any:
        array = np.full(lanes + leaf.shape, number, leaf.dtype)
        array.flags.writeable = False
        return array

    made = map_leaves(make, ordered(spec))
    return (lambda: made) if isinstance(made, np.ndarray) else (lambda: map_leaves(lambda leaf: leaf, made))


def lanes_of(spec: SpecTree, n: int | None) -> SpecTree:
    """Returns the spec of n lanes' values, unbounded arrays of shape (n, …); `spec` itself for None."""
    return spec if n is None else map_leaves(lambda leaf: Array((n, *leaf.shape), leaf.dtype), spec)


def filled(values: Any, lanes: Any, number: float) -> Any:
    """Copies a batch's rewards or discounts, and sets some lanes to `number`."""

    def fill(leaf: Any) -> Any:
        result = np.array(leaf)
        result[lanes] = number
        return result

    return map_leaves(fill, values)


def zero_lanes(discount: Any, n: int) -> Any:
    """Returns the mask of lanes whose discount is 0 in every element: shape (n,), bool."""
    zero = np.ones(n, bool)
    for _, leaf in leaves(discount):
        zero &= ~np.any(leaf, axis=tuple(range(1, np.ndim(leaf))))
    return zero
