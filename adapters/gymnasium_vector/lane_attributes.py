"""Attributes, methods and images of the lanes of a batch, for forms of many lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from envoi import Env, Lanes, SpecError

from ..gymnasium import to_gymnasium
from ..shared.reached_attributes import inside, is_own


class LaneAttributes:
    """Reads, sets and calls attributes of lanes: of a wrapper, a model, or the source.

    Args:
        core: The batch.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self._lanes: list[_LaneForm] = []

    def holder(self, name: str) -> Any:
        """Finds the holder of an attribute of the lanes.

        Args:
            name: The attribute.

        Returns:
            A list of gymnasium environments, one per lane; a vector environment that calls each of its lanes; or a
            single object that all lanes share.

        Raises:
            AttributeError: There is no such attribute.
        """
        around, native = inside(self._core)
        for layer in (*around, *native):
            if isinstance(layer, Lanes):
                if [form.core for form in self._lanes] != list(layer.envs):
                    self._lanes = [_LaneForm(env) for env in layer.envs]
                return [form.env for form in self._lanes]
            if _asks_lanes(layer) or _asks_some_lanes(layer):
                return layer
            if (layer in native or is_own(name)) and hasattr(layer, name):
                return layer
        found = [layer for layer in around if not name.startswith("_") and hasattr(layer, name)]
        if not found:
            raise AttributeError(f"{self._core!r}: no lane has an attribute {name!r}")
        return found[0]

    def get(self, name: str, lanes: Sequence[int]) -> list[Any]:
        """Reads an attribute.

        Args:
            name: The attribute.
            lanes: The indices of the lanes.

        Returns:
            One value for each of the lanes.

        Raises:
            AttributeError: There is no such attribute.
        """
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
        """Calls a method, or reads an attribute that is not a method.

        Args:
            name: The method. If all lanes share one model, it is called once.
            lanes: The indices of the lanes.
            *args: Arguments for the method.
            **kwargs: Arguments for the method.

        Returns:
            One result for each of the lanes.

        Raises:
            AttributeError: There is no such attribute.
            SpecError: These are some lanes of a vector environment that calls it in all.
        """
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
        """Sets an attribute where it is.

        Args:
            name: The attribute.
            values: One value for each of the lanes.
            lanes: The indices of the lanes.

        Raises:
            AttributeError: There is no such attribute, and no lane that could get one.
            SpecError: The values differ, or are of some lanes alone, and all lanes share the holder.
        """
        holder = self.holder(name)
        if isinstance(holder, list) or _asks_some_lanes(holder):
            for lane, value in zip(lanes, values, strict=True):
                if isinstance(holder, list):
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

    def _check_all(self, name: str, lanes: Sequence[int], holder: Any) -> None:
        if len({*lanes}) < self._core.batch_size:
            raise SpecError(f"{name}: expected all lanes, which share {holder!r}, got only {[*lanes]}")

    def are_wrapped(self, kind: type, lanes: Sequence[int]) -> list[bool]:
        """Returns for each of the lanes whether a wrapper, or anything else inside, is an instance of a class.

        Args:
            kind: The class.
            lanes: The indices of the lanes.
        """
        layers = [layer for part in inside(self._core) for layer in part]
        native = next((layer for layer in layers if _asks_some_lanes(layer)), None)
        if native is not None:
            return native.env_is_wrapped(kind, lanes)
        each: Any = next((layer.envs for layer in layers if isinstance(layer, Lanes)), None)
        if any(isinstance(layer, kind) for layer in layers) or each is None:
            return [any(isinstance(layer, kind) for layer in layers)] * len(lanes)
        return [any(isinstance(layer, kind) for part in inside(each[lane]) for layer in part) for lane in lanes]


def pictures(core: Any) -> tuple[Any, ...] | None:
    """Renders each lane of a batch in its `render_mode`; returns a tuple of n images, or None."""
    rendered = core.render()
    if isinstance(rendered, np.ndarray) and rendered.ndim == 3:  # one of all lanes together
        return (rendered,) * core.batch_size
    return None if rendered is None else tuple(rendered)


def _asks_lanes(layer: Any) -> bool:
    return isinstance(layer, VectorEnv) and hasattr(layer, "call")


def _asks_some_lanes(layer: Any) -> bool:
    """Returns True for a `VecEnv` of Stable-Baselines3."""
    return callable(getattr(type(layer), "env_method", None)) and hasattr(type(layer), "env_is_wrapped")


class _LaneForm:
    """A lane of a loop, and the gymnasium environment that answers for its attributes."""

    def __init__(self, core: Env) -> None:
        self.core, self.env = core, to_gymnasium(core)
