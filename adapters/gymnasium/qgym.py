"""Imports environments of qgym (InitialMapping, Routing, Scheduling, and others of its template).

They are environments of gymnasium and are imported as such (`envoi.adapters.gymnasium`), with qgym's additions:

| qgym | core |
|---|---|
| `rewarder` | `rewarder`, a `QgymReward`, which can be called for any transition; settable, to one of either kind |
| `_state` | `state`, a copy |
| `rng`, and the generators that sample circuits and graphs | `rng`, and `reset(seed=…)` seeds each of them |
| a visualiser | `render_mode` |

What is lost: nothing. One difference is intended: qgym's own `reset(seed)` does not seed the generator of its problems,
so that equal seeds give different episodes. Here a seed applies to all generators that the environment can reach, and
without a seed none is changed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from operator import setitem
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from gymnasium import ActionWrapper, Env, ObservationWrapper, Wrapper
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from qgym.templates import Rewarder as Source

from envoi import Rewarder, Snapshot, Step, Streams
from envoi.protocol.process import Info
from envoi.rewards.rewarder import FOREIGN_REWARDERS, RewardFunction, as_rewarder
from envoi.structural_equality import attributes

from ..shared.arrival import Copy
from .source import FromGymnasium, layers_and_spaces

__all__ = ["FromQgym", "QgymReward"]


class QgymReward(Rewarder):
    """A qgym rewarder as a core rewarder; its states are qgym's own (`FromQgym.state`)."""

    def __init__(self, rewarder: Source) -> None:
        self.rewarder = rewarder

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        return self.rewarder.compute_reward(old_state=state, action=action, new_state=next_state)

    @property
    def reward_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        low, high = getattr(self.rewarder, "reward_range", Rewarder.reward_range)
        return float(low), float(high)


FOREIGN_REWARDERS[Source] = QgymReward


class FromQgym(FromGymnasium):
    """A qgym environment as a core environment."""

    _framework = "qgym"

    def __init__(self, source: Env[Any, Any], copy: Copy = "auto") -> None:
        super().__init__(source, copy)
        visualiser = self._native._visualiser
        if self.render_mode is None and visualiser is not None:  # qgym does not set `render_mode` itself
            self.render_mode = visualiser.render_data.render_mode
        # If a wrapper changes the reward, it is not what the rewarder computes.
        self._is_plain = all(type(layer).step in _KEEP_REWARDS for layer in layers_and_spaces(source)[:-1])
        self.reward_spec = self._native_rewarder().spec
        self._rewarders_set = 0

    @property
    def _native(self) -> Any:
        return self.source.unwrapped

    def _native_rewarder(self) -> Rewarder:
        return QgymReward(self._native.rewarder) if self._is_plain else super()._native_rewarder()

    @property
    def rewarder(self) -> Rewarder:
        """The rewarder. Set it to a `Rewarder`, a function or a qgym rewarder.

        A qgym rewarder is set on the source, which then computes the rewards, unless a wrapper changes them. Setting it
        on the source directly works too, but does not change `reward_spec`. While a rewarder of another kind is set,
        the source keeps its own.
        """
        return super().rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction | Source) -> None:
        given = as_rewarder(rewarder)
        if isinstance(given, QgymReward) and self._is_plain:
            self._give(given)
        FromGymnasium.rewarder.__set__(self, given)
        self._rewarders_set += 1

    def _give(self, given: QgymReward) -> None:
        native = self._native
        if hasattr(given.rewarder, "reward_range"):
            native.rewarder = given.rewarder
        else:  # qgym's own setter requires `reward_range`
            native._rewarder, native.reward_range = given.rewarder, given.reward_range

    def seed_source(self, seed: int) -> None:
        _seed(self._generators(), seed)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        observation, info = super()._begin(seed, options)
        return observation, deepcopy(info)

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        step = super().step(action, restart, hold)
        return step._replace(info=deepcopy(step.info))  # it shares parts of the state, which the next step changes

    def _source_state(self) -> Any:
        """Returns a copy of qgym's state."""
        return deepcopy(self._native._state)

    @property
    def rng(self) -> np.random.Generator:
        """The source's random generator, which samples its problems by default; settable.

        A new generator replaces it wherever it is shared, and seeds all other generators of the source.
        """
        return self._native.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        old, places = self._native.rng, self._generators()
        for place in places:
            if place.generator is old:
                place.put(generator)
        words = deepcopy(generator).integers(2**32, size=4, dtype=np.uint32)
        _seed([place for place in places if place.generator is not old], words.tolist())
        self._streams = Streams.from_generator(generator)

    def _generators(self) -> list[_Place]:
        """Finds all attributes and entries of the source that hold generators, including those made on first access."""
        native = self._native
        _ = native.rng, native._state.rng
        return list(_places(native))

    def snapshot(self) -> Snapshot:
        with self._without_visualiser():
            held = super().snapshot()
        return Snapshot(held.owner, (held, self._rewarders_set))

    def restore(self, snapshot: Snapshot) -> None:
        held, rewarders_set = self._content(snapshot)
        native = self._native
        rewarder, reward_range = native._rewarder, getattr(native, "reward_range", None)
        with self._without_visualiser():
            super().restore(held)
        if rewarders_set != self._rewarders_set:  # restoring does not undo a change of rewarder, as in all environments
            native._rewarder, native.reward_range = rewarder, reward_range

    @contextmanager
    def _without_visualiser(self) -> Iterator[None]:
        """Removes the visualiser temporarily, because a window cannot be copied and does not affect later steps."""
        native = self._native
        visualiser, native._visualiser = native._visualiser, None
        try:
            yield
        finally:
            native._visualiser = visualiser


_KEEP_REWARDS = {
    kind.step for kind in (Wrapper, ObservationWrapper, ActionWrapper, OrderEnforcing, PassiveEnvChecker, TimeLimit)
}
"""The `step` methods of wrappers that do not change the reward."""


# The generators of a source: its own, and those of its state, circuits, graphs, spaces and rewarder.


class _Place(NamedTuple):
    """An attribute, or an entry of a dict or list, whose value is a generator."""

    path: str
    generator: Any
    put: Callable[[Any], None]


def _places(root: Any) -> Iterator[_Place]:
    """Yields each place with a generator inside an object, breadth first."""
    seen, coming = {id(root)}, deque([("", root)])
    while coming:
        above, holder = coming.popleft()
        set_part = setitem if isinstance(holder, (dict, list)) else setattr
        for key, part in _members(holder):
            path = f"{above}/{key}"
            if isinstance(part, (np.random.Generator, np.random.RandomState, random.Random)):
                yield _Place(path, part, lambda new, put=set_part, holder=holder, key=key: put(holder, key, new))
            elif id(part) not in seen and not isinstance(part, (type, ModuleType, FunctionType, np.ndarray)):
                seen.add(id(part))
                coming.append((path, part))


def _members(holder: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, dict):
        yield from holder.items()
    elif isinstance(holder, (list, tuple)):
        yield from enumerate(holder)
    elif not isinstance(holder, (str, bytes, int, float)):
        yield from attributes(holder)


def _seed(places: list[_Place], entropy: int | list[int]) -> None:
    """Seeds each generator in place, because it may be shared.

    The seed of each also depends on its path, so that a generator which appears later does not affect the others.
    """
    known: set[int] = set()
    for path, generator, _ in places:
        if id(generator) in known:
            continue
        known.add(id(generator))
        child = np.random.SeedSequence(entropy, spawn_key=tuple(path.encode()))
        if isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = type(bits)(child).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(child.generate_state(8))
        else:
            generator.seed(int.from_bytes(child.generate_state(8).tobytes(), "little"))
