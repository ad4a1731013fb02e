"""The context of each coming episode."""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, Self, cast

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
from ...protocol.infos import Infos
from ...protocol.reset_options import CONTEXT, CONTEXT_ID
from ...spec.base import shown
from ...structural_equality import Structured
from ...tree import AnyList, AnyMapping, AnyTuple


class Chosen(NamedTuple):
    """The context of an episode: its id, its values, and whether values were given instead of an id."""

    key: Hashable
    context: Context
    is_given: bool = False


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

    def columns(self, before: Places, places: Places) -> dict[str, list[Any]]:
        """Returns the values of rows by feature; only of those that differ if these rows and those before are named."""
        if max(before.tolist() + places.tolist()) < len(self.by_id):
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

    def only(self, kept: NDArray[np.bool_]) -> Self:
        table = super().only(kept)
        table.ids, table.seen = self.ids[: self.size][kept], None if self.seen is None else self.seen[: len(self.by_id)]
        table.given = {int(kept[:row].sum()) for row in self.given if kept[row]}
        return table

    def share(self, contexts: Contexts) -> None:
        """Uses an equal set."""
        self.by_id, self._contexts[: len(contexts)] = contexts, contexts.values()

    def _name(self, ids: NDArray[Any]) -> None:
        """Sets the ids of the rows that were added last."""
        if self.size > len(self.ids):
            self.ids = np.concatenate((self.ids, np.empty(max(self.size, 64), object)))
        self.ids[self.size - len(ids) : self.size] = ids


def _is_same(value: Any, other: Any) -> bool:
    # Equal numbers may be written differently: 0.0 and -0.0, 1 and 1.0.
    return value is other or (np.array_equal(value, other) and repr(value) == repr(other))


# Noise.

_REACH = 8.0
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
        self._shapes = {name: np.shape(context[name]) for name in self.names}
        self.is_flat = not any(self._shapes.values())  # of single numbers, no arrays
        self.limit({})

    def limit(self, bounds: Mapping[str, tuple[Any, Any]]) -> None:
        """Sets the bounds of noisy values by feature; others have none."""
        ends = {name: bounds.get(name, (-np.inf, np.inf)) for name in self.names}
        low, high = ([np.full(shape, ends[n][i]) for n, shape in self._shapes.items()] for i in (0, 1))
        self._low, self._high = _joined(low), _joined(high)

    def numbers(self, contexts: Iterable[Context]) -> NDArray[np.float64]:
        """Returns the values that noise changes, a row of numbers per context."""
        return np.array([_joined([context[name] for name in self.names]) for context in contexts])

    def draw(self, numbers: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Returns noisy numbers. Takes the same random numbers for all rows at once as row by row."""
        return self._moved(numbers, rng.standard_normal(numbers.shape).clip(-_REACH, _REACH))

    def _moved(self, numbers: NDArray[np.float64], far: NDArray[np.float64]) -> NDArray[np.float64]:
        """Moves numbers by some standard deviations, which it replaces by the result, to make fewer large arrays."""
        far *= self._deviation
        far *= np.abs(numbers)
        far += numbers
        return far.clip(self._low, self._high, out=far)

    def add(self, context: Context, rng: np.random.Generator) -> dict[str, Any]:
        """Returns the context of an episode: a copy with noise."""
        return self._with(context, self.draw(self.numbers([context]), rng)[0])

    def ends(self, contexts: Sequence[Context]) -> list[dict[str, Any]]:
        """Returns contexts that bound all noisy versions of the given contexts, feature by feature."""
        numbers = self.numbers(contexts)
        sides = [self._moved(numbers, np.full(numbers.shape, far)) for far in (-_REACH, _REACH) if self.names]
        return [self._with(*pair) for moved in sides for pair in zip(contexts, moved, strict=True)]

    def _with(self, context: Context, numbers: NDArray[np.float64]) -> dict[str, Any]:
        """Returns a copy of a context with other numbers."""
        new: dict[str, Any] = {}
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            new[name], numbers = numbers[:size].reshape(shape) if shape else numbers.item(0), numbers[size:]
        return {**context, **new}


def _joined(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *map(np.ravel, values)])


# The schedule.

# Only these classes themselves: subclasses may behave differently.
_WITHOUT_NUMBERS = frozenset({RoundRobin, Static})  # they take no random numbers
_BY_POSITION = frozenset({RoundRobin, Static, Random, Sampled})  # choices replace `position`, and change nothing else

_MANY = 16
"""The number of lanes from which columns of sampled or noisy values are faster than contexts one by one."""


class InForce(Infos, Structured):
    """The contexts in force, as one table row per lane; immutable. They are infos, with columns made when read.

    An environment without lanes counts as one.
    """

    # Of the class, because a step makes such an object.
    _lanes = mask = masks = None  # pyright: ignore[reportAssignmentType]
    _columns: dict[str, NDArray[Any]] | None = None  # not by `cached_property`, whose lock costs as much as they do

    def __init__(self, table: SetTable, place: Places) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.table, self.place = table, place
        if table.given:
            given = np.array([row in table.given for row in place.tolist()])
            self.masks = {CONTEXT: given} if given.any() else None

    @property
    def _n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.place)

    @property
    def columns(self) -> dict[str, NDArray[Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
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

    def __reduce__(self) -> tuple[Any, ...]:
        return InForce, (self.table, self.place)

    def in_lanes(self) -> list[Context]:
        """Returns the full context of each lane."""
        return self.table.contexts(self.place)

    def parts(self) -> list[tuple[str, Any]]:
        return [("contexts", self.in_lanes()), ("ids", self.columns[CONTEXT_ID]), ("masks", self.masks)]

    def with_places(self, places: Places, lanes: Places) -> InForce:
        """Returns a copy in which some lanes have other contexts of the table."""
        if len(lanes) < len(self.place):
            place = self.place.copy()
            place[lanes] = places
            return InForce(self.table, place)
        return InForce(self.table, places)

    def compacted(self) -> InForce:
        """Returns an equal object whose table has no unused rows."""
        kept = np.zeros(self.table.size, bool)
        kept[: len(self.table.by_id)] = kept[self.place] = True
        return InForce(self.table.only(kept), (kept.cumsum() - 1)[self.place])


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
        selector.begin(contexts, space)
        # Replaced, never modified, because snapshots share them.
        self.next: Chosen | None = None
        self.fixed: list[Chosen | None] | None = None
        self.rng: np.random.Generator | None = None
        self.coming: Coming | None = None
        self._marks: Any = None  # some `mark`s, and how many were chosen before each
        self._numbers: NDArray[np.float64] | None = None  # of all contexts, which noise changes

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return vars(self)

    # Choosing ahead.

    def ahead(self, env: Any, now: InForce) -> tuple[Coming | None, InForce]:
        """Returns contexts chosen in advance, at least one per lane, and the contexts in force in the same table.

        They and the random numbers used are the same as if chosen one by one. Returns None for the first if choices
        cannot be made in advance.
        """
        n, before, selector = len(now.place), self.coming, self.selector
        # A wrapper outside may have taken back the table that the contexts in force are in.
        if before is None or before.table is not now.table:
            self.settle()
            before = None
        rng = self.generator(env)
        if type(selector) not in _BY_POSITION or type(rng) is not np.random.Generator or not self._can_draw:
            return None, now
        queue, first, marks, many = np.zeros(0, np.intp), 0, list[Any](), max(1024, 16 * n)
        if before is not None:  # the last ones, which are too few for n lanes
            start, mark = self._marks[0]
            queue, first, marks = before.places[start:], before.first - start, [(0, mark)]
        if now.table.size > 2 * len(self.contexts):
            both = InForce(now.table, np.concatenate((now.place, queue))).compacted()
            now, queue = InForce(both.table, both.place[:n]), both.place[n:]
        selector.before_reading = None
        for size in (many, max(n, _MANY)):  # in two parts, so that only the last one is kept
            marks = [(len(queue), self.mark()), *marks]
            places = self.draw(now.table, rng, size)
            if places is None:
                return None, now
            queue = np.concatenate((queue, places))
        self.coming, self._marks = Coming(now.table, now.place, queue, first), marks
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
        if not self._can_draw or (self.noise.names and k < _MANY and table is not None):
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
        if self._numbers is None:
            self._numbers = self.noise.numbers(self.contexts.values())
        numbers = self.noise.draw(self._numbers.take(places, 0), rng)
        columns = dict(zip(self.noise.names, numbers.T, strict=True))
        return None if table is None else table.add_named(places, columns, table.ids[places])

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
