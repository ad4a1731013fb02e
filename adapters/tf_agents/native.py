"""What an environment of TF-Agents says of itself, through all its wrappers, and how it is seeded and put back."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any
from warnings import warn

import numpy as np

from envoi import Array, SnapshotUnsupported
from envoi.spec import SpecTree
from envoi.tree import map_leaves

from ..shared.arrival import Copy, incoming
from ..shared.introspection import Content, Generators, layers
from ..shared.loss import UnseededWarning
from .form import ToTFAgents
from .specs import PyEnvironment, from_number_spec


class Source:
    """What an environment of TF-Agents says of itself, and how it is seeded, copied and put back.

    Args:
        env: The environment, wrappers and all.
        hook: Seeds it, given an integer.

    Attributes:
        native: What lies under all wrappers.
        form: The same where it is one of ours, else None.
    """

    def __init__(self, env: PyEnvironment, hook: Callable[[Any], Any] | None) -> None:
        self.env, self._hook = env, hook
        self._layers = layers(env, PyEnvironment)
        self.native = self._layers[-1]
        self.form: Any = self.native if isinstance(self.native, ToTFAgents) else None
        self._warned = False
        self._has_info = True

    # Specs and pictures.

    def reward_spec(self) -> SpecTree:
        """What rewards are."""
        if self.form is self.env:
            return self.form.core.reward_spec
        layer, spec = self._declared("reward")
        read = from_number_spec(spec, "reward_spec")
        if layer is self.env:
            return read
        # A wrapper may have changed them, by adding up several, say.
        return map_leaves(lambda leaf: Array(leaf.shape, leaf.dtype, name=leaf.name), read)

    def discount_spec(self) -> SpecTree:
        """What discounts are."""
        if self.form is self.env:
            return self.form.core.discount_spec
        return from_number_spec(self._declared("discount")[1], "discount_spec")

    def _declared(self, what: str) -> tuple[Any, Any]:
        """The outermost layer that declares a spec of its own, and the spec: TF-Agents' wrappers do not pass it on."""
        own = f"{what}_spec"
        for layer in self._layers:
            kind = type(layer)
            if getattr(kind, own) is not getattr(PyEnvironment, own):
                spec = getattr(layer, own)()  # bandits may have none, which means the usual one
                return layer, getattr(layer.time_step_spec(), what) if spec is None else spec
            if kind.time_step_spec is not PyEnvironment.time_step_spec:
                return layer, getattr(layer.time_step_spec(), what)
        return self.env, getattr(self.env, own)()

    def pictures(self) -> tuple[dict[str, Any], str | None]:
        """The metadata and the render mode."""
        if self.form is not None:
            return deepcopy(self.form.metadata), self.form.render_mode
        if type(self.native).render is PyEnvironment.render:
            return {"render_modes": []}, None
        return {"render_modes": ["rgb_array"]}, "rgb_array"

    def info(self) -> Any:
        """What the environment says besides; None where it says nothing."""
        if not self._has_info:
            return None
        try:
            return self.env.get_info()
        except NotImplementedError:
            self._has_info = False
            return None

    # Seeds and generators.

    def _generators(self) -> Generators:
        return Generators(self.env, PyEnvironment)

    @property
    def is_unseeded(self) -> bool:
        """Whether there is no known way to seed it."""
        return not (self._hook or type(self.native).seed is not PyEnvironment.seed or self._generators())

    def seed(self, seed: Any) -> None:
        """Seeds the environment, or warns once."""
        if self._hook is not None:
            self._hook(seed)
            return
        try:
            self.env.seed(seed)
        except NotImplementedError:
            if generators := self._generators():
                generators.seed(seed)
            elif not self._warned:
                self._warned = True
                message = f"seed: nothing is known that seeds {self.env}"
                warn(f"{message}; pass from_tf_agents(env, seed=function of an integer)", UnseededWarning, stacklevel=3)

    def rng(self) -> np.random.Generator | None:
        """Its generator, where it has one; a `RandomState` is none."""
        if self.form is not None:
            return self.form.core.rng
        return self._generators().first()

    def replace_rng(self, generator: np.random.Generator) -> None:
        """Makes everything random follow from a generator."""
        if self.form is not None:
            self.form.core.rng = generator
        elif self._hook is None and (generators := self._generators()):
            generators.replace(generator)
        else:
            self.seed(int(deepcopy(generator).integers(2**31)))

    # Snapshots.

    def hold(self) -> Any:
        """All that it holds, or where that cannot be copied, its own token.

        Raises:
            SnapshotUnsupported: It can neither be copied nor says its state.
        """
        try:
            return Content(self._layers)
        except SnapshotUnsupported:
            if len(self._layers) > 1:  # TF-Agents' wrappers leave what they hold themselves out of the token
                raise
            try:
                return deepcopy(self.env.get_state())
            except NotImplementedError:
                pass
            raise

    def put_back(self, held: Any) -> None:
        """Makes it hold that again."""
        if isinstance(held, Content):
            held.put_back(self._layers)
        else:
            self.env.set_state(deepcopy(held))  # which may go on writing into it


def number_reader(spec: SpecTree, copy: Copy) -> Callable[[Any], Any]:
    """What makes a reward or discount one of the core: scalars come as numpy numbers, which nobody can change."""
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
