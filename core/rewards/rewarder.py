"""Rewarders: reward functions as objects that can be inspected, replaced, composed and compared.

A rewarder is called as `rewarder(state, action, next_state)`. If it is written with numpy operations, it takes a batch
of transitions as well as a single one. Two rewarders are equal if they have the same class and equal attributes.

    env.rewarder = env.rewarder + 0.1 * Speed(limit=3)      # reward_spec and reward_range follow
    rewards = Speed(limit=3).relabel(transitions)           # for transitions recorded earlier

A rewarder or termination with a parameter `rng` receives a random generator:

    def tip(state, action, next_state, *, rng):
        return float(rng.random() < 0.1)

An environment passes its stream for rewards and terminations (`Streams.reward`). A seed determines this stream,
snapshots contain it, and nothing else uses it, so a random reward changes nothing else in the episode. Other callers
pass a generator of their choice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..spec import Array, SpecTree
from ..structural_equality import Structured
from ..tree import AnyArray, AnyMapping


def takes_rng(function: Callable[..., Any]) -> bool:
    """Returns True if a function has a parameter `rng` that is not bound yet (without a default, or None)."""
    parameter = _rng_parameter(function)
    return parameter is not None and parameter.default in (None, inspect.Parameter.empty)


def _rng_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # a built-in without a signature
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter if parameter is not None and parameter.kind in named else None


class OfTransition(Structured):
    """A function of a transition that can be composed and compared.

    Subclasses define `__call__(state, action, next_state)`, with a keyword `rng` if they are random.
    """

    _class_draws: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._class_draws = takes_rng(cls.__call__)

    @property
    def draws(self) -> bool:
        """True if the function takes a random generator `rng`."""
        return self._class_draws

    def drawn(self, state: Any, action: Any, next_state: Any, rng: np.random.Generator | None) -> Any:
        """Calls the function, and passes `rng` if the function takes a generator and `rng` is not None."""
        if rng is None or not self.draws:
            return self(state, action, next_state)
        return cast("Any", self)(state, action, next_state, rng=rng)

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        raise NotImplementedError


class OfFunction(OfTransition):
    """Base class of `FunctionReward` and `FunctionTermination`, which wrap a plain function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._draws = takes_rng(function)

    @property
    def draws(self) -> bool:
        return self._draws

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        function = self.function
        if not self._draws:
            return function(state, action, next_state)
        if rng is not None:
            return function(state, action, next_state, rng=rng)
        parameter = _rng_parameter(function)
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            raise SpecError(f"rng: {function!r} needs a generator; call it with rng=numpy.random.default_rng(seed)")
        return function(state, action, next_state)

    def parts(self) -> list[tuple[str, Any]]:
        return [("function", self.function)]


class OfTerms(OfTransition):
    """Combines functions of a transition; a combination inside another of the same class is flattened."""

    def __init__(self, terms: Iterable[Any]) -> None:
        self.terms: tuple[Any, ...] = tuple(
            inner for term in terms for inner in (term.terms if type(term) is type(self) else (term,))
        )

    @property
    def draws(self) -> bool:
        return any(term.draws for term in self.terms)

    def _combine(self, one: Any, other: Any) -> Any:
        raise NotImplementedError

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        # All terms are called, so that the random numbers of one do not depend on the results of others. Not by
        # `functools.reduce`, because the list and the calls take a quarter of a sum's time.
        total = self.terms[0].drawn(state, action, next_state, rng)
        for term in self.terms[1:]:
            total = self._combine(total, term.drawn(state, action, next_state, rng))
        return total


def as_function(given: Any, kind: type[Any], convert: Callable[[Any], Any]) -> Any:
    """Returns an object of a class as it is, and converts a plain function to one."""
    if isinstance(given, kind):
        return given
    if callable(given) and not isinstance(given, type):
        return convert(given)
    hint = "; make an instance of the class" if callable(given) else ""
    name = kind.__name__
    raise SpecError(
        f"{name.lower()}: expected a {name} or a function of (state, action, next_state), got {given!r}{hint}"
    )


RewardFunction = Callable[..., Any]
"""`(state, action, next_state) -> reward`, with or without a keyword `rng`."""


class Rewarder(OfTransition):
    """A reward function with a range. Subclasses define `__call__`, and `reward_range` if it is known.

    Attributes:
        reward_range: The lowest and the highest reward.
    """

    reward_range: tuple[float, float] = (-float("inf"), float("inf"))

    __array_ufunc__ = None  # so that numpy scalars defer `number * rewarder` to `__rmul__`

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        """Returns the reward of a transition, or an array of n rewards if the arguments are batches of n."""
        raise NotImplementedError

    @property
    def spec(self) -> SpecTree:
        """The spec of the reward. The default is a float64 scalar within `reward_range`."""
        low, high = self.reward_range
        return Array((), "float64", None if low == -np.inf else low, None if high == np.inf else high, "reward")

    def relabel(
        self, transitions: Iterable[tuple[Any, Any, Any]], rng: np.random.Generator | None = None
    ) -> NDArray[Any]:
        """Computes the rewards of recorded transitions.

        Args:
            transitions: T triples (state, action, next_state).
            rng: The random generator, for a rewarder that takes one.

        Returns:
            The reward of each transition, of shape (T, …).
        """
        return np.array([self.drawn(*transition, rng) for transition in transitions])

    def __add__(self, other: Rewarder | RewardFunction) -> Rewarder:
        return Sum(self, other)

    def __radd__(self, other: Any) -> Rewarder:
        if isinstance(other, int) and other == 0:  # the initial value of sum(…)
            return self
        return Sum(cast("RewardFunction", other), self)

    def __mul__(self, weight: float) -> Rewarder:
        return Scaled(self, weight)

    __rmul__ = __mul__

    def __neg__(self) -> Rewarder:
        return Scaled(self, -1)

    def __sub__(self, other: Rewarder | RewardFunction) -> Rewarder:
        return Sum(self, Scaled(other, -1))

    def __rsub__(self, other: Any) -> Rewarder:
        return Sum(other, -self)


class FunctionReward(OfFunction, Rewarder):
    """Makes a rewarder from a plain function.

    Args:
        function: `(state, action, next_state) -> reward`; if it has a parameter `rng`, it receives a generator.
        low: The lowest reward that it returns.
        high: The highest reward that it returns.

    Raises:
        SpecError: `low` exceeds `high`.
    """

    def __init__(self, function: RewardFunction, low: float = -float("inf"), high: float = float("inf")) -> None:
        if not low <= high:
            raise SpecError(f"low, high: expected low ≤ high, got {low} and {high}")
        super().__init__(function)
        self.reward_range = (low, high)

    def parts(self) -> list[tuple[str, Any]]:
        return [("function", self.function), ("reward_range", self.reward_range)]


class _Specified(Rewarder):
    """Base class of rewarders that take their range from their spec."""

    @property
    def reward_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return spec_range(self.spec)


_PROTOCOL = ("envoi.protocol.", "envoi.authoring.")
"""The packages of the classes that models inherit from."""


class ModelReward(_Specified):
    """The reward that the model's own `reward` computes, with the model's reward spec.

    Args:
        model: The model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        return self.model.reward(state, action, next_state)

    def parts(self) -> list[tuple[str, Any]]:
        # Two instances of a model class with the same settings have equal rewards, whatever their episodes' states.
        # Attributes that the base classes declare belong to the protocol and the episode; the others are settings.
        bases = [kind for kind in type(self.model).__mro__ if kind.__module__.startswith(_PROTOCOL)]
        declared = {name for kind in bases for name in kind.__annotations__}
        attributes: dict[str, Any] = self.model.__dict__
        settings = sorted((name, value) for name, value in attributes.items() if name not in declared)
        return [("model", type(self.model)), *settings]

    @property
    def spec(self) -> SpecTree:
        return self.model.declared_reward_spec


_IN_PROGRESS: ContextVar[Any] = ContextVar("the native reward of the step that is being rewarded")


class NativeReward(_Specified):
    """The reward that an imported environment itself computes in each step.

    It is known only during that step. You can compose it with other rewarders, but not compute it for other
    transitions.

    Args:
        spec: The spec of the reward.
    """

    def __init__(self, spec: SpecTree) -> None:
        self._spec = spec

    @property
    def spec(self) -> SpecTree:
        return self._spec

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        try:
            return _IN_PROGRESS.get()
        except LookupError:
            raise SpecError(
                "rewarder: the reward of an imported environment exists only while that environment steps; "
                "for other transitions write it as a function of (state, action, next_state)"
            ) from None


class StreamBound(Rewarder):
    """A rewarder that takes a generator, bound to the random stream of an environment."""

    def __init__(self, rewarder: Rewarder, process: Any) -> None:
        self.rewarder, self.process = rewarder, process

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        return self.rewarder.drawn(state, action, next_state, self.process.streams.reward)


def stream_bound(rewarder: Rewarder, process: Any) -> Rewarder:
    """Returns the rewarder as an environment calls it: bound to the environment's stream if it takes a generator."""
    return StreamBound(rewarder, process) if rewarder.draws else rewarder


class Sum(OfTerms, _Specified):
    """Adds the rewards of several rewarders. Nested sums are flattened.

    If a reward is a dict by agent, so is the sum: each agent's rewards are added, and a reward that is not a dict is
    added for every agent.

    Args:
        *terms: The rewarders, or functions (state, action, next_state).

    Raises:
        SpecError: A term is not a rewarder or function, or the rewards are not arrays of one shape.
    """

    def __init__(self, *terms: Rewarder | RewardFunction) -> None:
        super().__init__(map(as_rewarder, terms))
        _ = self.spec  # refuses shapes that cannot be added

    @property
    def spec(self) -> SpecTree:
        """The spec of the sum, or a dict of specs by agent if a term has such a dict."""
        return _combined([term.spec for term in self.terms], _sum)

    def _combine(self, one: Any, other: Any) -> Any:
        if not isinstance(one, AnyMapping) and not isinstance(other, AnyMapping):
            return one + other
        return {agent: _share(one, agent, 0) + _share(other, agent, 0) for agent in _agents(one, other)}


class Scaled(_Specified):
    """Multiplies the reward of a rewarder by a weight.

    Args:
        rewarder: The rewarder, or a function (state, action, next_state).
        weight: The factor, a real number.

    Raises:
        SpecError: `rewarder` is not a rewarder or function, `weight` is not a number, or the reward is not an array.
    """

    def __init__(self, rewarder: Rewarder | RewardFunction, weight: float) -> None:
        number: Any = weight.item() if np.ndim(weight) == 0 and isinstance(weight, AnyArray) else weight
        if not isinstance(number, Real):
            raise SpecError(
                f"weight: expected a number, got {weight!r}; rewarders are added to each other and scaled by numbers"
            )
        self.rewarder, self.weight = as_rewarder(rewarder), cast("float", number)
        _ = self.spec  # refuses what is no array

    @property
    def spec(self) -> SpecTree:
        return _combined([self.rewarder.spec], partial(_scaled, weight=self.weight))

    @property
    def draws(self) -> bool:
        return self.rewarder.draws

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        reward = self.rewarder.drawn(state, action, next_state, rng)
        if isinstance(reward, AnyMapping):
            return {agent: self.weight * own for agent, own in reward.items()}
        return self.weight * reward


FOREIGN_REWARDERS: dict[type, Callable[[Any], Rewarder]] = {}
"""Functions that convert rewarders of other libraries, by the rewarder's class; each library's adapter adds its own."""


def as_rewarder(rewarder: Any) -> Rewarder:
    """Returns a rewarder unchanged, and converts a function or another library's rewarder to a `Rewarder`."""
    for kind, convert in FOREIGN_REWARDERS.items():
        if isinstance(rewarder, kind):
            return convert(rewarder)
    return as_function(rewarder, Rewarder, FunctionReward)


def spec_range(spec: SpecTree) -> tuple[float, float]:
    """Returns the lowest and the highest number that a possibly nested reward spec allows."""
    lows: list[float] = []
    highs: list[float] = []
    for _, leaf in tree.leaves(spec):
        low, high = getattr(leaf, "low", None), getattr(leaf, "high", None)
        lows.append(-np.inf if low is None or not low.size else float(low.min()))
        highs.append(np.inf if high is None or not high.size else float(high.max()))
    return min(lows, default=0.0), max(highs, default=0.0)


def _agents(*values: Any) -> list[Any]:
    """Returns all agents in the values that are mappings, without duplicates."""
    return list(dict.fromkeys(agent for value in values if isinstance(value, AnyMapping) for agent in value))


def _combined(specs: list[SpecTree], combine: Callable[[list[Array]], Array]) -> SpecTree:
    """Returns the spec of a composed reward; a dict of specs by agent if one of `specs` is a dict."""
    agents = _agents(*specs)
    if agents:
        none = Array((), "float64", 0, 0)
        return {agent: _combined([_share(spec, agent, none) for spec in specs], combine) for agent in agents}
    for spec in specs:
        if not isinstance(spec, Array):
            raise SpecError(f"rewarder: expected a reward that is one array to compose, got {spec!r}")
    return combine(specs)


def _share(whole: Any, agent: Any, none: Any) -> Any:
    """Returns an agent's entry of a mapping; anything else unchanged."""
    return whole.get(agent, none) if isinstance(whole, AnyMapping) else whole


def _sum(arrays: list[Array]) -> Array:
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1:
        raise SpecError(f"rewarder: expected rewards of one shape to add, got shapes {shapes}")
    lows, highs = zip(*map(_bounds, arrays), strict=True)
    return _between(np.sum(lows, axis=0), np.sum(highs, axis=0))


def _scaled(arrays: list[Array], weight: float) -> Array:
    (array,) = arrays
    if not weight:  # 0·inf would be nan
        return _between(np.zeros(array.shape), np.zeros(array.shape))
    ends = [weight * bound for bound in _bounds(array)]
    return _between(np.minimum(*ends), np.maximum(*ends))


def _bounds(spec: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.full(spec.shape, -np.inf) if spec.low_or_inf is None else spec.low_or_inf.astype(np.float64)
    high = np.full(spec.shape, np.inf) if spec.high_or_inf is None else spec.high_or_inf.astype(np.float64)
    return low, high


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> Array:
    bottom = None if np.isneginf(low).all() else low
    return Array(low.shape, "float64", bottom, None if np.isposinf(high).all() else high, "reward")


def asks_for_native_reward(rewarder: Any) -> bool:
    """Returns True for a `NativeReward`, and for a rewarder that contains one, such as a sum."""
    if isinstance(rewarder, NativeReward):
        return True
    if isinstance(rewarder, Rewarder):
        return any(asks_for_native_reward(part) for _, part in rewarder.parts())
    return tree.is_branch(rewarder) and any(asks_for_native_reward(part) for _, part in tree.leaves(rewarder))


def reward_step(rewarder: Rewarder, native: Any, state: Any, action: Any, next_state: Any) -> Any:
    """Returns the reward of a step of an imported environment."""
    token = _IN_PROGRESS.set(native)
    try:
        return rewarder(state, action, next_state)
    finally:
        _IN_PROGRESS.reset(token)
