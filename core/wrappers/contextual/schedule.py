"""The context of each coming episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ...batching.context_table import Coming, ContextTable, Places
from ...context import selectors
from ...context.binding import Binding
from ...context.features import Categorical, Feature, UniformInteger, is_number
from ...context.selectors import Random, RoundRobin, Sampled, Selector, Static
from ...context.sets import Context, Contexts, contexts_of, fill, load_contexts, same_contexts
from ...context.space import ContextSpace
from ...errors import ContextError, nearest
from ...lane_values import objects
from ...protocol.reset_options import CONTEXT, CONTEXT_ID
from ...spec.base import shown
from ...structural_equality import Structured
from ...tree import AnyList, AnyMapping, AnyTuple


class Chosen(NamedTuple):
    """The context of an episode: its id, its values, and whether values were given instead of an id."""

    key: Hashable
    context: Context
    is_given: bool = False


Indices: TypeAlias = NDArray[np.intp]
"""The indices of some lanes, in order."""


class SetTable(ContextTable):
    """The contexts of a set, in order, followed by other contexts that were in force.

    Attributes:
        by_id: The set.
        ids: The id of each row, an object array of at least `size` elements.
        given: The rows whose context was given by its values instead of an id.
        seen: A cache of the visible numbers of the first rows, see `View.vectors`; None if empty.
    """

    def __init__(self, contexts: Contexts) -> None:
        super().__init__(contexts.values())
        self.by_id, self.ids, self.given = contexts, objects(list(contexts)), set[int]()
        self.seen: NDArray[np.float64] | None = None
        self._places = {key: place for place, key in enumerate(contexts)}
        columns = {name: [one[name] for one in contexts.values()] for name in next(iter(contexts.values()))}
        self._differing = {n: c for n, c in columns.items() if not all(_is_same(c[0], value) for value in c)}

    def are_named(self, *places: Places) -> bool:
        """Returns True if all rows belong to the set."""
        return all(max(some.tolist()) < len(self.by_id) for some in places)

    def columns(self, before: Places, places: Places) -> dict[str, list[Any]]:
        """Returns the values of rows by feature; only of those that differ if these rows and those before are named."""
        if self.are_named(before, places):
            index = places.tolist()
            return {name: [column[place] for place in index] for name, column in self._differing.items()}
        rows = self.contexts(places)
        return {name: [row[name] for row in rows] for name in rows[0]}

    def place_of(self, chosen: Chosen) -> int:
        """Returns the row of a context. Adds the context first if it is not in the set."""
        place = self._places.get(chosen.key)
        if place is None or self.context(place) is not chosen.context:
            place = self.size
            self.add([chosen.context])
            self._name(objects([chosen.key]))
            if chosen.is_given:
                self.given.add(place)
        return place

    def add_named(self, under: Places, columns: Mapping[str, NDArray[Any]], ids: NDArray[Any]) -> Places:
        """Adds a block of rows (see `add_block`) and their ids. Returns the indices of the rows."""
        first = self.size
        self.add_block(under, columns)
        self._name(ids)
        return np.arange(first, self.size)

    def _name(self, ids: NDArray[Any]) -> None:
        """Sets the ids of the rows that were added last."""
        if self.size > len(self.ids):
            self.ids = np.concatenate((self.ids, np.empty(max(self.size, 64), object)))
        self.ids[self.size - len(ids) : self.size] = ids


def _is_same(value: Any, other: Any) -> bool:
    # Equal numbers may be written differently: 0.0 and -0.0, 1 and 1.0.
    return value is other or (np.array_equal(value, other) and repr(value) == repr(other))


# Noise.

_REACH = 8
"""The number of standard deviations at which noise is clipped; one value in 10¹⁵ lies beyond."""


class Noise:
    """Gaussian noise relative to the value, `value + N(0, (deviation · |value|)²)`, clipped to `limits` by feature."""

    def __init__(
        self, deviation: float, chosen: Sequence[str] | None, context: Context, features: Mapping[str, Feature]
    ) -> None:
        if not is_number(deviation) or not 0 <= deviation < np.inf:
            raise ContextError(f"gaussian_noise_std_percentage: expected a number of at least 0, got {deviation!r}")
        self._deviation = deviation
        numbers = [
            name
            for name, value in context.items()
            if np.asarray(value).dtype.kind in "iuf"
            and not isinstance(features.get(name), (Categorical, UniformInteger))
        ]
        for name in as_names(chosen or (), "noisy_features"):
            if name not in context:
                raise ContextError(f"noisy_features: no feature {name!r}; {nearest(name, context)}")
            if name not in numbers:
                raise ContextError(f"noisy_features: expected real numbers, and {name!r} is {context[name]!r}")
        self.names = [] if not deviation else numbers if chosen is None else list(chosen)
        self.is_flat = not any(np.ndim(context[name]) for name in self.names)  # of single numbers, no arrays
        self.limits: dict[str, tuple[Any, Any]] = {}

    def add(self, context: Context, rng: np.random.Generator) -> dict[str, Any]:
        """Returns the context of an episode: a copy with noise."""
        columns = self.columns([context], np.zeros(1, np.intp), rng)
        return {**context, **{n: c[0].item() if c.ndim == 1 else c[0] for n, c in columns.items()}}

    def columns(self, contexts: Sequence[Context], places: Places, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Returns noisy values of contexts by feature, with the random numbers that single calls of `add` take."""
        values = [np.array([context[name] for context in contexts], np.float64)[places] for name in self.names]
        ends = np.cumsum([0, *(math.prod(value.shape[1:]) for value in values)]).tolist()
        far = rng.standard_normal((len(places), ends[-1])).clip(-_REACH, _REACH) * self._deviation
        each = zip(self.names, values, ends, ends[1:], strict=False)
        return {n: self._within(n, v + far[:, i:j].reshape(v.shape) * np.abs(v)) for n, v, i, j in each}

    def ends(self, contexts: Iterable[Context]) -> list[dict[str, Any]]:
        """Returns contexts that bound all noisy versions of the given contexts, feature by feature."""
        found: list[dict[str, Any]] = []
        for end in (-_REACH, _REACH) if self.names else ():
            for context in contexts:
                values = {name: np.asarray(context[name], np.float64) for name in self.names}
                far = {n: self._within(n, v + end * self._deviation * np.abs(v)) for n, v in values.items()}
                found.append({**context, **{n: v if np.ndim(v) else float(v) for n, v in far.items()}})
        return found

    def _within(self, name: str, value: Any) -> Any:
        return np.clip(value, *self.limits[name]) if name in self.limits else value


# The schedule.

# Only these classes themselves: subclasses may behave differently.
_WITHOUT_NUMBERS = frozenset({RoundRobin, Static})  # they take no random numbers
_BY_POSITION = frozenset({RoundRobin, Static, Random, Sampled})  # choices replace `position`, and change nothing else

_MANY = 16
"""The number of lanes from which sampling columns is faster than sampling contexts one by one."""


class InForce(Structured, Mapping[str, Any]):
    """The contexts in force, as one table row per lane; immutable. As a mapping, it has the columns of infos.

    An environment without lanes counts as one.

    Attributes:
        masks: For `Infos.masks`: the lanes whose contexts were given by their values; None if there are none.
    """

    _columns: dict[str, NDArray[Any]] | None = None  # not by `cached_property`, whose lock costs as much as they do

    def __init__(self, table: SetTable, place: Places) -> None:
        self.table, self.place = table, place
        given = np.array([row in table.given for row in place.tolist()]) if table.given else None
        self.masks = None if given is None or not given.any() else {CONTEXT: given}

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of infos: ids, and the values of contexts without an id. Read-only, because infos share them."""
        if self._columns is not None:
            return self._columns
        masks, columns = self.masks or {}, {CONTEXT_ID: self.table.ids[self.place]}
        for name, given in masks.items():
            each = zip(self.in_lanes(), given.tolist(), strict=True)
            columns[name] = objects([context if is_given else None for context, is_given in each])
        for array in (*columns.values(), *masks.values()):
            array.flags.writeable = False
        self._columns = columns
        return columns

    @property
    def first(self) -> dict[str, Any]:
        """The info entries of the first lane."""
        given = {} if self.masks is None else {CONTEXT: dict(self.in_lanes()[0])}
        return {CONTEXT_ID: self.table.ids[self.place[0]], **given}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def in_lanes(self) -> list[Context]:
        """Returns the full context of each lane."""
        return list(map(self.table.context, self.place.tolist()))

    def parts(self) -> list[tuple[str, Any]]:
        return [("contexts", self.in_lanes()), ("ids", self[CONTEXT_ID]), ("masks", self.masks)]

    def with_places(self, places: Places, lanes: Indices) -> InForce:
        """Returns a copy in which some lanes have other contexts of the table."""
        if len(lanes) < len(self.place):
            place = self.place.copy()
            place[lanes] = places
            return InForce(self.table, place)
        return InForce(self.table, places)

    def compacted(self, contexts: Contexts | None = None) -> InForce:
        """Returns an equal object whose table has no unused rows. `contexts` is an equal set to use instead."""
        held, place, by_id = self.table, self.place.copy(), self.table.by_id if contexts is None else contexts
        table, n = copy.copy(held), len(by_id)
        ContextTable.__init__(table, by_id.values())
        rows, kept = np.unique(place[place >= n], return_inverse=True)
        table.add(held.contexts(rows))
        table.by_id, table.seen, table.ids = by_id, None, np.concatenate((held.ids[:n], held.ids[rows]))
        table.given = {n + index for index, row in enumerate(rows.tolist()) if row in held.given}
        place[place >= n] = n + kept
        return InForce(table, place)


class Schedule:
    """Chooses a context for each episode: from a set by a selector, with noise, or fixed by the user.

    Attributes:
        fixed: The fixed context of each lane. None, for all or for one lane, lets the selector choose.
        next: The context of the next episode, if it has been chosen already.
        rng: The generator of all choices; None before the first.
        coming: Contexts that were chosen in advance; `settle` takes the unused ones back.
    """

    def __init__(
        self,
        contexts: dict[Any, dict[str, Any]],
        default_context: dict[str, Any] | None,
        selector: Selector,
        noise: Noise,
        space: ContextSpace | None,
    ) -> None:
        self.selector = selector  # first: copies of it share its contexts, and then so do the next
        self.contexts, self.default_context = contexts, default_context
        self.noise, self.space = noise, space
        # Replaced, never modified, because snapshots share them.
        self.next: Chosen | None = None
        self.fixed: list[Chosen | None] | None = None
        self.rng: np.random.Generator | None = None
        self.coming: Coming | None = None
        self._marks: Any = None  # some `mark`s, and how many were chosen before each

    @property
    def learns(self) -> bool:
        """True if the selector learns from how episodes end."""
        return self.selector.learns

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return vars(self)

    # Choosing ahead.

    def ahead(self, env: Any, now: InForce) -> tuple[Coming, InForce] | None:
        """Returns contexts chosen in advance, at least one per lane, and the contexts in force in the same table.

        They and the random numbers used are the same as if chosen one by one. Returns None if choices cannot be
        made in advance.
        """
        n, coming = len(now.place), self.coming
        # A wrapper outside may have taken back the table that the contexts in force are in.
        if coming is not None and coming.first <= coming.last and coming.table is now.table:
            coming.held = now.place
            return coming, now
        self.settle()
        rng, selector = self.generator(env), self.selector
        if type(selector) not in _BY_POSITION or type(rng) is not np.random.Generator or not self._can_draw:
            return None
        mark, k = self.mark(random=True), max(1024, 16 * n)
        if now.table.size > len(self.contexts) + 4 * k:
            now = now.compacted()
        places = self.draw(now.table, rng, k)
        if places is None:
            return None
        # To take back the last ones, which are too few for n lanes, only some choices are made again.
        self._marks = (k, self.mark(random=True)), (0, mark)
        last = cast("Places", self.draw(now.table, rng, max(n, _MANY)))
        self.coming = Coming(now.table, now.place, np.concatenate((places, last)), 0)
        selector.before_reading = self.settle
        return self.coming, now

    def settle(self) -> None:
        """Takes back choices for episodes that have not begun yet."""
        coming = self.coming
        if coming is not None:
            self.selector.before_reading = None
            n_before, mark = next(one for one in self._marks if one[0] <= coming.first)
            self.go_back(mark)
            if coming.first > n_before:
                self.draw(None, cast("np.random.Generator", self.rng), coming.first - n_before)

    @property
    def _can_draw(self) -> bool:
        """True if the selector can choose all at once, and noise takes no random numbers between two choices."""
        noise, selector = self.noise, self.selector
        if self.next is not None or self.fixed is not None or selector.contexts is not self.contexts:
            return False
        return not noise.names or (noise.is_flat and (type(selector) in _WITHOUT_NUMBERS or selector.by_position))

    def draw(self, table: SetTable | None, rng: np.random.Generator, k: int) -> Places | None:
        """Chooses k contexts at once, with the result of single choices. Adds new ones to the table.

        Returns:
            Their rows in the table. None, with nothing changed, if they must be chosen one by one.
        """
        selector = self.selector
        if not self._can_draw:
            return None
        if type(selector) is Sampled:
            first = selector.n_calls
            columns = selector.sample_columns(rng, k) if k >= _MANY or table is None else None
            if columns is None or table is None:
                return None
            base = table.place_of(Chosen(None, selector.defaults))
            return table.add_named(np.full(k, base), columns, np.arange(first, first + k).astype(object))
        places = selector.select_places(rng, k)
        if places is None or not self.noise.names:
            return places
        columns = self.noise.columns(list(self.contexts.values()), places, rng)
        return None if table is None else table.add_named(places, columns, table.ids[places])

    def begin(self) -> None:
        """Restarts the selector."""
        self.selector.begin(self.contexts, self.space)

    @property
    def features(self) -> Iterable[str]:
        """The names of the features."""
        return next(iter(self.contexts.values()))

    def ends(self) -> Sequence[Context]:
        """Returns the contexts that bound visible values: the set, or if it is sampled the lowest and highest."""
        contexts = list(self.contexts.values())
        corners = self.selector.corners(contexts[0])
        return [corners[0], corners[-1]] if self.selector.drawn_from else contexts

    def reachable(self) -> list[dict[str, Any]]:
        """Returns contexts that bound all contexts that can occur, including noise."""
        contexts = list(self.contexts.values())
        if self.selector.drawn_from:
            contexts = [*contexts, *self.selector.corners(contexts[0])]
        return [*contexts, *self.noise.ends(contexts)]

    # Choosing.

    def generator(self, env: Any) -> np.random.Generator:
        """Returns the generator of all choices. It begins as a copy of the environment's context stream."""
        rng = self.rng
        if rng is None:
            self.rng = rng = copy.deepcopy(env.streams.context)
        return rng

    def select_next(self, env: Any) -> Chosen:
        """Chooses the context of the next episode, before noise, and advances the selector."""
        before = self.mark()
        try:
            self.next = chosen = Chosen(*cast("Any", self.selector.select(self.generator(env))))
        except BaseException:  # functions of the user choose
            self.go_back(before)
            raise
        return chosen

    def peek(self, env: Any) -> Chosen:
        """Returns the context of the next episode, fixed or chosen, without advancing the selector."""
        fixed = self.fixed[0] if self.fixed else None
        return fixed or self.next or Chosen(*cast("Any", self.selector.peek(self.generator(env))))

    def choose(self, rng: np.random.Generator, given: Chosen | None) -> Chosen:
        """Returns the context of an episode that begins: the given one, or else the next one of the selector."""
        chosen = given or self.next
        if chosen is None:
            chosen = Chosen(*cast("Any", self.selector.select(rng)))
        if given is None:
            self.next = None
        if self.noise.names and not chosen.is_given:
            chosen = chosen._replace(context=self.noise.add(chosen.context, rng))
        return chosen

    # Contexts that the user gives.

    def found(self, context: Any, what: str) -> Chosen:
        """Returns the context for an id, or for values by feature."""
        if isinstance(context, AnyMapping):
            full = {**(self.default_context or {}), **context}
            known = self.features
            for name in full:
                if name not in known:
                    raise ContextError(f"{what}: context[{name!r}]: no such feature; {nearest(str(name), known)}")
            if self.space is not None:
                self.space.verify(full, what)
            if missing := [name for name in known if name not in full]:
                raise ContextError(f"{what}: expected a value of {missing[0]!r}, which has no default")
            return Chosen(None, {name: full[name] for name in known}, True)
        if not isinstance(context, Hashable) or context not in self.contexts:
            raise ContextError(f"{what}: no context {context!r}; {nearest(str(context), map(str, self.contexts))}")
        return Chosen(context, self.contexts[context])

    def found_for_each(self, context: Any, n: int, what: str) -> list[Chosen]:
        """Returns the context of each lane."""
        if not (isinstance(context, AnyList) or (isinstance(context, AnyTuple) and context not in self.contexts)):
            return [self.found(context, what)] * n
        if len(context) != n:
            raise ContextError(f"{what}: expected one context for each of {n} lanes, got {len(context)}")
        return [self.found(one, what) for one in context]

    def changed(self, chosen: Chosen, values: Mapping[str, Any]) -> Chosen:
        """Overrides values of a chosen context, which keeps its id only if no value changes."""
        context = chosen.context
        if all(np.array_equal(value, context[name]) for name, value in values.items()):
            return chosen
        return self.found({**context, **values}, "options")

    # Going back.

    def mark(self, random: bool = False) -> tuple[Selector, dict[str, Any], Any, Any, Any]:
        """Returns a cheap snapshot of all that choices change, for `go_back` of this object only."""
        selector, rng, state = self.selector, self.rng, None
        takes_none = type(selector) in _WITHOUT_NUMBERS or selector.by_position
        if rng is not None and (random or self.noise.names or not takes_none):
            state = rng.bit_generator.state
        is_position = type(selector) in _BY_POSITION or selector.learns
        held, position = {} if is_position else vars(selector).copy(), selector.position
        held["_position"] = position if is_position or selector.by_position else copy.deepcopy(position)
        return selector, held, rng, state, self.next

    def go_back(self, mark: tuple[Selector, dict[str, Any], Any, Any, Any]) -> None:
        """Takes back all choices since a `mark`."""
        self.selector, held, self.rng, state, self.next = mark
        self.coming = self._marks = None
        attributes: dict[str, Any] = vars(self.selector)
        if len(held) > 1:
            attributes.clear()
        attributes.update(held)
        if state is not None and self.rng is not None:
            self.rng.bit_generator.state = state

    def snapshot(self) -> Any:
        """Returns everything that determines future choices, except a selector that learns, which is shared."""
        return copy.deepcopy((None if self.selector.learns else self.selector, self.rng)), self.next, self.fixed

    def restore(self, content: Any) -> None:
        """Restores the result of `snapshot`."""
        selector_and_rng, self.next, self.fixed = content
        held, self.rng = copy.deepcopy(selector_and_rng)
        self.selector = selector = self.selector if held is None else held
        if held is not None and same_contexts(selector.contexts, self.contexts):
            selector.contexts = self.contexts  # those of a snapshot that was pickled are others


def full_set(
    env: Any, binding: Binding, contexts: Any, default_context: Mapping[str, Any] | None
) -> tuple[dict[Any, dict[str, Any]], dict[str, Any] | None]:
    """Returns the full contexts by id, and the default context or None."""
    if isinstance(contexts, ContextSpace) or type(contexts).__name__ == "ConfigurationSpace":
        raise ContextError(
            "contexts: expected contexts by id, got a space; to sample from it give context_selector=Sampled(space)"
        )
    given = contexts_of(load_contexts(cast("Any", contexts)) if isinstance(contexts, (str, PathLike)) else contexts)
    if binding.space is not None:
        binding.space.verify(default_context or {}, "default_context")
        for key, context in given.items():
            binding.space.verify(context, f"contexts[{key!r}]")
    named = dict.fromkeys(name for context in (default_context or {}, *given.values()) for name in context)
    default = {**binding.defaults(env, named), **(default_context or {})}
    filled = fill(given, default)
    known = dict.fromkeys(name for context in filled.values() for name in context)
    for key, context in filled.items():
        if missing := [name for name in known if name not in context]:
            raise ContextError(
                f"contexts[{key!r}]: expected a value of {missing[0]!r}, as others have; give default_context"
            )
    return filled, default or None


def as_names(given: Any, what: str) -> list[str]:
    """Returns the names of features that an argument lists."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ContextError(f"{what}: expected a list of features, got {given!r}")
    return list(cast("Iterable[str]", given))


def selector_of(given: Any, arguments: Mapping[str, Any] | None) -> Selector:
    """Returns the selector for the arguments of `Contextual`: a selector, its class, or None for `RoundRobin`."""
    kind = given if isinstance(given, type) else type(given)
    if given is None:
        given = RoundRobin
    elif kind.__module__.startswith("carl.") and isinstance(given, type):
        given = getattr(selectors, kind.__name__, given)
    if isinstance(given, type) and issubclass(given, Selector):
        return given(**(arguments or {}))
    if not isinstance(given, Selector):
        known = ("RoundRobin", "Random", "Static", "Custom", "Sampled")
        near = f"; {nearest(given, known)}" if isinstance(given, str) else ""
        raise ContextError(
            f"context_selector: expected a selector of envoi.context or its class, got {shown(given)}{near}"
        )
    if arguments:
        raise ContextError(f"context_selector_kwargs: {given!r} is made already; give its class")
    return given
