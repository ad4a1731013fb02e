"""qgym's environments (InitialMapping, Routing, Scheduling, and others of its template), to here.

They are environments of gymnasium, and come in as such (`envoi.adapters.gymnasium`); what qgym adds is added here:

| qgym | core |
|---|---|
| `rewarder` | `rewarder`, a `QgymReward`, which can be called for any transition; settable, to one of either kind |
| `_state` | `state`, a copy |
| `rng`, and the generators that circuits and graphs are drawn from | `rng`, and `reset(seed=…)` seeds every one |
| a visualiser | `render_mode` |

What is lost: nothing. What differs on purpose: qgym's own `reset(seed)` leaves the generator of its problems alone, so
that equal seeds give different episodes. Here a seed fixes everything that the environment can reach; without one
nothing is touched.
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

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from qgym.templates import Rewarder as Source

from envoi import Rewarder, Snapshot, Step, Streams
from envoi.protocol.process import Info
from envoi.rewards.rewarder import FOREIGN_REWARDERS, RewardFunction, as_rewarder, asks_for_native_reward
from envoi.structural_equality import attributes

from ..shared.arrival import Copy
from .source import FromGymnasium

__all__ = ["FromQgym", "QgymReward"]


class QgymReward(Rewarder):
    """A rewarder of qgym as one of the core's: states are qgym's own, as `state` of a `FromQgym` gives them.

    Args:
        rewarder: qgym's rewarder.
    """

    def __init__(self, rewarder: Source) -> None:
        self.rewarder = rewarder

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        return self.rewarder.compute_reward(old_state=state, action=action, new_state=next_state)

    @property
    def reward_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        low, high = getattr(self.rewarder, "reward_range", Rewarder.reward_range)
        return float(low), float(high)


FOREIGN_REWARDERS[Source] = QgymReward


class _Replaced:
    """Takes a rewarder's place for one step whose reward the core computes: it gives 0 and computes nothing.

    Args:
        rewarder: The rewarder that it stands in for, which has all other attributes.
    """

    __slots__ = ("_rewarder",)

    def __init__(self, rewarder: Source) -> None:
        self._rewarder = rewarder

    def compute_reward(self, *args: Any, **kwargs: Any) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_rewarder"), name)


class FromQgym(FromGymnasium):
    """An environment of qgym as a core one.

    Args:
        source: The environment, with wrappers of gymnasium or without.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The environment.
    """

    _framework = "qgym"

    def __init__(self, source: gymnasium.Env[Any, Any], copy: Copy = "auto") -> None:
        super().__init__(source, copy)
        visualiser = self._native._visualiser
        if self.render_mode is None and visualiser is not None:  # which qgym never says itself
            self.render_mode = visualiser.render_data.render_mode
        # The reward as somebody above the environment changes it is not what its rewarder computes.
        self._is_plain = all(type(layer).step in _KEEP_REWARDS for layer in _wrappers(source))
        self.reward_spec = self._native_rewarder().spec
        self._replaces = False  # is a rewarder set that does not need the source's?
        self._rewarders_set = 0

    @property
    def _native(self) -> Any:
        return self.source.unwrapped

    def _native_rewarder(self) -> Rewarder:
        return QgymReward(self._native.rewarder) if self._is_plain else super()._native_rewarder()

    @property
    def rewarder(self) -> Rewarder:
        """What computes the reward; settable, to a `Rewarder`, a function, or a rewarder of qgym.

        One of qgym is given to the source, which then computes with it, unless a wrapper changes the source's rewards.
        Set on the source itself it counts too, but `reward_spec` follows only what is set here. While another one is
        set, the source keeps its own and does not call it.
        """
        return super().rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction | Source) -> None:
        given = as_rewarder(rewarder)
        if isinstance(given, QgymReward) and self._is_plain:
            self._give(given)
        FromGymnasium.rewarder.__set__(self, given)
        # What a wrapper makes of the source's reward may be in infos too.
        self._replaces = self._is_plain and self._rewarder is not None and not asks_for_native_reward(given)
        self._rewarders_set += 1

    def _give(self, given: QgymReward) -> None:
        native = self._native
        if hasattr(given.rewarder, "reward_range"):
            native.rewarder = given.rewarder
        else:  # qgym's own setter asks for it
            native._rewarder, native.reward_range = given.rewarder, given.reward_range

    def _seed_source(self, seed: int) -> None:
        _seed(self._generators(), seed)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, Info]:
        observation, info = super()._begin(seed, options)
        return observation, deepcopy(info)

    def step(self, action: Any) -> Step:
        step = self._step_unrewarded(action) if self._replaces else super().step(action)
        return step._replace(info=deepcopy(step.info))  # it holds parts of the state, which the next step changes

    def _step_unrewarded(self, action: Any) -> Step:
        """Makes a step in which the source's own rewarder is not called."""
        native = self._native
        held = native._rewarder
        native._rewarder = _Replaced(held)
        try:
            return super().step(action)
        finally:
            native._rewarder = held

    def _source_state(self) -> Any:
        """Returns a copy of qgym's state."""
        return deepcopy(self._native._state)

    @property
    def rng(self) -> np.random.Generator:
        """The source's generator, which by default its problems are drawn from; settable.

        A new one takes its place wherever it was shared; all other generators of the source follow from it.
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
        """Where the source keeps its generators, those included that it makes when first asked."""
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
        if rewarders_set != self._rewarders_set:  # what was set since remains set, as in every environment
            native._rewarder, native.reward_range = rewarder, reward_range

    @contextmanager
    def _without_visualiser(self) -> Iterator[None]:
        """A window cannot be copied, and is none of the future."""
        native = self._native
        visualiser, native._visualiser = native._visualiser, None
        try:
            yield
        finally:
            native._visualiser = visualiser


_KEEP_REWARDS = {
    kind.step
    for kind in (
        gymnasium.Wrapper,
        gymnasium.ObservationWrapper,
        gymnasium.ActionWrapper,
        OrderEnforcing,
        PassiveEnvChecker,
        TimeLimit,
    )
}
"""The steps of wrappers that hand the reward on as it is."""


def _wrappers(source: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    while isinstance(source, gymnasium.Wrapper):
        yield source
        source = source.env


# The generators of a source: its own, its state's, those of the circuits and graphs, of its spaces, of its rewarder.


class _Place(NamedTuple):
    """An attribute, or an entry of a dict or list, that holds a generator."""

    path: str
    generator: Any
    put: Callable[[Any], None]


def _places(root: Any) -> Iterator[_Place]:
    """Every place that holds a generator, from the nearest on; of what an object cannot be asked for, none."""
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
    """Seeds each generator, in place, for it may be shared.

    Each is seeded by where it is, so that one which is only made later changes nothing for the others.
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
