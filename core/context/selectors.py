"""Selectors: which context the next episode has.

`Contextual` takes one, tells it the contexts, and asks it at every reset. They follow those of CARL (Benjamins et
al., 2023, https://github.com/automl/CARL), with three differences: what they draw comes from the environment's
context stream, so that `reset(seed)` reproduces it; a context is called by the user's own id instead of its number;
and one can look ahead.

A selector of one's own says the id of the next context:

    class Heaviest(envoi.Selector):
        def choose(self, rng):
            return max(self.contexts, key=lambda context_id: self.contexts[context_id]["mass"])
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from ..errors import ContextError, nearest
from .sets import Context, Contexts, contexts_of
from .space import ContextSpace


class Selector(ABC):
    """Chooses the context of each episode.

    Args:
        contexts: The contexts to choose from, as in CARL. Usually left out: the environment tells them by `begin`.

    Attributes:
        contexts: The contexts by id, with defaults filled in; empty until `begin`.
        contexts_keys: Their ids, in order.
        position: Where the selector is, as a dict that copies and pickles: `n_calls`, `context_id`, and whatever
            else a subclass must remember between episodes. Setting an earlier copy goes back there.
        lane: Which of all lanes that are stepped at the same time this selector chooses for, or the first of those;
            `begin` keeps it. `RoundRobin` begins its round there.
    """

    contexts: Contexts = {}  # noqa: RUF012 (never changed; `begin` replaces all of these)
    contexts_keys: list[Any] = []  # noqa: RUF012
    position: dict[str, Any] = {"n_calls": 0, "context_id": None}  # noqa: RUF012

    lane: int = 0

    _given: Contexts | None = None
    _round: list[tuple[Any, Context]] = []  # noqa: RUF012
    _entries: dict[Any, tuple[Any, Context]] = {}  # noqa: RUF012

    def __init__(self, contexts: Contexts | None = None) -> None:
        if contexts is not None:
            self.begin(contexts)
            self._given = self.contexts

    @abstractmethod
    def choose(self, rng: np.random.Generator) -> Any:
        """The id of the next context.

        Args:
            rng: What randomness is to be drawn from. What is remembered belongs in `position`.
        """
        raise NotImplementedError

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        """Learns what there is to choose from, and goes to the start.

        Args:
            contexts: Full contexts by id, at least one. They are kept, not copied.
            space: The features of the environment, where it has declared any.

        Raises:
            ContextError: There are no contexts; they are not those that the selector was made with; or it was made
                for a context that is not among them.
        """
        contexts = contexts_of(contexts)
        if not contexts:
            raise ContextError("contexts: expected at least one, got none")
        if self._given is not None:
            _check_same(self._given, contexts)
        self.contexts = contexts
        self.contexts_keys = list(contexts)
        self._round = list(contexts.items())
        self._entries = {entry[0]: entry for entry in self._round}
        self.position = {"n_calls": 0, "context_id": None}

    def select(self, rng: np.random.Generator) -> tuple[Any, Context]:
        """Chooses the next context, and moves on.

        Args:
            rng: The context stream of the environment.

        Returns:
            Its id, and the context; not to be changed.

        Raises:
            ContextError: There is no context of the chosen id, or `begin` was not called.
        """
        chosen = self._next(rng)
        position = self.position
        position["n_calls"] += 1
        position["context_id"] = chosen[0]
        return chosen

    def select_several(self, rng: np.random.Generator, n: int) -> list[tuple[Any, Context]]:
        """The next n contexts, as n calls of `select` give them: for lanes that begin together."""
        return [self.select(rng) for _ in range(n)]

    def peek(self, rng: np.random.Generator) -> tuple[Any, Context]:
        """What `select` would give; neither the selector nor the generator moves."""
        position = self.position
        self.position = copy.deepcopy(position)
        try:
            return self._next(copy.deepcopy(rng))
        finally:
            self.position = position

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        context_id = self.choose(rng)
        try:
            return self._entries[context_id]
        except (KeyError, TypeError):
            raise ContextError(f"{type(self).__name__}: {self._unknown(context_id)}") from None

    def _unknown(self, context_id: Any) -> str:
        if not self.contexts:
            return "there are no contexts yet; call begin(contexts) first"
        alike = [key for key in self.contexts if str(key) == str(context_id)]
        if alike:
            return f"there is no context {context_id!r}, but {alike[0]!r} ({type(alike[0]).__name__})"
        return f"there is no context {context_id!r}; {nearest(str(context_id), map(str, self.contexts))}"

    @property
    def n_calls(self) -> int:
        """How many contexts were selected."""
        return self.position["n_calls"]

    @property
    def context_id(self) -> Any:
        """The id of the context that was selected last; None before the first."""
        return self.position["context_id"]

    @property
    def context_key(self) -> Any:
        """As CARL calls `context_id`."""
        return self.position["context_id"]

    @property
    def context_ids(self) -> list[int]:
        """The numbers of the contexts, from 0; the ids themselves are `contexts_keys`. Both as in CARL."""
        return list(range(len(self.contexts)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Selector:
        # Contexts are never changed, so that copies (in every snapshot of an environment) can share them.
        memo.update((id(shared), shared) for shared in (self.contexts, self.contexts_keys, self._round, self._entries))
        twin = memo[id(self)] = copy.copy(self)
        for name, value in vars(self).items():
            setattr(twin, name, copy.deepcopy(value, memo))
        return twin

    def _arguments(self) -> dict[str, Any]:
        """What the selector was made with."""
        return {}

    def __repr__(self) -> str:
        given = {} if self._given is None else {"contexts": dict(self._given)}
        arguments = {**self._arguments(), **given}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def _check_same(given: Contexts, contexts: Contexts) -> None:
    """Whether the contexts given to a selector are among the values of those of the environment."""
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


class RoundRobin(Selector):
    """One context after the other, in order, then the first again.

    The first lane begins with the first context, the second with the second, and so on, see `Selector.lane`.
    """

    def choose(self, rng: np.random.Generator) -> Any:
        keys = self.contexts_keys
        return keys[(self.lane + self.position["n_calls"]) % len(keys)] if keys else None

    def select_several(self, rng: np.random.Generator, n: int) -> list[tuple[Any, Context]]:
        if type(self) is not RoundRobin or not (self.contexts and n):
            return super().select_several(rng, n)
        round_, position = self._round, self.position
        start = (self.lane + position["n_calls"]) % len(round_)
        chosen = round_[start : start + n]
        while len(chosen) < n:
            chosen += round_[: n - len(chosen)]
        position["n_calls"] += n
        position["context_id"] = chosen[-1][0]
        return chosen


class Random(Selector):
    """Any of the contexts, all alike."""

    def choose(self, rng: np.random.Generator) -> Any:
        keys = self.contexts_keys
        return keys[int(rng.integers(len(keys)))] if keys else None


class Static(Selector):
    """Always the same context.

    Args:
        context_id: Its id; None for the first. A mapping counts as `contexts`, as in CARL.
        contexts: See `Selector`.

    Raises:
        ContextError: There is no context of this id (as soon as the contexts are known), with near ones.
    """

    def __init__(self, context_id: Any = None, contexts: Contexts | None = None) -> None:
        if isinstance(context_id, Mapping):
            context_id, contexts = contexts, cast("Contexts", context_id)
        self._static = context_id
        super().__init__(contexts)

    def begin(self, contexts: Contexts, space: ContextSpace | None = None) -> None:
        super().begin(contexts, space)
        if self._static is not None and self._static not in self.contexts_keys:
            raise ContextError(f"Static: {self._unknown(self._static)}")

    def choose(self, rng: np.random.Generator) -> Any:
        keys = self.contexts_keys
        return self._static if self._static is not None or not keys else keys[0]

    def _arguments(self) -> dict[str, Any]:
        return {} if self._static is None else {"context_id": self._static}


class Custom(Selector):
    """Whatever a function says.

    Args:
        function: `(selector) -> context_id`. It may read everything of the selector, and draw from `selector.rng`;
            what it must remember belongs in `selector.position`. As in CARL it may also return `(context, number)`,
            one of `selector.contexts` and its place in `contexts_keys`. A mapping counts as `contexts`.
        selector_function: What CARL calls `function`.
        contexts: See `Selector`.

    Raises:
        ContextError: There is not exactly one function.

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
        if isinstance(function, Mapping):
            function, contexts = None, cast("Contexts", function)
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
        if isinstance(chosen, tuple):
            pair = cast("tuple[Any, ...]", chosen)
            # An id may be a tuple itself, but none begins with a context, which is not hashable.
            if len(pair) == 2 and isinstance(pair[0], Mapping):
                return self._of_pair(cast("Context", pair[0]), pair[1])
        return cast("Any", chosen)

    def _of_pair(self, context: Context, number: Any) -> Any:
        """The id of CARL's `(context, number)`; a number that is an id will do."""
        count = len(self.contexts)
        for place, (key, held) in enumerate(self.contexts.items()):
            if held is context and number in (place, place - count, key):
                return key
        raise ContextError(
            f"Custom: expected one of selector.contexts and its place in selector.contexts_keys, got {context!r} and "
            f"{number!r}; return an id alone, or see Sampled for contexts that are made on the way"
        )

    def _arguments(self) -> dict[str, Any]:
        return {"function": self.function}


# The names of CARL.
AbstractSelector = Selector
RoundRobinSelector = RoundRobin
RandomSelector = Random
StaticSelector = Static
CustomSelector = Custom
