"""Episodes that can be played again exactly: all that comes from outside follows from the number of the call.

Before each call the process-wide generators of `random` and `numpy.random` are set to a state that follows from the
number of that call. So an environment that draws from them gives equal traces, whatever else draws from them, unless
they are what is being checked.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from envoi import Discrete, sample
from envoi.protocol.multi_env import MASK
from envoi.spec import SpecTree

from .drivers.core import Beat, Hand

Policy = Literal["random", "same"]
Between = Callable[[Hand], None]


class Noise(NamedTuple):
    """What the process-wide generators are set to before a call, besides its number."""

    numpy: int = 0
    python: int = 0


@contextmanager
def generators_kept() -> Iterator[None]:
    """The process-wide generators are afterwards as they were before."""
    held, words = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(held)
        np.random.set_state(words)  # noqa: NPY002


@dataclass(frozen=True)
class Moment:
    """One call: when it was, what was given, what came.

    Attributes:
        episode: Counted from 1.
        step: Counted from 1; 0 for the reset.
        actions: What was given, the very objects.
        given: What was given, as copies from before the call.
        beat: What came, the very objects.
        kept: What came, as copies that nobody changes.
    """

    episode: int
    step: int
    actions: Mapping[Any, Any]
    given: Mapping[Any, Any]
    beat: Beat
    kept: Beat

    @property
    def where(self) -> str:
        """When this was, for a sentence."""
        end = ", its last" if self.step and self.beat.over else ""
        when = f"step {self.step}" if self.step else "the reset"
        return f"{when} of episode {self.episode}{end}"


class Player:
    """Plays a hand, episode after episode.

    Args:
        hand: The environment, played by its own API.
        seed: Given to the first reset; the later resets are plain.
        policy: `"random"`, or `"same"` for one action over and over.
        start: What the sampled actions follow from.
        noise: What the process-wide generators follow from.
        between: Called before each step.
    """

    def __init__(
        self,
        hand: Hand,
        seed: int | None,
        policy: Policy = "random",
        start: int = 0,
        noise: Noise = Noise(),  # noqa: B008 (a tuple)
        between: Between | None = None,
    ) -> None:
        self.hand, self.seed, self.policy, self.start, self.noise = hand, seed, policy, start, noise
        self.between = between
        self.calls = self.episode = self.step = 0
        self.beat: Beat | None = None
        self.given: Mapping[Any, Any] = {}
        self._rng = np.random.default_rng(start)

    def advance(self, limit: int) -> Moment:
        """The next call: a step, or a reset where an episode is over or `limit` steps long."""
        self.calls += 1
        self.set_generators()
        if self.beat is None or self.beat.over or self.step >= limit:
            self.episode, self.step, self.given, before = self.episode + 1, 0, {}, {}
            self.beat = self.hand.begin(self.seed if self.episode == 1 else None)
        else:
            if self.between is not None:
                self.between(self.hand)
                self.set_generators()
            self.step += 1
            self.given = self._actions(self.beat)
            before = {agent: copied(value) for agent, value in self.given.items()}
            self.beat = self.hand.act(dict(self.given))
        return Moment(self.episode, self.step, self.given, before, self.beat, kept(self.beat))

    def play(self, episodes: int, limit: int) -> list[Moment]:
        """So many episodes, each until its end or `limit` steps, from wherever it stands."""
        moments: list[Moment] = []
        while not (self.episode >= episodes and self.beat is not None and (self.beat.over or self.step >= limit)):
            moments.append(self.advance(limit))
        return moments

    def on(self, hand: Hand) -> Player:
        """The same player at the same moment, of another hand."""
        other = copy.copy(self)
        other.hand, other._rng = hand, copy.deepcopy(self._rng)
        return other

    def set_generators(self) -> None:
        """Sets the process-wide generators as they are to be in the last call."""
        random.seed(self.noise.python * 1_000_003 + self.calls)
        np.random.seed((self.noise.numpy * 1_000_003 + self.calls) % 2**32)  # noqa: NPY002

    def _actions(self, beat: Beat) -> dict[Any, Any]:
        rng = self._rng if self.policy == "random" else np.random.default_rng(self.start)
        hand = self.hand
        return {
            agent: hand.native(agent, action(hand.action_specs[agent], hand.mask(agent, beat), rng))
            for agent in beat.acting
        }


def action(spec: SpecTree, mask: Any, rng: np.random.Generator) -> Any:
    """A random action that the mask allows, where there is one."""
    if mask is not None and isinstance(spec, Discrete):
        legal = np.flatnonzero(np.asarray(mask).ravel()[: spec.n])
        if legal.size:
            return spec.dtype.type(spec.start + int(legal[int(rng.integers(legal.size))]))
    return sample(spec, rng)


def kept(beat: Beat) -> Beat:
    """A copy of what was said, that later steps cannot change."""
    names = ("observations", "infos", "rewards", "terminated", "truncated", "discounts")
    return Beat(
        **{name: {agent: copied(value) for agent, value in getattr(beat, name).items()} for name in names},
        agents=tuple(beat.agents),
        acting=tuple(beat.acting),
        begun=beat.begun,
    )


_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)
"""What cannot change."""


def copied(value: Any) -> Any:
    """A deep copy; of what cannot be copied, the thing itself."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    if isinstance(value, _PLAIN) or (type(value) is dict and all(isinstance(part, _PLAIN) for part in value.values())):
        return dict(value) if isinstance(value, dict) else value
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


# Differences, as sentences.


def difference(one: Sequence[Moment], two: Sequence[Moment], hand: Hand, infos: bool = False) -> str | None:
    """The first thing in which two traces differ, or None.

    Args:
        one: What should be.
        two: What is.
        hand: Names the agents.
        infos: Compare the infos, and nothing else.
    """
    for a, b in zip(one, two, strict=False):
        said = _beats(a.kept, b.kept, hand, infos)
        if said is not None:
            return f"{said} ({b.where})"
        if (a.episode, a.step) != (b.episode, b.step):
            return f"{a.where} against {b.where}"
    if len(one) != len(two):
        return f"{len(one)} calls against {len(two)}"
    return None


def _beats(one: Beat, two: Beat, hand: Hand, infos: bool) -> str | None:
    if infos:
        return _mappings("info", one.infos, two.infos, hand)
    for name in ("agents", "acting"):
        a, b = getattr(one, name), getattr(two, name)
        if a != b:
            if hand.kind == "one":
                return "the episode ends in one and goes on in the other"
            return f"{name}: {list(a)} against {list(b)}"
    parts = (
        ("observation", "observations"),
        ("reward", "rewards"),
        ("terminated", "terminated"),
        ("truncated", "truncated"),
        ("discount", "discounts"),
    )
    for what, name in parts:
        said = _mappings(what, getattr(one, name), getattr(two, name), hand)
        if said is not None:
            return said
    # A mask is an info on which the actions depend.
    return _mappings("action mask", _masks(one), _masks(two), hand)


def _masks(beat: Beat) -> dict[Any, Any]:
    return {a: info[MASK] for a, info in beat.infos.items() if isinstance(info, Mapping) and MASK in info}


def _mappings(what: str, one: Mapping[Any, Any], two: Mapping[Any, Any], hand: Hand) -> str | None:
    if one.keys() != two.keys():
        return f"{what}: for {list(one)} against {list(two)}"
    for agent in one:
        said = values_differ(one[agent], two[agent], hand.label(what, agent))
        if said is not None:
            return said
    return None


def values_differ(one: Any, two: Any, path: str = "", tolerance: float = 0.0) -> str | None:
    """Where two values differ and how, or None. Numbers compare by value, arrays also by dtype and shape.

    Args:
        one: A value of any structure.
        two: Another.
        path: How to call it.
        tolerance: How much numbers may differ, relative to their size; then dtypes may too.
    """
    if one is two:
        return None
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        if one.keys() != two.keys():
            return f"{path}: keys {list(one)} against {list(two)}"
        parts = ((f"{path}[{key!r}]", one[key], two[key]) for key in one)
    elif isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        if len(one) != len(two):
            return f"{path}: {len(one)} elements against {len(two)}"
        parts = ((f"{path}[{index}]", a, b) for index, (a, b) in enumerate(zip(one, two, strict=True)))
    elif _is_number(one) and _is_number(two):
        return _arrays_differ(one, two, path, tolerance)
    elif isinstance(one, (str, bytes, type(None))) or isinstance(two, (str, bytes, type(None))):
        return None if type(one) is type(two) and one == two else f"{path}: {_short(one)} against {_short(two)}"
    else:
        # Objects of anybody's making: only their kinds can be told apart.
        return None if type(one) is type(two) else f"{path}: {_short(one)} against {_short(two)}"
    return next((said for where, a, b in parts if (said := values_differ(a, b, where, tolerance)) is not None), None)


def _is_number(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcSU"
    return isinstance(value, (bool, int, float, complex))


def _arrays_differ(one: Any, two: Any, path: str, tolerance: float) -> str | None:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and not tolerance and one.dtype != two.dtype:
        return f"{path}: dtype {one.dtype} against {two.dtype}"
    a, b = np.asarray(one), np.asarray(two)
    if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
        return None
    if a.shape != b.shape:
        return f"{path}: shape {a.shape} against {b.shape}"
    if a.dtype.kind in "SU" or b.dtype.kind in "SU":
        wrong = np.asarray(a != b)
    else:
        with np.errstate(all="ignore"):
            wrong = np.asarray((a != b) & ~((a != a) & (b != b)))  # nan
            if tolerance:
                wrong = wrong & ~np.asarray(np.isclose(a, b, rtol=tolerance, atol=tolerance))
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    index = "".join(f"[{int(i)}]" for i in at)
    return f"{path}{index}: {_short(a[at])} against {_short(b[at])}"


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, np.generic) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "…"
