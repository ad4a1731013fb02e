"""The base class of curricula: statistics of episodes, random numbers, and saved state."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..context.binding import check_names
from ..context.features import LARGEST, Feature, is_number
from ..context.selectors import Episodes, Selector
from ..context.sets import Context, Contexts, contexts_of, same_contexts
from ..context.space import ContextSpace
from ..errors import ContextError, nearest


class Episode(NamedTuple):
    """A completed episode, made from a mapping that `tell` receives."""

    context_id: Any
    context: Context
    total: float  # the return
    length: float
    success: float | None
    score: float | None

    @property
    def sums(self) -> list[float]:
        """The summands for `statistics`: 1, return, length, success, and whether the success is known."""
        return [1, self.total, self.length, self.success or 0.0, self.success is not None]


_NUMBERS = {"return": True, "length": True, "success": False, "score": False}
"""The numeric columns of `tell`, and whether each episode must have a value."""


def read_episodes(given: Iterable[Mapping[str, Any]]) -> list[Episode]:
    """Checks the arguments of `tell`, and returns them as episodes."""
    if not isinstance(given, Episodes):
        rows = list(given)
        for row in rows:
            if not (isinstance(cast("Any", row), Mapping) and {"context_id", "return", "length"} <= row.keys()):
                raise ContextError(f"tell: expected the keys context_id, return and length, got {row!r}")
        columns = {name: [row.get(name) for row in rows] for name in ("context_id", *_NUMBERS)}
        given = Episodes(columns, lambda: [row.get("context", {}) for row in rows])
    columns = [_read_column(given, name, is_needed) for name, is_needed in _NUMBERS.items()]
    for key, success in zip(given.columns["context_id"], columns[2], strict=True):
        if not 0 <= (success or 0) <= 1:
            raise ContextError(f"tell: context {key!r}: success: expected a number from 0 to 1, got {success!r}")
    return list(map(Episode, given.columns["context_id"], given.contexts, *columns))


def _read_column(given: Episodes, name: str, is_needed: bool) -> Sequence[Any]:
    """Returns a column of finite numbers, with None for missing values that are not needed."""
    values = given.columns.get(name) or [None] * len(given)
    some = [value for value in values if value is not None]
    are_there = len(some) == len(values) or not is_needed
    if are_there and {*map(type, some)} <= {float, int} and all(-LARGEST <= value <= LARGEST for value in some):
        return values
    for index, value in enumerate(values):
        is_flag = name == "success" and isinstance(value, (bool, np.bool_))
        if not (is_number(value) or is_flag or (value is None and not is_needed)):
            key = given.columns["context_id"][index]
            raise ContextError(f"tell: context {key!r}: expected finite numbers, got {given[index]!r}")
    return [None if value is None else float(value) for value in values]


class Numbers:
    """Random numbers in [0, 1) with random access by index, so that a choice can be undone, repeated or resumed."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)
        self._generator, self._at = np.random.Generator(self._bits), 0

    def __call__(self, first: int, n: int) -> NDArray[np.float64]:
        """Returns n numbers, starting at an index."""
        if first != self._at:
            self._bits.advance((first - self._at) % 2**128)
        self._at = first + n
        return self._generator.random(n)


class Curriculum(Selector):
    """A selector that learns from the results of episodes.

    A subclass defines `weigh`, and `learn` if it needs more than `statistics`. `learned` lists the attributes that
    `learn` changes, for `state_dict`; `position` holds the state that choices change.

    Args:
        seed: The seed of its random numbers, an integer of at least 0.

    Attributes:
        seed: The seed.
        learned: The names of the attributes that episodes change.
    """

    learned: ClassVar[tuple[str, ...]] = ()
    by_position = True

    _instead_of_success: str = ""  # advice for the error if an episode has no success
    _makes_contexts: bool = False  # True if the curriculum makes `contexts` itself

    def __init__(self, *, seed: int = 0) -> None:
        check_number("seed", seed, 0, integer=True)
        self.seed = int(seed)
        self._numbers = Numbers(self.seed)
        self._begun: Contexts = {}
        self._space: ContextSpace | None = None  # the features that the environment declares
        self._reach: dict[str, Feature] = {}
        self._kept: NDArray[np.float64] | None = None  # cumulative weights, until weights change
        super().__init__()
        self.restart()

    # Contexts.

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        """Sets the available contexts. Keeps everything learned so far if the contexts are the same as before.

        Args:
            contexts: See `Selector.begin`.
            space: See `Selector.begin`.
        """
        contexts, position = contexts_of(contexts), self.position
        is_same = bool(self._begun) and same_contexts(contexts, self._begun)
        if not (is_same and self._makes_contexts):
            super().begin(contexts, space)
        self._begun, self._space = contexts, space
        self._fit()
        if is_same:
            self.position = position
        else:
            self.restart()

    def _fit(self) -> None:
        """Checks the arguments against the contexts and features of the environment."""

    def _fit_features(self, features: Iterable[Feature]) -> None:
        """Restricts distributions of features to the values that the environment allows."""
        contexts, features = self._begun, list(features)
        if len(contexts) > 1:
            raise ContextError(
                f"{type(self).__name__}: makes its own contexts, so it would never use {list(contexts)[:20]}; leave "
                "`contexts` out, and give what stays the same as the default context"
            )
        check_names((feature.name for feature in features), next(iter(contexts.values())), "feature")
        declared = self._space
        self._reach = {one.name: one for one in features} if declared is None else declared.distributions(features)

    @property
    def drawn_from(self) -> dict[str, Feature]:
        return self._reach

    def restart(self) -> None:
        """Forgets all episodes."""
        self._sums = [[0.0] * 5 for _ in self.contexts_keys]  # as `Episode.sums`
        self._kept = None

    # Episodes.

    def _check_begun(self) -> None:
        if not self._begun:
            raise ContextError(f"{type(self).__name__}: there are no contexts yet; call begin(contexts) first")

    def tell(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        self._check_begun()
        read = read_episodes(episodes)
        for episode in read:
            self._place_of(episode.context_id)
        for episode in self.check(read):
            place = self._place_of(episode.context_id)  # which an episode before may have changed
            if place >= 0:
                sums = self._sums[place]
                sums[0] += 1
                sums[1] += episode.total
                sums[2] += episode.length
                if episode.success is not None:
                    sums[3] += episode.success
                    sums[4] += 1
            if self.learn(episode, place):
                self._kept = None

    def check(self, episodes: list[Episode]) -> list[Episode]:
        """Checks all episodes of a `tell` before `learn` sees any of them. Returns the episodes to pass to `learn`."""
        for episode in episodes if self._instead_of_success else ():
            if episode.success is None:
                raise ContextError(
                    f"context {episode.context_id!r}: success: expected a number from 0 to 1, got None; let the "
                    f'environment give info["is_success"], give Contextual(success=…), or {self._instead_of_success}'
                )
        return episodes

    def _place_of(self, key: Any) -> int:
        """Returns the index of a context in `contexts_keys`, or -1 for a past or future context."""
        try:
            return self._place[key]
        except (KeyError, TypeError):
            raise ContextError(f"tell: {self._unknown(key)}") from None

    def learn(self, episode: Episode, place: int) -> bool:
        """Learns from an episode. Returns True if this may have changed the weights.

        Args:
            episode: The episode.
            place: The index of its context in `contexts_keys`.
        """
        return True

    @property
    def statistics(self) -> dict[str, NDArray[np.float64]]:
        """The number of `episodes`, and mean `return`, `length` and `success`, in the order of `contexts_keys`.

        A mean without values is NaN.
        """
        table = np.array(self._sums, np.float64).reshape(-1, 5).T
        episodes, known = table[0], table[4]
        columns = {"episodes": episodes.copy()}
        counts = {"return": episodes, "length": episodes, "success": known}
        for sums, (name, count) in zip(table[1:4], counts.items(), strict=True):
            columns[name] = np.divide(sums, count, out=np.full(len(sums), np.nan), where=count > 0)
        return columns

    # Choices.

    def weigh(self) -> NDArray[np.float64]:
        """Returns a weight for each context, proportional to its probability, in the order of `contexts_keys`."""
        return np.ones(len(self.contexts_keys))

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probability of each context for the next choice, in the order of `contexts_keys`."""
        return normalised(self.weigh())

    def choose(self, rng: np.random.Generator) -> Any:
        self._check_begun()
        return self.contexts_keys[int(self._take(1)[0])]

    def select_places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp] | None:
        chooses = next(kind for kind in type(self).__mro__ if "choose" in vars(kind))
        if self._makes_contexts or not self.contexts or "_take" not in vars(chooses):  # a user's own may differ
            return None
        places = self._take(n)
        self._advance(n, self.contexts_keys[places[-1]])
        return places

    def _take(self, n: int) -> NDArray[np.intp]:
        """Returns the indices of the next n contexts."""
        if self._kept is None:
            self._kept = self.weights.cumsum()
        return inverse(self._kept, self._numbers(self.position["n_calls"], n))

    # State.

    def _names(self) -> tuple[str, ...]:
        return ("seed", "position", "contexts", "contexts_keys", "_begun", "_sums", "_place", *self.learned)

    def state_dict(self) -> dict[str, Any]:
        """Returns a picklable copy of everything that determines future choices."""
        return {"kind": type(self).__name__, **copy.deepcopy({name: getattr(self, name) for name in self._names()})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`. You may call it before the environment calls `begin`.

        Raises:
            ContextError: The state belongs to another class, or to other contexts.
        """
        kind, names, begun, given = type(self).__name__, self._names(), self._begun, cast("Any", state)
        came = cast("Any", given).get("kind") if isinstance(given, Mapping) else type(given).__name__
        if came != kind or not all(name in state for name in names):
            raise ContextError(f"load_state_dict: expected what state_dict of a {kind} returns, got that of {came!r}")
        if begun and not same_contexts(begun, state["_begun"]):
            raise ContextError(
                f"load_state_dict: the state is of the contexts {list(state['_begun'])[:20]}, this curriculum has "
                f"{list(begun)[:20]}, or their values differ; give the environment the same contexts"
            )
        for name, value in copy.deepcopy({name: state[name] for name in names}).items():
            setattr(self, name, value)
        if begun and not self._makes_contexts:
            self.contexts = self._begun = begun  # the environment chooses faster from its own object
        self._numbers, self._kept = Numbers(self.seed), None

    def _arguments(self) -> dict[str, Any]:
        return {"seed": self.seed}


class Sampling(Curriculum):
    """Base class of curricula that sample feature values; other features have defaults. Ids are 0, 1, 2, …."""

    def features(self) -> list[Feature]:
        """Returns distributions that cover all values that `sample` can return."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> dict[str, Any]:
        """Samples values of the features."""
        raise NotImplementedError

    def _fit(self) -> None:
        self._fit_features(self.features())

    def _place_of(self, key: Any) -> int:
        return 0

    def select_places(self, rng: np.random.Generator, n: int) -> None:
        return None

    def choose(self, rng: np.random.Generator) -> Any:
        self._check_begun()
        return self.n_calls

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        number = self.choose(rng)
        values = self.sample(np.random.default_rng((self.seed, number)))
        return number, {**next(iter(self._begun.values())), **values}


class Custom(Curriculum):
    """Chooses contexts with weights that your function computes from `statistics`.

    Args:
        function: `(statistics) -> weights`: numbers of at least 0, not all 0, as an array in the order of
            `contexts_keys`, or as a mapping by id. Called after new episodes.
        seed: See `Curriculum`.
    """

    def __init__(self, function: Callable[[dict[str, NDArray[np.float64]]], Any], *, seed: int = 0) -> None:
        if not callable(cast("Any", function)):
            raise ContextError(f"Custom: expected a function (statistics) -> weights, got {function!r}")
        self.function = function
        super().__init__(seed=seed)

    def weigh(self) -> NDArray[np.float64]:
        given, keys = self.function(self.statistics), self.contexts_keys
        if isinstance(given, Mapping):
            by_id = cast("Mapping[Any, Any]", given)
            check_ids("Custom: weights", by_id, self.contexts)
            given = [by_id.get(key, 0.0) for key in keys]
        weights = np.asarray(given, np.float64)
        if weights.shape != (len(keys),) or not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
            raise ContextError(
                f"Custom: expected {len(keys)} weights, finite numbers of at least 0 and one above, got {given!r}"
            )
        return weights


class Handed(Selector):
    """Receives contexts from a curriculum in another process, and collects completed episodes for it.

    Use it when a framework runs environments in separate processes; see `envoi.adapters.sb3.CurriculumVecEnv`.
    """

    by_position = True

    def __init__(self) -> None:
        self._ended: list[Mapping[str, Any]] = []
        super().__init__()

    def exchange(self, coming: Iterable[tuple[Any, Context]]) -> list[Mapping[str, Any]]:
        """Queues contexts with their ids. Returns the episodes that have ended since the last call."""
        self.position = {**self.position, "coming": (*self.position.get("coming", ()), *coming)}
        ended, self._ended = self._ended, []
        return ended

    def tell(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        self._ended.extend(episodes)

    def choose(self, rng: np.random.Generator) -> Any:
        return self._next(rng)[0]

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        coming = self.position.get("coming")
        if not coming:
            raise ContextError(
                "Handed: no context was handed over; let a CurriculumVecEnv around the processes reset and step them"
            )
        self.position = {**self.position, "coming": coming[1:]}
        key, context = coming[0]
        return key, self.contexts.get(key, context)


# What several curricula use.


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scales weights to a sum of 1; returns equal weights if all are 0."""
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / max(len(weights), 1))


def inverse(cdf: NDArray[np.float64], numbers: Any) -> NDArray[np.intp]:
    """Returns the indices at which a cumulative distribution exceeds numbers in [0, 1)."""
    places = cast("NDArray[np.intp]", cdf.searchsorted(numbers * cdf[-1], "right"))
    if (places.max() if places.ndim else places) == len(cdf):  # by rounding; a weight of 0 is not chosen either
        places = np.minimum(places, int(np.count_nonzero(cdf < cdf[-1])))
    return places


def check_ids(what: str, ids: Iterable[Any], known: Contexts) -> None:
    """Checks that ids belong to contexts."""
    for key in ids:
        if key not in known:
            raise ContextError(f"{what}: there is no context {key!r}; {nearest(str(key), map(str, known))}")


def check_choice(what: str, value: Any, known: tuple[str, ...]) -> None:
    """Checks that an argument is one of the known words."""
    if value not in known:
        raise ContextError(f"{what}: expected one of {list(known)}, got {value!r}; {nearest(str(value), known)}")


def check_number(what: str, value: Any, low: float, high: float = math.inf, *, integer: bool = False) -> None:
    """Checks that an argument is a number, or an integer, from `low` to `high`."""
    if not is_number(value) or not low <= value <= high or (integer and value != int(value)):
        reach = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ContextError(f"{what}: expected {'an integer' if integer else 'a number'} {reach}, got {value!r}")
