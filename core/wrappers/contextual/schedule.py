"""Which context each coming episode has."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from types import NoneType
from typing import Any, TypeAlias, cast

import numpy as np

from ...context.binding import Binding, check_names
from ...context.contexts_by_id import contexts_of, fill
from ...context.distributions import extremes
from ...context.files import load_contexts
from ...context.noise import Noise
from ...context.sampled import Sampled
from ...context.selectors import Random, RoundRobin, Selector, Static
from ...context.set_columns import Places, SetColumns, same_contexts
from ...context.space import ContextSpace
from ...errors import ContextError, nearest
from ...tree import AnyList, AnyMapping, AnyTuple

Context: TypeAlias = dict[str, Any]
Chosen: TypeAlias = tuple[Hashable, Mapping[str, Any]]
"""An id and a full context; the id is None for a context that was given by its values."""


_ATOMS = frozenset({int, float, bool, str, NoneType})
# Of these classes themselves; what subclasses do is not known.
_WITHOUT_NUMBERS = frozenset({RoundRobin, Static})  # they take no random numbers
_BY_POSITION = frozenset({RoundRobin, Static, Random, Sampled})  # choices replace `position`, and change nothing else


Mark: TypeAlias = tuple[Selector, dict[str, Any], bool, "np.random.Generator | None", Any, "Chosen | None"]
"""All that choices change: the selector, its position or (True) all its attributes, the generator and its state, and
`Schedule.next`."""


class Schedule:
    """Contexts for episodes: out of a set by a selector, with noise, or fixed by the user.

    Args:
        contexts: The full contexts by id.
        default_context: The default one, or None.
        selector: Chooses out of the set.
        noise: Adds noise to the contexts of the set.
        space: The features that the environment describes, or None.

    Attributes:
        next: The context of the next episode where it has been chosen already, or None.
        fixed: The context of each lane, with None where the selector chooses; None where it chooses everywhere.
        rng: The generator of all choices; None until the first one.
    """

    def __init__(
        self,
        contexts: dict[Any, Context],
        default_context: Context | None,
        selector: Selector,
        noise: Noise,
        space: ContextSpace | None,
    ) -> None:
        self.selector = selector  # first, for copies of a selector share its contexts, and so do then the rest
        self.contexts, self.default_context = contexts, default_context
        self.noise, self.space = noise, space
        # Both are replaced, never changed, for snapshots share them.
        self.next: Chosen | None = None
        self.fixed: list[Chosen | None] | None = None
        self.rng: np.random.Generator | None = None

    def begin(self) -> None:
        """Restarts the selector."""
        self.selector.begin(self.contexts, self.space)

    @property
    def is_sampled(self) -> bool:
        """True if contexts are sampled from distributions instead of the set."""
        return isinstance(self.selector, Sampled)

    @property
    def features(self) -> Iterable[str]:
        """The names of the features."""
        return next(iter(self.contexts.values()))

    def ends(self) -> list[Context]:
        """Returns the contexts of the set, or of a sampled one the two with all features least and greatest."""
        contexts = list(self.contexts.values())
        if not isinstance(self.selector, Sampled):
            return contexts
        ends = {name: extremes(feature) for name, feature in self.selector.drawn_from.items()}
        return [{**contexts[0], **{name: pair[end] for name, pair in ends.items()}} for end in (0, -1)]

    def reachable(self) -> list[Context]:
        """Returns contexts between which all lie that may come into force."""
        contexts = list(self.contexts.values())
        if isinstance(self.selector, Sampled):
            contexts = [*contexts, *self.selector.corners(contexts[0])]
        return [*contexts, *self.noise.ends(contexts)]

    # Choosing.

    def generator(self, env: Any) -> np.random.Generator:
        """Returns the generator of all choices; the first time it is a copy of the environment's context stream."""
        rng = self.rng
        if rng is None:
            self.rng = rng = copy.deepcopy(env.streams.context)
        return rng

    def select_next(self, env: Any) -> Chosen:
        """Returns the choice for the next episode, before noise; the selector moves on now."""
        before = self.mark()
        try:
            self.next = chosen = self.selector.select(self.generator(env))
        except Exception:  # functions of the user choose
            self.go_back(before)
            raise
        return chosen

    def select(self, rng: np.random.Generator) -> Chosen:
        """Returns the choice for one episode, before noise; the selector moves on."""
        chosen, self.next = self.next or self.selector.select(rng), None
        return chosen

    def select_places(self, rng: np.random.Generator, n: int) -> Places | None:
        """Returns the contexts of lanes that begin an episode as their places in the set.

        Args:
            rng: The generator of choices.
            n: The number of lanes, at least 1.

        Returns:
            Shape (n,); None, before anything has changed, if some contexts may lie outside of the set, or the selector
            chooses one by one.
        """
        selector = self.selector
        if self.noise.names or self.fixed is not None or self.next is not None:
            return None
        return selector.select_places(rng, n) if selector.contexts is self.contexts else None

    def peek(self, env: Any) -> Chosen:
        """Returns the fixed context, or the one that `select` will return; the selector stays where it is."""
        fixed = self.fixed[0] if self.fixed else None
        return fixed or self.next or self.selector.peek(self.generator(env))

    def choose(
        self, rng: np.random.Generator, lanes: Sequence[int], n: int, wish: Sequence[Chosen] | None = None
    ) -> list[Chosen]:
        """Returns the contexts of lanes that begin an episode.

        Args:
            rng: The generator of choices and noise.
            lanes: The indices of the lanes.
            n: How many lanes there are.
            wish: One context for each of the n lanes, for these episodes alone; the selector stays where it is.
        """
        chosen: list[Chosen]
        if wish is None and self.fixed is None and self.next is None:
            selector = self.selector
            chosen = [selector.select(rng)] if len(lanes) == 1 else selector.select_several(rng, len(lanes))
        else:
            given = wish or self.fixed or [None] * n
            chosen = [given[lane] or self.select(rng) for lane in lanes]
        if self.noise.names:
            chosen = [one if self.is_given(one) else (one[0], self.noise.drawn(one[1], rng)) for one in chosen]
        return chosen

    def is_given(self, chosen: Chosen) -> bool:
        """Returns True if a context was given by its values; the id None alone may be one of the set."""
        key, context = chosen
        return key is None and context is not self.contexts.get(None)

    # Contexts that the user gives.

    def found(self, context: Any, what: str) -> Chosen:
        """Returns the context that an id or values mean.

        Args:
            context: An id of the set, or `{feature: value}`, which has defaults for the features that it leaves out.
            what: The name of the argument, for messages.

        Raises:
            ContextError: There is no such id, feature or value.
        """
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
            return None, {name: full[name] for name in known}
        if not isinstance(context, Hashable) or context not in self.contexts:
            raise ContextError(f"{what}: no context {context!r}; {nearest(str(context), map(str, self.contexts))}")
        return context, self.contexts[context]

    def found_for_each(self, context: Any, n: int, what: str) -> list[Chosen]:
        """Returns the context of each lane.

        Args:
            context: One for all lanes, or a list of one per lane; see `found`.
            n: How many lanes there are.
            what: The name of the argument, for messages.

        Raises:
            ContextError: There is no such context, or not one per lane.
        """
        if not (isinstance(context, AnyList) or (isinstance(context, AnyTuple) and context not in self.contexts)):
            return [self.found(context, what)] * n
        if len(context) != n:
            raise ContextError(f"{what}: expected one context for each of {n} lanes, got {len(context)}")
        return [self.found(one, what) for one in context]

    def changed(self, chosen: Chosen, values: Mapping[str, Any]) -> Chosen:
        """Returns a chosen context with some other values; it keeps its id where they are the values that it has.

        Args:
            chosen: The context.
            values: By feature.

        Raises:
            ContextError: There is no such value.
        """
        _, context = chosen
        if all(np.array_equal(value, context[name]) for name, value in values.items()):
            return chosen
        return self.found({**context, **values}, "options")

    def with_defaults(self, context: Mapping[str, Any]) -> Context:
        """Returns a context with the defaults of the features that it leaves out, in the order of the features.

        Raises:
            ContextError: There is no such feature or value.
        """
        check_names(context, self.features, "feature")
        if self.space is not None:
            self.space.verify(context, "fill_context_with_default")
        full = {**(self.default_context or {}), **context}
        return {name: full[name] for name in self.features if name in full}

    @cached_property
    def columns(self) -> SetColumns:
        """The set as columns."""
        return SetColumns(self.contexts)

    # Going back.

    def mark(self, random: bool = False) -> Mark:
        """Returns what choices change, for `go_back`: less than a snapshot, and of no use elsewhere.

        Args:
            random: True if random numbers may be taken for something else than choices and noise.
        """
        selector, rng, state = self.selector, self.rng, None
        if rng is not None and (random or self.noise.names or type(selector) not in _WITHOUT_NUMBERS):
            state = rng.bit_generator.state
        if type(selector) in _BY_POSITION:
            return selector, selector.position, False, rng, state, self.next
        attributes = vars(selector).copy()
        attributes["position"] = position = selector.position.copy()  # the others are replaced, never changed
        for name, value in position.items():
            if type(value) not in _ATOMS:
                position[name] = copy.deepcopy(value)
        return selector, attributes, True, rng, state, self.next

    def go_back(self, mark: Mark) -> None:
        """Takes back all choices since a `mark`."""
        self.selector, held, is_whole, self.rng, state, self.next = mark
        if is_whole:
            attributes = vars(self.selector)
            attributes.clear()
            attributes.update(held)
        else:
            self.selector.position = held
        if state is not None and self.rng is not None:
            self.rng.bit_generator.state = state

    def snapshot(self) -> Any:
        """Returns all that decides coming choices."""
        return copy.deepcopy((self.selector, self.rng)), self.next, self.fixed

    def restore(self, content: Any) -> None:
        """Restores the result of `snapshot`."""
        selector_and_rng, self.next, self.fixed = content
        self.selector, self.rng = copy.deepcopy(selector_and_rng)
        selector = self.selector
        has_others = selector.contexts is not self.contexts and type(selector) in _BY_POSITION
        if has_others and same_contexts(selector.contexts, self.contexts):
            # Of a snapshot that was pickled; with the same object, contexts can be chosen by their places.
            position = selector.position
            self.begin()
            selector.position = position


def full_set(
    env: Any, binding: Binding, contexts: Any, default_context: Mapping[str, Any] | None
) -> tuple[dict[Any, Context], Context | None]:
    """Returns the full contexts by id, and the default context or None.

    Args:
        env: The environment, which may have defaults by itself.
        binding: How contexts reach it.
        contexts: The set, as `Contextual` takes it.
        default_context: Defaults, over those of the environment.

    Raises:
        ContextError: An unknown feature, a value out of bounds, or a missing value without a default.
    """
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
    for key, context in filled.items():
        if missing := [name for one in filled.values() for name in one if name not in context]:
            raise ContextError(
                f"contexts[{key!r}]: expected a value of {missing[0]!r}, as others have; give default_context"
            )
    return filled, default or None
