"""Contexts of imported environments: which features a source has, and how a context is put in force on it.

The catalogues are modules of `envoi.adapters.context_catalogue`, one for each family of environments, and are found by
where the class of a source was written, so that no framework is imported to look:

| environments | catalogue |
|---|---|
| gymnasium's classic control | `classic_control` |
| gymnasium's Box2D | `box2d` |
| gymnasium's MuJoCo | `mujoco` |
| dm_control | `dm_control` |

Names follow CARL (Benjamins et al., 2023, https://github.com/automl/CARL) where it has the environment. Defaults are
what the source itself has when it is first asked, so the default context is the environment as it was loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from envoi import Array, ContextError, ContextSpace, UniformInteger
from envoi.context import Feature
from envoi.spec import SpecTree

_CATALOGUES = {
    "gymnasium.envs.classic_control.": "classic_control",
    "gymnasium.envs.box2d.": "box2d",
    "gymnasium.envs.mujoco.": "mujoco",
    "dm_control.": "dm_control",
}
"""Where the class of a source was written, and which module knows its features."""

Bounds = tuple[Any, Any]
"""Lowest and highest observation, arrays of the observation's shape."""


@dataclass(frozen=True)
class Bindable:
    """What contexts an environment can take, and how.

    It is copied and pickled together with its source, so `apply` and `bounds` are methods or `functools.partial`s,
    never closures, which would go on pointing at the source of the original.

    Attributes:
        space: The features; their defaults are what the source has by itself.
        apply: Puts a full context in force on the source, whatever was in force before. It is called right before a
            reset of the source, but also in the middle of an episode, after a copy or a restore: then with what was
            in force at that time, and it must leave the state alone.
        bounds: The bounds of the observation under every context between two full ones, `bounds(least, most)`: those
            within are never wider. None if no feature moves them.
        ordered: Pairs of features, of which the first must not exceed the second.
    """

    space: ContextSpace
    apply: Callable[[Mapping[str, Any]], None]
    bounds: Callable[[Mapping[str, Any], Mapping[str, Any]], Bounds] | None = None
    ordered: tuple[tuple[str, str], ...] = ()


def bindable(source: Any) -> Bindable | None:
    """What contexts a source can take, or None if no catalogue has it.

    Args:
        source: An environment of gymnasium or dm_control, wrappers and all, as it was made.
    """
    native = getattr(source, "unwrapped", source)
    for kind in type(native).__mro__:
        for prefix, catalogue in _CATALOGUES.items():
            if kind.__module__.startswith(prefix):
                return import_module(f"envoi.adapters.context_catalogue.{catalogue}").bindable(source)
    return None


class TakesContext:
    """The contexts of an importer: the same protocol as a model's, see `envoi.Model.context`.

    An importer whose context was never set pays nothing for this: its source stays as it was.

    Observations lie in `observation_spec`, always, and a spec never changes: forms and wrappers have read it. So where
    a feature moves the bounds of the observation (a faster car, a wider track), wider ones must be declared before:
    `spec_under(contexts)` says what holds under these contexts, and lets them be set from then on, for who asked has
    declared it. `Contextual(env, contexts)` does so by itself. A context that was not declared is refused.
    """

    source: Any
    unwrapped: Any
    observation_spec: SpecTree

    _context: dict[str, Any] | None = None  # of the coming episodes; None: never set
    _in_force: dict[str, Any] | None = None  # on the source, the very object that `_context` then was
    _bound: tuple[Any, Bindable | None] | None = None  # a source, and what it can take
    _declared: Bounds | None = None
    _asked: Mapping[tuple[Any, ...], dict[str, Any]] = MappingProxyType({})  # full contexts that it was asked of last

    @property
    def context_space(self) -> ContextSpace | None:
        """The features that a context may set, with defaults and bounds; None where no catalogue has the source."""
        return None if self._bindable is None else self._bindable.space

    @property
    def context(self) -> dict[str, Any]:
        """The context of the coming episodes, defaults filled in; settable, and what is left out is the default.

        Raises:
            ContextError: On setting a feature that the source does not have, a value out of its bounds, or one under
                which an observation could lie outside of what was declared.
        """
        if self._context is not None:
            return dict(self._context)
        return {} if self._bindable is None else self._bindable.space.defaults

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        known = self._asked_of(context)
        full = self._full(context) if known is None else known
        if full != self.context:
            if known is None:
                self._check_declared(full)
            self._context = full

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        """A spec of observations that holds under these contexts and all between, the present one and the default.

        From then on these contexts may be set: who asked is taken to use the answer.

        Args:
            contexts: Contexts, full or partial. For those that are yet to be drawn, the ends of what they are drawn
                from.

        Returns:
            `observation_spec` itself where no bound moves outwards.

        Raises:
            ContextError: One is not a context of this source; or moves bounds, while wrappers of the source make
                something else of its observations.
        """
        given = list(contexts)
        full = [self._full(context) for context in given]
        binding, spec = self._bindable, self.observation_spec
        if binding is None or binding.bounds is None:
            return spec
        plain, present = _at(binding, binding.space.defaults), _at(binding, self.context)
        least, most = ({n: end(c[n] for c in full) for n in binding.space.features if full} for end in (min, max))
        wide = _union([plain, present, binding.bounds(least, most)] if full else [plain, present])
        if not _within(wide, plain):
            spec = self._widened(spec, plain, wide)
        self._asked = {(*context, *context.values()): held for context, held in zip(given, full, strict=True)}
        return spec

    def _asked_of(self, context: Mapping[str, Any]) -> dict[str, Any] | None:
        """The full context, where it was asked about this one, and need not look again."""
        try:
            return self._asked.get((*context, *context.values()))
        except TypeError:  # of values that cannot be hashed
            return None

    def _widened(self, spec: SpecTree, plain: Bounds, wide: Bounds) -> Array:
        if not (isinstance(spec, Array) and _is(spec, plain)):
            raise ContextError(
                f"context: some of these move the bounds of the observations of {self.unwrapped}, of which the wrappers"
                " of the source make something else; wrap it in envoi's wrappers instead"
            )
        self._declared = wide if self._declared is None else _union([wide, self._declared])
        return Array(spec.shape, spec.dtype, *wide, spec.name)

    @property
    def _bindable(self) -> Bindable | None:
        if self._bound is None or self._bound[0] is not self.source:
            self._bound = self.source, bindable(self.unwrapped)
            self._in_force, self._asked = None, {}  # a factory has made the source anew
        return self._bound[1]

    def _full(self, context: Mapping[str, Any]) -> dict[str, Any]:
        binding = self._bindable
        if binding is None:
            if context:
                raise ContextError(
                    f"context[{next(iter(context))!r}]: the features of {self.unwrapped} are in no catalogue; "
                    "say how to set them by Contextual(env, contexts, bind=…)"
                )
            return {}
        full = binding.space.insert_defaults(context)
        for low, high in binding.ordered:
            if full[low] > full[high]:
                raise ContextError(f"context[{low!r}]: expected at most {high} ({full[high]:g}), got {full[low]:g}")
        return {name: _number(value, binding.space.features[name]) for name, value in full.items()}

    def _check_declared(self, context: dict[str, Any]) -> None:
        binding = self._bindable
        if binding is None or binding.bounds is None:
            return
        defaults, bounds = binding.space.defaults, _at(binding, context)
        if not _within(bounds, _at(binding, defaults) if self._declared is None else self._declared):
            changed = [n for n in context if context[n] != defaults[n]]
            moves = (n for n in changed if not _within(bounds, _at(binding, {**context, n: defaults[n]})))
            name = next(moves, changed[0])
            raise ContextError(
                f"context[{name!r}]: with {context[name]!r} an observation could lie outside of observation_spec; "
                "bring the contexts by Contextual(env, contexts=…), which declares wider bounds, or use what "
                "env.spec_under([context]) returns"
            )

    def _take_context(self) -> None:
        """Puts the context in force, before a reset of the source."""
        binding = self._bindable
        if binding is not None and self._context is not None and self._context is not self._in_force:
            binding.apply(self._context)
            self._in_force = self._context

    def _keep_context(self) -> None:
        """Puts what was in force there again, on a source that may have come plain out of a copy."""
        self._contexts_held = self._contexts_held

    def _expect_contexts(self, held: tuple[dict[str, Any] | None, dict[str, Any] | None]) -> None:
        """Looks what the source has by itself, before a snapshot puts another context's values there."""
        if held[1] is not None:
            _ = self._bindable

    @property
    def _contexts_held(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """For snapshots; settable."""
        return self._context, self._in_force

    @_contexts_held.setter
    def _contexts_held(self, held: tuple[dict[str, Any] | None, dict[str, Any] | None]) -> None:
        touched = self._in_force is not None or held[1] is not None
        binding = self._bindable if touched else None
        self._context, self._in_force = held
        if binding is not None:
            binding.apply(binding.space.defaults if self._in_force is None else self._in_force)


def _number(value: Any, feature: Feature) -> Any:
    """A value as the source's own are: Python's, for a float32 would make its arithmetic less precise."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(feature, UniformInteger):
        return int(value)
    return float(value) if type(feature.default_value) is float and type(value) is int else value


def _at(binding: Bindable, context: Mapping[str, Any]) -> Bounds:
    assert binding.bounds is not None
    return binding.bounds(context, context)


def _union(bounds: list[Bounds]) -> Bounds:
    lows, highs = zip(*bounds, strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _within(inner: Bounds, outer: Bounds) -> bool:
    return bool(np.all(inner[0] >= outer[0]) and np.all(inner[1] <= outer[1]))


def _is(spec: Array, bounds: Bounds) -> bool:
    if spec.low is None or spec.high is None:
        return False
    low, high = (np.asarray(bound, spec.dtype) for bound in bounds)
    return np.array_equal(spec.low, low) and np.array_equal(spec.high, high)
