"""The base of TF-Agents' importers: declared specs, seeds and snapshots, through all wrappers of a source."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from envoi import Array, SnapshotUnsupported
from envoi.spec import SpecTree
from envoi.tree import map_leaves

from ..shared.arrival import Copy, incoming
from ..shared.introspection import Content, layers
from ..shared.source_seeding import SeedsSource
from .specs import NAME, PyEnvironment, from_number_spec, from_spec


class FromTFSource(SeedsSource):
    """Base of TF-Agents' importers, of one lane or many: finds what a source declares through all its wrappers."""

    _framework = NAME
    _planned = ("_form", "_incoming", "_take_reward", "_take_discount", "_encode")
    _layer = PyEnvironment
    _most_seeds = 2**31

    _has_info: bool = True

    def _describe(self) -> None:
        self.observation_spec = from_spec(self.source.observation_spec(), "observation_spec")
        self.action_spec = from_spec(self.source.action_spec(), "action_spec", action=True)
        if self.form_inside is self.source:
            self.reward_spec, self.discount_spec = self.source.core.reward_spec, self.source.core.discount_spec
        else:
            self.reward_spec = self._declared_reward()
            self.discount_spec = from_number_spec(self._declared("discount")[1], "discount_spec")
        self.metadata, self.render_mode = self._pictures()

    def _declared_reward(self) -> SpecTree:
        layer, spec = self._declared("reward")
        read = from_number_spec(spec, "reward_spec")
        if layer is self.source:
            return read
        # A wrapper may change rewards, by adding up several for example, so their bounds may not hold.
        return map_leaves(lambda leaf: Array(leaf.shape, leaf.dtype, name=leaf.name), read)

    def _declared(self, what: str) -> tuple[Any, Any]:
        """Returns the outermost layer that declares a spec of its own, and the spec.

        TF-Agents' wrappers do not pass it on.

        Args:
            what: `"reward"` or `"discount"`.
        """
        own = f"{what}_spec"
        for layer in self._parts():
            kind = type(layer)
            if getattr(kind, own) is not getattr(PyEnvironment, own):
                spec = getattr(layer, own)()  # None in some bandits, which means the default one
                return layer, getattr(layer.time_step_spec(), what) if spec is None else spec
            if kind.time_step_spec is not PyEnvironment.time_step_spec:
                return layer, getattr(layer.time_step_spec(), what)
        return self.source, getattr(self.source, own)()

    def _pictures(self) -> tuple[dict[str, Any], str | None]:
        """Returns the metadata and the render mode."""
        form: Any = self.form_inside
        if form is not None:
            return deepcopy(form.metadata), form.render_mode
        if type(self.unwrapped).render is PyEnvironment.render:
            return {"render_modes": []}, None
        return {"render_modes": ["rgb_array"]}, "rgb_array"

    @property
    def unwrapped(self) -> Any:
        return layers(self.source, PyEnvironment)[-1]

    def _source_info(self) -> Any:
        """Returns the source's info; None if it has none."""
        if not self._has_info:
            return None
        try:
            return self.source.get_info()
        except NotImplementedError:
            self._has_info = False
            return None

    @property
    def _has_seed_method(self) -> bool:
        return type(self.unwrapped).seed is not PyEnvironment.seed

    def _call_seed_method(self, seed: Any) -> bool:
        try:
            self.source.seed(seed)
        except NotImplementedError:
            return False
        return True

    def _parts(self) -> list[Any]:
        return layers(self.source, PyEnvironment)

    def _hold_source(self) -> Any:
        """Returns a copy of all attributes of the source, or the result of its `get_state` if they cannot be copied.

        Raises:
            SnapshotUnsupported: The source can neither be copied nor has `get_state`.
        """
        try:
            return super()._hold_source()
        except SnapshotUnsupported:
            if len(self._parts()) > 1:  # wrappers of TF-Agents leave their own state out of `get_state`
                raise
            try:
                return deepcopy(self.source.get_state())
            except NotImplementedError:
                pass
            raise

    def _put_back_source(self, content: Any) -> None:
        if isinstance(content, Content):
            super()._put_back_source(content)
        else:
            self.source.set_state(deepcopy(content))  # a copy, because the source may write into it

    def render(self) -> Any:
        return None if self.render_mode is None else self.source.render(self.render_mode)


def number_reader(spec: SpecTree, copy: Copy) -> Callable[[Any], Any]:
    """Returns a function that converts rewards or discounts of a source for the core.

    Scalars become numpy scalars, which cannot be changed in place.

    Args:
        spec: The spec of the rewards or discounts.
        copy: Which arrays to copy, see `from_tf_agents`.
    """
    take = incoming(spec, copy)
    if not (isinstance(spec, Array) and spec.shape == ()):
        return take
    dtype = spec.dtype

    def read(value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype == dtype and value.shape == ():
            return value[()]
        value = take(value)
        return value[()] if type(value) is np.ndarray and value.shape == () else value

    return read
