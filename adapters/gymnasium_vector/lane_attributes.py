"""Attributes, methods and images of the lanes of a batch, for forms of many lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from envoi import ContextError, Contextual, Lanes, SpecError

from ..gymnasium import to_gymnasium
from ..shared.exported import inside, is_own


class LaneAttributes:
    """Reads, sets and calls attributes of lanes: of a wrapper, a model, or the source."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._lanes: list[Any] = []
        self._forms: list[Any] = []  # of the lanes of a loop; they answer for attributes

    def holder(self, name: str) -> Any:
        """Finds the object that has an attribute; for a loop over lanes, returns their forms."""
        around, native = inside(self._core)
        for layer in (*around, *native):
            if isinstance(layer, Lanes):
                if self._lanes != list(layer.envs):
                    self._lanes, self._forms = list(layer.envs), [to_gymnasium(env) for env in layer.envs]
                return self._forms
            if _asks_lanes(layer) or _asks_some_lanes(layer):
                return layer
            if (layer in native or is_own(name)) and hasattr(layer, name):
                return layer
        found = [layer for layer in around if not name.startswith("_") and hasattr(layer, name)]
        if not found:
            raise AttributeError(f"{self._core!r}: no lane has an attribute {name!r}")
        return found[0]

    def get(self, name: str, lanes: Sequence[int]) -> list[Any]:
        """Reads an attribute."""
        if (each := self._contexts(name)) is not None:
            return [each[lane] for lane in lanes]
        holder = self.holder(name)
        if isinstance(holder, list):
            return [holder[lane].get_wrapper_attr(name) for lane in lanes]
        if _asks_some_lanes(holder):
            return holder.get_attr(name, lanes)
        if _asks_lanes(holder):
            each = holder.get_attr(name)
            return [each[lane] for lane in lanes]
        return [getattr(holder, name)] * len(lanes)

    def call(self, name: str, lanes: Sequence[int], *args: Any, **kwargs: Any) -> list[Any]:
        """Calls a method, or reads an attribute that is not a method."""
        if (each := self._contexts(name)) is not None:
            return [each[lane] for lane in lanes]
        holder = self.holder(name)
        if _asks_some_lanes(holder):
            return holder.env_method(name, *args, indices=lanes, **kwargs)
        if _asks_lanes(holder):
            self._check_all(name, lanes, holder)
            each = holder.call(name, *args, **kwargs)
            return [each[lane] for lane in lanes]
        shared = not isinstance(holder, list)
        found = [getattr(holder, name)] if shared else [holder[lane].get_wrapper_attr(name) for lane in lanes]
        results = [one(*args, **kwargs) if callable(one) else one for one in found]
        return results * len(lanes) if shared else results

    def set(self, name: str, values: Sequence[Any], lanes: Sequence[int]) -> None:
        """Sets an attribute on the object that has it."""
        if name == "context" and hasattr(self._core, "context"):
            self._put_contexts(values, lanes)
            return
        if name == "context":
            self._check_takes_contexts()
        holder = self.holder(name)
        if isinstance(holder, list) or _asks_some_lanes(holder):
            for lane, value in zip(lanes, values, strict=True):
                if isinstance(holder, list) and not holder[lane].has_wrapper_attr(name):
                    setattr(self._lanes[lane].unwrapped, name, value)
                elif isinstance(holder, list):
                    holder[lane].set_wrapper_attr(name, value)
                else:
                    holder.set_attr(name, value, lane)
        elif _asks_lanes(holder):
            new = dict(zip(lanes, values, strict=True))
            old = () if len(new) == self._core.batch_size else holder.get_attr(name)
            holder.set_attr(name, [new[i] if i in new else old[i] for i in range(self._core.batch_size)])
        elif all(np.array_equal(value, values[0]) for value in values):
            self._check_all(name, lanes, holder)
            setattr(holder, name, values[0])
        else:
            raise SpecError(f"{name}: expected one value for all lanes, which share {holder!r}, got {[*values]}")

    def _contexts(self, name: str) -> Sequence[Any] | None:
        """Returns each lane's context or context id if the batch has contexts. Returns None for other attributes."""
        if name not in ("context", "context_id", "context_key"):
            return None
        if self._contextual is not None:
            return getattr(self._contextual, name)
        columns = getattr(self._core, name, None)
        if name != "context" or not isinstance(columns, Mapping) or isinstance(inside(self._core)[1][0], Lanes):
            return None
        n = self._core.batch_size
        return [{key: value[lane] if np.ndim(value) else value for key, value in columns.items()} for lane in range(n)]

    @property
    def _contextual(self) -> Contextual | None:
        """The outermost wrapper of the batch that chooses contexts."""
        around, native = inside(self._core)
        return next((layer for layer in (*around, *native) if isinstance(layer, Contextual)), None)

    def _put_contexts(self, values: Sequence[Any], lanes: Sequence[int]) -> None:
        core, contextual = self._core, self._contextual
        for value in values:
            if not isinstance(value, Mapping):
                raise ContextError(f"context: expected a mapping of features to values, got {value!r}")
        space: Any = getattr(core, "context_space", None)
        fill: Any = dict if space is None else space.insert_defaults
        full = [*map(fill if contextual is None else contextual.fill_context_with_default, values)]
        for names in dict.fromkeys(tuple(one) for one in full):
            chosen = [index for index, one in enumerate(full) if tuple(one) == names]
            columns = {name: [full[index][name] for index in chosen] for name in names}
            core.put_context(columns, [lanes[index] for index in chosen])

    def _check_takes_contexts(self) -> None:
        """Raises an error if neither the core nor the lanes of its source take contexts."""
        try:
            holder: Any = self.holder("context")
            holder.get_attr("context")
        except AttributeError:
            raise ContextError(
                f"context: {self._core!r} takes no contexts; make a batch of a Contextual(env, contexts, bind=…), "
                "which says how a context reaches it"
            ) from None

    def _check_all(self, name: str, lanes: Sequence[int], holder: Any) -> None:
        if len({*lanes}) < self._core.batch_size:
            raise SpecError(f"{name}: expected all lanes, which share {holder!r}, got only {[*lanes]}")

    def are_wrapped(self, kind: type, lanes: Sequence[int]) -> list[bool]:
        """Checks each of the lanes for a wrapper, or another layer inside, that is an instance of a class."""
        layers = [layer for part in inside(self._core) for layer in part]
        native = next((layer for layer in layers if _asks_some_lanes(layer)), None)
        if native is not None:
            return native.env_is_wrapped(kind, lanes)
        loop = next((layer for layer in layers if isinstance(layer, Lanes)), None)
        if loop is None or any(isinstance(layer, kind) for layer in layers):
            return [any(isinstance(layer, kind) for layer in layers)] * len(lanes)
        return loop.ask(partial(_is_wrapped, kind=kind), lanes)  # workers are sent a name


def _is_wrapped(env: Any, kind: type) -> bool:
    return any(isinstance(layer, kind) for part in inside(env) for layer in part)


def pictures(core: Any) -> tuple[Any, ...] | None:
    """Renders each lane of a batch in its `render_mode`; returns a tuple of n images, or None."""
    rendered = core.render()
    if isinstance(rendered, np.ndarray) and rendered.ndim == 3:  # one of all lanes together
        return (rendered,) * core.batch_size
    return None if rendered is None else tuple(rendered)


def _asks_lanes(layer: Any) -> bool:
    return isinstance(layer, VectorEnv) and hasattr(layer, "call")


def _asks_some_lanes(layer: Any) -> bool:
    """Returns True for a Stable-Baselines3 `VecEnv`, whose methods take the indices of lanes."""
    return callable(getattr(type(layer), "env_method", None)) and hasattr(type(layer), "env_is_wrapped")
