"""Contexts of imported environments: the features of a source, and the way to apply a context to it.

The catalogues are modules of `envoi.adapters.context_catalogue`, one for each family of environments. They are found
by the module of a source's class, so that no framework is imported.

Names follow CARL (Benjamins et al., 2023, https://github.com/automl/CARL) where it has the environment. Defaults are
the source's own values at the first use, so the default context is the environment as it was loaded.
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
from envoi.protocol.process import Snapshot
from envoi.spec import SpecTree, spec_equal

from .imported import ImportedEnv

_CATALOGUES = {
    "gymnasium.envs.classic_control.": "classic_control",
    "gymnasium.envs.box2d.": "box2d",
    "gymnasium.envs.mujoco.": "mujoco",
    "dm_control.": "dm_control",
}
"""The catalogue with the features of a source, by the prefix of the module of its class."""

Bounds = tuple[Any, Any]
"""Lowest and highest observation, arrays of the observation's shape."""


@dataclass(frozen=True)
class Bindable:
    """The features of an environment, and the functions that apply a context to it.

    It is copied and pickled together with its source, so `apply` and `bounds` are methods or `functools.partial`s,
    never closures, which in a copy would still refer to the original's source.

    Attributes:
        space: The features; their defaults are the source's own values.
        apply: Applies a full context to the source, whichever context it had before. It is called right before a reset
            of the source, and after a copy or a restore in the middle of an episode; then with the context of that
            episode, and it must not change the state.
        bounds: The bounds of the observation under all contexts between two full ones, `bounds(least, most)`; a smaller
            range of contexts never has wider bounds. None if no feature affects them.
        ordered: Pairs of features, of which the first must not exceed the second.
    """

    space: ContextSpace
    apply: Callable[[Mapping[str, Any]], None]
    bounds: Callable[[Mapping[str, Any], Mapping[str, Any]], Bounds] | None = None
    ordered: tuple[tuple[str, str], ...] = ()


def bindable(source: Any) -> Bindable | None:
    """Returns the features of a source, or None if no catalogue has it."""
    native = getattr(source, "unwrapped", source)
    for kind in type(native).__mro__:
        for prefix, catalogue in _CATALOGUES.items():
            if kind.__module__.startswith(prefix):
                return import_module(f"envoi.adapters.context_catalogue.{catalogue}").bindable(source)
    return None


class TakesContext(ImportedEnv):
    """An importer whose source may take contexts, with the protocol of `envoi.Model.context`.

    Until a context is set, the source is not changed, and steps cost nothing more.

    Observations always lie in `observation_spec`, and a spec never changes, because forms and wrappers have read it.
    If a feature affects the bounds of the observation (a faster car, a wider track), wider bounds must therefore be
    declared in advance: `spec_under(contexts)` returns a spec that holds under these contexts, and permits them from
    then on. `Contextual(env, contexts)` calls it. A context that would need wider bounds than declared is refused.
    """

    _context: dict[str, Any] | None = None  # of the coming episodes; None if never set
    _in_force: dict[str, Any] | None = None  # the context that the source has; the same object as `_context` was then
    _bound: tuple[Any, Bindable | None] | None = None  # a source, and its features
    _declared: Bounds | None = None
    # Full contexts of the last `spec_under`.
    _permitted: Mapping[tuple[Any, ...], dict[str, Any]] = MappingProxyType({})

    @property
    def context_space(self) -> ContextSpace | None:
        """The features that a context may set, with defaults and bounds, or None if no catalogue lists the source."""
        return None if self._bindable is None else self._bindable.space

    @property
    def context(self) -> dict[str, Any]:
        """The full context of the coming episodes; settable, with defaults for features that are left out."""
        if self._context is not None:
            return dict(self._context)
        return {} if self._bindable is None else self._bindable.space.defaults

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        known = self._known(context)
        full = self._full(context) if known is None else known
        if full != (self.context if self._context is None else self._context):  # without a copy
            if known is None:
                self._check_declared(full)
            self._context = full

    @property
    def given_context(self) -> Mapping[str, Any]:
        """The full context that was set, or an empty one if none was set."""
        return self._context or {}

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        """Returns an observation spec for the given contexts, all between them, the current one and the default.

        It is `observation_spec` itself if no bound widens. From then on these contexts, full or partial, may be set:
        the caller is expected to use the returned spec. Raises a ContextError if bounds would widen and wrappers of the
        source change its observations.
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
        self._permitted = {(*context, *context.values()): held for context, held in zip(given, full, strict=True)}
        return spec

    def _known(self, context: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the full context if the last `spec_under` has checked it, or None."""
        try:
            return self._permitted.get((*context, *context.values()))
        except TypeError:  # its values are not hashable
            return None

    def _widened(self, spec: SpecTree, plain: Bounds, wide: Bounds) -> Array:
        if not (isinstance(spec, Array) and spec_equal(spec, Array(spec.shape, spec.dtype, *plain, spec.name))):
            raise ContextError(
                f"context: some of these widen the bounds of the observations of {self.unwrapped}, which the wrappers"
                " of the source change; wrap it in envoi's wrappers instead"
            )
        self._declared = wide if self._declared is None else _union([wide, self._declared])
        return Array(spec.shape, spec.dtype, *wide, spec.name)

    @property
    def _bindable(self) -> Bindable | None:
        if self._bound is None or self._bound[0] is not self.source:
            self._bound = self.source, bindable(self.unwrapped)
            self._in_force, self._permitted = None, {}  # a factory has replaced the source
        return self._bound[1]

    def _full(self, context: Mapping[str, Any]) -> dict[str, Any]:
        binding = self._bindable
        if binding is None:
            if context:
                raise ContextError(
                    f"context[{next(iter(context))!r}]: the features of {self.unwrapped} are in no catalogue; "
                    "define how to set them by Contextual(env, contexts, bind=…)"
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
        """Applies the context to the source, before a reset of it."""
        binding = self._bindable
        if binding is not None and self._context is not None and self._context is not self._in_force:
            binding.apply(self._context)
            self._in_force = self._context

    @property
    def is_unchanged(self) -> bool:
        return self._context is None and super().is_unchanged

    def snapshot(self) -> Snapshot:
        held = super().snapshot()
        return Snapshot(held.owner, (held.content, (self._context, self._in_force)))

    def restore(self, snapshot: Snapshot) -> None:
        content, contexts = self._content(snapshot)
        if contexts[1] is not None:
            _ = self._bindable  # reads the source's own values before the snapshot replaces them by another context's
        super().restore(Snapshot(snapshot.owner, content))
        self._restore_contexts(*contexts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._restore_contexts(self._context, self._in_force)  # copies of some sources lose the context

    def _restore_contexts(self, context: dict[str, Any] | None, in_force: dict[str, Any] | None) -> None:
        touched = self._in_force is not None or in_force is not None
        binding = self._bindable if touched else None
        self._context, self._in_force = context, in_force
        if binding is not None:
            binding.apply(binding.space.defaults if self._in_force is None else self._in_force)


def _number(value: Any, feature: Feature) -> Any:
    """Returns a value as a Python number, because a float32 would make the source's arithmetic less precise."""
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
