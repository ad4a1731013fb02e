"""Selectors: they choose the context of each episode.

Selectors follow those of CARL (Benjamins et al., 2023, https://github.com/automl/CARL), with three differences: random
choices come from the environment's context stream, so that `reset(seed=…)` reproduces them; a context is identified by
the user's id instead of its number; and `peek` shows the next choice in advance.

A custom selector returns the id of the next context:

    class Heaviest(envoi.Selector):
        def choose(self, rng):
            return max(self.contexts, key=lambda context_id: self.contexts[context_id]["mass"])
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import ContextError, nearest
from ..tree import AnyMapping, AnyTuple
from .features import Categorical, Feature, NormalFloat, UniformFloat, UniformInteger, extremes
from .sets import Context, Contexts, contexts_of
from .space import ContextSpace


class Episodes(Sequence[dict[str, Any]]):
    """Episodes that have ended, as columns: what `Selector.tell` gets. A row is made when it is read.

    Args:
        columns: A list for each key of a row but `context`, by name.
        contexts: Returns the contexts, which must not be changed.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], contexts: Callable[[], Sequence[Context]]) -> None:
        self.columns, self._find = columns, contexts

    @cached_property
    def contexts(self) -> Sequence[Context]:
        """The contexts, which must not be changed."""
        return self._find()

    def __len__(self) -> int:
        return len(self.columns["context_id"])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        row: dict[str, Any] = {name: column[index] for name, column in self.columns.items()}
        context: dict[str, Any] = {**self.contexts[index]}
        return {"context_id": row["context_id"], "context": context, **row}


class Selector(ABC):
    """Chooses the context of each episode.

    Args:
        contexts: The contexts to choose from, as in CARL. Usually left out, because the environment passes them by
            `begin`.

    Attributes:
        contexts: The contexts by id, with defaults filled in; empty until `begin`.
        contexts_keys: The ids of the contexts, in order.
        position: The selector's state, a dict that can be copied and pickled: `n_calls`, `context_id`, and everything a
            subclass must remember between episodes. Assign an earlier copy to restore that state.
        lane: The index of the first lane that this selector chooses for, counted over all lanes that are stepped
            together. `begin` does not reset it. `RoundRobin` starts there.
    """

    contexts: Contexts = {}  # noqa: RUF012 (never changed; `begin` replaces all of these)
    contexts_keys: list[Any] = []  # noqa: RUF012

    lane: int = 0

    # True if choices take no numbers of `rng`, and replace `position` but change nothing else.
    by_position: bool = False
    # Called before `position` is read or set, to take back choices that were made in advance.
    before_reading: Callable[[], None] | None = None
    _position: dict[str, Any] = {"n_calls": 0, "context_id": None}  # noqa: RUF012

    _given: Contexts | None = None
    _place: dict[Any, int] = {}  # noqa: RUF012 (of each id in `contexts_keys`)

    def __init__(self, contexts: Contexts | None = None) -> None:
        if contexts is not None:
            self.begin(contexts)
            self._given = self.contexts

    @property
    def position(self) -> dict[str, Any]:
        """The selector's state between episodes. Assign an earlier copy to restore that state."""
        if self.before_reading is not None:
            self.before_reading()
        return self._position

    @position.setter
    def position(self, position: dict[str, Any]) -> None:
        if self.before_reading is not None:
            self.before_reading()
        self._position = position

    @abstractmethod
    def choose(self, rng: np.random.Generator) -> Any:
        """Returns the id of the next context. `rng` is the environment's context stream.

        Store everything to remember between calls in `position`.
        """
        raise NotImplementedError

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        """Sets the available contexts and resets `position`.

        Args:
            contexts: Full contexts by id, at least one. They are kept, not copied.
            space: The features that the environment declares, or None.

        Raises:
            ContextError: There are no contexts, they differ from those passed to the constructor, or they lack the
                context of a `Static` selector.
        """
        contexts = contexts_of(contexts)
        if not contexts:
            raise ContextError("contexts: expected at least one, got none")
        if self._given is not None:
            _check_same(self._given, contexts)
        self.contexts = contexts
        self.contexts_keys = list(contexts)
        self._place = {key: place for place, key in enumerate(contexts)}
        self.position = {"n_calls": 0, "context_id": None}

    def select(self, rng: np.random.Generator) -> tuple[Any, Context]:
        """Selects the next context and advances `position`. Returns its id and the context; do not modify the context.

        Raises:
            ContextError: There is no context with the chosen id, or `begin` was not called.
        """
        chosen = self._next(rng)
        self._advance(1, chosen[0])
        return chosen

    def _advance(self, n: int, context_id: Any) -> None:
        """Advances `position` by n choices; `context_id` is the last choice."""
        # A new dict, because others may hold the previous one to restore it.
        before = self.position
        self._position = {**before, "n_calls": before["n_calls"] + n, "context_id": context_id}

    def select_places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp] | None:
        """Selects n contexts at once, like n calls to `select`. Returns their indices in `contexts_keys`.

        Args:
            rng: The context stream of the environment.
            n: The number of contexts, at least 1.

        Returns:
            Integers of shape (n,). Returns None and changes nothing if this selector can only choose one at a time.
        """
        return None

    def peek(self, rng: np.random.Generator) -> tuple[Any, Context]:
        """Returns the next result of `select` without advancing the selector or its random generator."""
        position = self.position
        self.position = copy.deepcopy(position)
        try:
            return self._next(copy.deepcopy(rng))
        finally:
            self.position = position

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        context_id = self.choose(rng)
        try:
            key = self.contexts_keys[self._place[context_id]]  # the id itself; 1.0 finds 1, too
        except (KeyError, TypeError):
            raise ContextError(f"{type(self).__name__}: {self._unknown(context_id)}") from None
        return key, self.contexts[key]

    def tell(self, episodes: Iterable[Mapping[str, Any]]) -> None:  # noqa: B027 (most selectors learn nothing)
        """Learns from completed episodes. A selector that defines this method is a curriculum; see `envoi.curricula`.

        `Contextual` calls it when an episode with a context chosen by this selector ends, but not when a reset
        interrupts it. All copies of the environment share such a selector, and a seed does not restart it.

        Args:
            episodes: A mapping per episode: `context_id`, `context` (its values), `return` (the sum over agents),
                `length` (the number of steps), `terminated` (False if it was truncated), `success` (from 0 to 1, or
                None if the environment does not report it), `lane`, and `score` if the trainer has one.
        """

    @property
    def learns(self) -> bool:
        """True if the class defines `tell`."""
        return type(self).tell is not Selector.tell

    @property
    def drawn_from(self) -> dict[str, Feature]:
        """Maps sampled features to distributions, restricted to the values that the environment allows."""
        return {}

    def corners(self, default: Context) -> list[dict[str, Any]]:
        """Returns contexts that bound all contexts that can be sampled; other features are as in `default`.

        The first has the lowest value of each sampled feature, the last the highest. In each other one, a single
        feature has its highest value (or a further choice of a `Categorical`) and all others their lowest, so that an
        environment can reject features such as a minimum that may exceed a maximum.
        """
        ends = {name: extremes(feature) for name, feature in self.drawn_from.items()}
        lowest, highest = ({**default, **{name: each[i] for name, each in ends.items()}} for i in (0, -1))
        return [lowest, *({**lowest, name: one} for name, each in ends.items() for one in each[1:]), highest]

    def _unknown(self, context_id: Any) -> str:
        if not self.contexts:
            return "there are no contexts yet; call begin(contexts) first"
        alike = [key for key in self.contexts if str(key) == str(context_id)]
        if alike:
            return f"there is no context {context_id!r}, but {alike[0]!r} ({type(alike[0]).__name__})"
        return f"there is no context {context_id!r}; {nearest(str(context_id), map(str, self.contexts))}"

    @property
    def n_calls(self) -> int:
        """The number of contexts selected so far."""
        return self.position["n_calls"]

    @property
    def context_id(self) -> Any:
        """The id of the last selected context, or None before the first."""
        return self.position["context_id"]

    context_key = context_id  # CARL's name

    @property
    def context_ids(self) -> list[int]:
        """The indices 0, 1, … of the contexts, named as in CARL. The actual ids are in `contexts_keys`."""
        return list(range(len(self.contexts)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Selector:
        # Contexts are never changed, so copies, such as those in snapshots of environments, can share them.
        names = ("contexts", "contexts_keys", "_place")
        memo.update((id(shared), shared) for shared in (vars(self).get(name) for name in names))
        if self.learns:  # from the episodes of all copies
            return self
        _ = self.position  # of the episodes that have begun
        twin = memo[id(self)] = copy.copy(self)
        for name, value in vars(self).items():
            setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        _ = self.position
        return vars(self)

    def _arguments(self) -> dict[str, Any]:
        """Returns the constructor's arguments for the repr, which omits arguments that are None."""
        return {}

    def __repr__(self) -> str:
        given = None if self._given is None else dict(self._given)
        arguments = {**self._arguments(), "contexts": given}.items()
        return f"{type(self).__name__}({', '.join(f'{name}={one!r}' for name, one in arguments if one is not None)})"


def _check_same(given: Contexts, contexts: Contexts) -> None:
    """Checks that the environment's contexts contain all values of the contexts that the constructor received."""
    advice = "give contexts to the environment alone"
    if list(given) != list(contexts):
        raise ContextError(
            f"contexts: the selector was made with {list(given)}, the environment has {list(contexts)}; {advice}"
        )
    for key, context in given.items():
        for name, value in context.items():
            there = contexts[key].get(name)
            if not (value is there or np.array_equal(value, cast("Any", there))):
                raise ContextError(
                    f"contexts[{key!r}][{name!r}]: the selector was made with {value!r}, the environment has "
                    f"{there!r}; {advice}"
                )


class _ByPlace(Selector):
    """Base class of selectors that choose indices in the set, one or many at once."""

    def _places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp]:
        """Returns the indices of n contexts. Takes the same random numbers as n calls with n = 1."""
        raise NotImplementedError

    def choose(self, rng: np.random.Generator) -> Any:
        return self.contexts_keys[self._places(rng, 1)[0]] if self.contexts_keys else None

    def select_places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp] | None:
        if type(self) not in (RoundRobin, Random, Static) or type(rng) is not np.random.Generator or not self.contexts:
            return None  # a class of the user's own may choose in another way
        places = self._places(rng, n)
        self._advance(n, self.contexts_keys[places[-1]])
        return places


class RoundRobin(_ByPlace):
    """Cycles through the contexts in order.

    Lane i starts with context i; see `Selector.lane`.
    """

    def _places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp]:
        count = len(self.contexts_keys)
        first: int = (self.lane + self.position["n_calls"]) % count
        places = np.arange(first, first + n)
        return places if first + n <= count else places % count


class Random(_ByPlace):
    """Chooses a context uniformly at random."""

    def _places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp]:
        return rng.integers(len(self.contexts_keys), size=n, dtype=np.intp)


class Static(_ByPlace):
    """Always chooses the same context.

    Args:
        context_id: The id of the context; None for the first one. A mapping counts as `contexts`, as in CARL.
        contexts: See `Selector`.

    Raises:
        ContextError: No context has this id. Raised as soon as the contexts are known.
    """

    def __init__(self, context_id: Any = None, contexts: Contexts | None = None) -> None:
        if isinstance(context_id, AnyMapping):
            context_id, contexts = contexts, context_id
        self._static = context_id
        super().__init__(contexts)

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        super().begin(contexts, space)
        if self._static is not None and self._static not in self.contexts_keys:
            raise ContextError(f"Static: {self._unknown(self._static)}")

    def _places(self, rng: np.random.Generator, n: int) -> NDArray[np.intp]:
        return np.full(n, 0 if self._static is None else self._place[self._static])

    def _arguments(self) -> dict[str, Any]:
        return {"context_id": self._static}


class Custom(Selector):
    """Chooses contexts with your function.

    Args:
        function: `(selector) -> context_id`. It may read the selector's attributes, use `selector.rng` for random
            numbers, and store what it must remember in `selector.position`. As in CARL it may also return `(context,
            number)`: one of `selector.contexts` and its index in `contexts_keys`. A mapping counts as `contexts`.
        selector_function: CARL's name for `function`.
        contexts: See `Selector`.

    Raises:
        ContextError: Both functions were passed, or neither.

    Attributes:
        rng: The environment's context stream while the function runs, else None.
    """

    rng: np.random.Generator | None = None

    def __init__(
        self,
        function: Callable[[Any], Any] | Contexts | None = None,
        selector_function: Callable[[Any], Any] | None = None,
        contexts: Contexts | None = None,
    ) -> None:
        if isinstance(function, AnyMapping):
            function, contexts = None, function
        functions = [given for given in (function, selector_function) if given is not None]
        if len(functions) != 1 or not callable(functions[0]):
            raise ContextError(f"Custom: expected one function (selector) -> context id, got {functions}")
        self.function = functions[0]
        super().__init__(contexts)

    def choose(self, rng: np.random.Generator) -> Any:
        self.rng = rng
        try:
            chosen = self.function(self)
        finally:
            self.rng = None
        # An id may be a tuple, but it cannot contain a context, which is not hashable.
        if not (isinstance(chosen, AnyTuple) and len(chosen) == 2 and isinstance(chosen[0], AnyMapping)):
            return chosen
        (context, number), count = chosen, len(self.contexts)
        for place, (key, held) in enumerate(self.contexts.items()):
            if held is context and number in (place, place - count, key):
                return key
        raise ContextError(
            f"Custom: expected one of selector.contexts and its place in selector.contexts_keys, got {context!r} and "
            f"{number!r}; return an id alone, or use Sampled for contexts that are made during the run"
        )

    def _arguments(self) -> dict[str, Any]:
        return {"function": self.function}


# The names of CARL.
AbstractSelector = Selector
RoundRobinSelector = RoundRobin
RandomSelector = Random
StaticSelector = Static
CustomSelector = Custom


class Sampled(Selector):
    """Samples a new context for each episode; the ids are 0, 1, 2, ….

    Other features keep the values of the environment's default context.

    Args:
        space: The features to sample: a `ContextSpace`, or an argument of its constructor, such as a list of features.
            A normal distribution without bounds gets the bounds of the environment's feature.
        n: The number of different contexts, which repeat in the same order, or None for a new context each episode. A
            single random number determines all n contexts.
        defaults: Values of other features, which override the environment's defaults.

    Raises:
        ContextError: `n` is not an integer of at least 1. `begin` raises it if the environment has several contexts,
            which would never be used, or if the distributions do not fit its features.
    """

    def __init__(self, space: Any, n: int | None = None, defaults: Context | None = None) -> None:
        is_count = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
        if n is not None and not (is_count and n >= 1):
            raise ContextError(f"Sampled: n: expected how many contexts, at least 1, or None, got {n!r}")
        self.space = ContextSpace.of(space)
        self.n = None if n is None else int(n)
        self._own_defaults = None if defaults is None else dict(defaults)
        self._declared: ContextSpace | None = None
        self._fitted = self.space
        self.defaults: Context = self._own_defaults or {}
        super().__init__()

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        super().begin(contexts, space)
        if len(self.contexts) > 1:
            raise ContextError(
                f"Sampled: makes its own contexts, so it would never use {self.contexts_keys}; leave `contexts` out, "
                "and give what stays the same as the default context"
            )
        self.defaults = {**next(iter(self.contexts.values())), **(self._own_defaults or {})}
        self._declared = space
        self._fitted = self.space if space is None else ContextSpace(space.distributions(self.space))

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        number = self.choose(rng)
        if self.n is not None:
            if "entropy" not in self.position:
                self.position = {**self.position, "entropy": int(rng.integers(2**63))}
            rng = np.random.default_rng((self.position["entropy"], number))
        context = {**self.defaults, **self._fitted.sample(seed=rng)}
        if self._declared is not None:
            self._declared.verify(context, f"contexts[{number}]")
        return number, context

    def sample_columns(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[Any]] | None:
        """Samples n contexts at once, like n calls to `select`. Returns an array of values for each feature.

        Args:
            rng: The context stream of the environment.
            n: The number of contexts, at least 1.

        Returns:
            An array of shape (n,) for each sampled feature; other features have their `defaults`. Returns None and
            changes nothing if this selector can only choose one at a time.
        """
        features = self.drawn_from
        others = {} if self._declared is None else self._declared.features
        known = {type(feature) for feature in [*features.values(), *others.values()]}
        kinds = {type(feature) for feature in features.values()}
        if self.n is not None or type(self) is not Sampled or not kinds <= {UniformFloat, UniformInteger, NormalFloat}:
            return None
        if not known <= {UniformFloat, UniformInteger, NormalFloat, Categorical}:  # whose values must be verified
            return None
        ends = np.array([(one.low, one.high) for one in features.values() if isinstance(one, UniformFloat)]).T
        is_uniform = kinds == {UniformFloat} and not any(cast("Any", one).log for one in features.values())
        try:
            if self._declared is not None:
                self._declared.verify({**self.defaults, **{n: one.default_value for n, one in features.items()}})
            if is_uniform and not np.isfinite(ends[1] - ends[0]).all():
                return None
        except ContextError:
            return None
        if is_uniform:
            rows: NDArray[Any] = rng.uniform(ends[0], ends[1], (n, len(ends[0])))
        else:
            rows = np.array([[feature.sample(rng) for feature in features.values()] for _ in range(n)], object)
        self._advance(n, self.n_calls + n - 1)
        columns = rows.T.copy() if is_uniform else [np.array(column.tolist()) for column in rows.T]
        return dict(zip(features, columns, strict=True))

    @property
    def drawn_from(self) -> dict[str, Feature]:
        return self._fitted.features

    def choose(self, rng: np.random.Generator) -> Any:
        return self.n_calls if self.n is None else self.n_calls % self.n

    def _arguments(self) -> dict[str, Any]:
        return {"space": self.space, "n": self.n, "defaults": self._own_defaults}
