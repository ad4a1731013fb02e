"""Wrappers of actions: clipping, discretizing, offsets, one-hot vectors, actions that are never legal, and repeats."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tree
from ..errors import SpecError
from ..protocol.env import Step
from ..protocol.infos import Infos
from ..protocol.multi_env import MASK, MultiStep
from ..protocol.process import Info
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, SpecTree
from ..spec.arrays import Bound, bounds, bounds_or_inf
from ..spec.base import shown
from ..spec.nested import check_branch
from ..wrapping.arguments import acting, at_least, check_waiting, counts, each_leaf, integers, plus
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ActionClip(Lifted):
    """Clips actions to the bounds of the action spec, so that agents may send any number.

    The action spec keeps its bounds, because random exploration, squashing policies and normalization read them there.
    TF-Agents does the same; gymnasium's `ClipAction` drops the bounds, as `unbounded=True` does here.

    Args:
        env: The environment.
        unbounded: If True, drop the bounds of floating-point leaves from the action spec.

    Raises:
        SpecError: No leaf of the action has a bound.
    """

    def __init__(self, env: Any, unbounded: bool = False) -> None:
        self.unbounded = unbounded
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        if all(low is None and high is None for low, high in (bounds(leaf) for _, leaf in tree.leaves(spec))):
            raise SpecError(f"ActionClip: expected an action with bounds, got {spec!r}")
        ends: Any = tree.map_leaves(bounds, spec)
        return Change(
            action_spec=tree.map_leaves(_without_bounds, spec) if self.unbounded else None,
            action=lambda action: tree.map_leaves(_clipped, spec, ends, action),
        )


def _without_bounds(spec: Any) -> Any:
    is_float = isinstance(spec, Array) and spec.dtype.kind == "f"
    return Array(spec.shape, spec.dtype, name=spec.name) if is_float else spec


def _clipped(spec: Any, ends: tuple[Bound, Bound], value: Any) -> Any:
    low, high = ends
    return value if low is None and high is None else np.clip(np.asarray(value), low, high)


class ActionDiscretize(Lifted):
    """Replaces continuous actions by integers: 0 is the lower bound, n - 1 the upper, evenly spaced.

    An array of one element becomes a `Discrete`, a larger one a `MultiDiscrete`. Leaves that are not floating-point
    arrays do not change.

    Args:
        env: The environment; the floating-point leaves of its action have finite bounds.
        num_actions: The number of values per element, at least 2: an integer, or an array that broadcasts to the shape
            of the action. For a nested action, also a nested structure with an integer or array per leaf.
        dtype: The integer dtype of the new actions. Gymnasium's discrete spaces use the default; TF-Agents'
            `ActionDiscretizeWrapper` uses `"int32"`.

    Raises:
        SpecError: The action has no continuous leaf, or one without finite bounds; `num_actions` is below 2 or does not
            fit the action; or `dtype` is not an integer dtype, or too narrow.
    """

    def __init__(self, env: Any, num_actions: Any, dtype: DTypeLike = "int64") -> None:
        self.num_actions, self.dtype = num_actions, dtype
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        tables: Any = each_leaf(spec, _table, _spread(self.num_actions, spec, "num_actions"))
        if all(table is None for _, table in tree.leaves(tables)):
            raise SpecError(f"ActionDiscretize: expected a continuous action, got {spec!r}")
        return Change(
            action_spec=each_leaf(spec, self._numbered, tables),
            action=lambda action: tree.map_leaves(_looked_up, spec, tables, action),
        )

    def _numbered(self, spec: Any, path: str, table: _Values | None) -> Any:
        if table is None:
            return spec
        number, one = table.number, table.number.size == 1
        try:
            if one:
                return Discrete(int(number.flat[0]), dtype=self.dtype, name=spec.name)
            return MultiDiscrete(number, dtype=self.dtype, name=spec.name)
        except (SpecError, TypeError) as error:
            raise SpecError(
                f"dtype: expected an integer dtype that holds the numbers of {path}, up to {int(number.max()) - 1}, "
                f"got {self.dtype!r} ({error})"
            ) from error


def _spread(given: Any, spec: SpecTree, path: str) -> Any:
    """Returns an option for each leaf of the spec; it was given for all leaves or in the structure of the spec."""
    if not tree.is_branch(spec) or not tree.is_branch(given):
        return tree.map_leaves(lambda leaf: given, spec)
    check_branch(spec, given, path)
    return tree.rebuild(spec, [_spread(given[key], sub, path + part) for part, key, sub in tree.children(spec)])


class _Values:
    """The values that each element of an array may have, indexed by integers."""

    def __init__(self, number: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.number, self.values = number, values


def _table(spec: Any, path: str, number: Any) -> _Values | None:
    if not (isinstance(spec, Array) and spec.dtype.kind == "f"):
        return None
    if spec.low is None or spec.high is None or not np.isfinite([spec.low, spec.high]).all():
        raise SpecError(f"{path}: expected finite bounds to divide, got {spec!r}")
    given = np.asarray(number)
    try:
        many = np.broadcast_to(given, spec.shape)
    except ValueError:
        many = None
    if many is None or given.dtype.kind not in "iu" or (many < 2).any():
        raise SpecError(
            f"num_actions: expected integers of at least 2, one or an array that broadcasts to the shape {spec.shape} "
            f"of {path}, got {number!r}"
        )
    low, high = spec.low.astype(np.float64)[..., None], spec.high.astype(np.float64)[..., None]
    index = np.arange(int(many.max(initial=2)))
    share = index / (many[..., None] - 1)
    # Weighted, for the difference of two bounds may overflow; and clipped, for the weights may round.
    values = np.clip(low * (1 - share) + high * share, low, high).astype(spec.dtype)
    return _Values(many.astype(np.int64), np.where(index < many[..., None], values, np.nan).astype(spec.dtype))


def _looked_up(spec: Any, table: _Values | None, number: Any) -> Any:
    if table is None:
        return number
    chosen = np.asarray(number)
    shape = () if table.number.size == 1 else spec.shape
    if chosen.dtype.kind not in "iu" or chosen.shape[chosen.ndim - len(shape) :] != shape:
        raise SpecError(f"action: expected integers of shape {shape}, got {shown(number)}")
    if (chosen < 0).any() or (chosen >= (table.number.reshape(()) if not shape else table.number)).any():
        raise SpecError(f"action: expected integers from 0 to {(table.number - 1).tolist()}, got {chosen.tolist()}")
    if table.number.size == 1:
        return np.asarray(table.values.reshape(-1)[chosen]).reshape(chosen.shape + spec.shape)
    return table.values[(*np.indices(spec.shape, sparse=True), chosen)]


class ActionOffset(Lifted):
    """Shifts integer actions so that they start at zero, as most learners expect.

    Args:
        env: The environment; every leaf of its action holds bounded integers.

    Raises:
        SpecError: A leaf of the action does not hold bounded integers, or the shifted range does not fit its dtype.
    """

    def change(self, specs: Specs) -> Change:
        from_zero = each_leaf(specs.action, self._from_zero)
        start: Any = tree.map_leaves(lambda leaf: bounds(leaf)[0], specs.action)
        return Change(
            action_spec=from_zero,
            action=lambda action: tree.map_leaves(plus, start, action),
        )

    def _from_zero(self, spec: Any, path: str) -> Any:
        ends = integers(spec)
        if ends is None:
            raise SpecError(f"{path}: expected integers with bounds to count from zero on, got {spec!r}")
        try:
            if isinstance(spec, Discrete):
                return Discrete(spec.n, 0, spec.dtype, spec.name)
            if isinstance(spec, MultiDiscrete):
                return MultiDiscrete(spec.nvec, 0, spec.dtype, spec.name)
            return Array(spec.shape, spec.dtype, 0, counts(*ends) - 1, spec.name) if isinstance(spec, Array) else spec
        except SpecError as error:
            raise SpecError(f"{path}: counted from zero, {spec!r} does not fit its dtype ({error})") from error


class OneHotAction(Lifted):
    """Accepts one-hot vectors in place of integer actions: the largest element wins (the first if several are equal).

    Each integer becomes a new last axis with one element per value. Leaves that are not bounded integers do not change,
    nor does an action without integers.

    Args:
        env: The environment. Within each integer leaf of its action, all elements must have the same number of values.

    Raises:
        SpecError: The action has integers but none with bounds, or the elements of a leaf have different numbers of
            values.
    """

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        held = [leaf for _, leaf in tree.leaves(spec)]
        if all(integers(leaf) is None for leaf in held):
            if any(isinstance(leaf, Array) and leaf.dtype.kind in "iu" for leaf in held):
                raise SpecError(f"OneHotAction: expected an action whose integers have bounds, got {spec!r}")
            return Change()
        hot: Any = each_leaf(spec, _one_hot)
        numbers = tree.map_leaves(lambda leaf, one: None if integers(leaf) is None else one.shape[-1], spec, hot)
        start: Any = tree.map_leaves(lambda leaf: bounds(leaf)[0], spec)
        return Change(action_spec=hot, action=lambda action: tree.map_leaves(_largest, numbers, start, action))


def _one_hot(spec: Any, path: str) -> Any:
    ends = integers(spec)
    if ends is None:
        return spec
    number = np.unique(counts(*ends))
    if len(number) != 1:
        raise SpecError(f"{path}: expected one number of values for all elements, got {number.tolist()} in {spec!r}")
    if number[0] > np.iinfo(np.intp).max:
        raise SpecError(
            f"{path}: expected integers of so few values that an array holds one element each, got {spec!r}"
        )
    return Array((*spec.shape, int(number[0])), spec.dtype, 0, 1, spec.name)


def _largest(number: int | None, start: Any, value: Any) -> Any:
    if number is None:
        return value
    if np.shape(value)[-1:] != (number,):
        raise SpecError(f"action: expected a last axis of {number}, one-hot, got {shown(value)}")
    return plus(start, np.argmax(value, axis=-1))


class ExtraDisabledActions(Lifted):
    """Adds actions that are never legal, for learners that need more actions.

    An observation becomes `(observation, mask)`, and `info["action_mask"]` holds the mask too: int8 of shape
    (actions,), 1 where an action is legal. Actions that the environment's own mask forbids stay forbidden.

    Args:
        env: The environment; its action is one bounded integer.
        num_extra_actions: The number of actions to add above the largest, at least 0.

    Raises:
        SpecError: The action is not one bounded integer, or `num_extra_actions` is not an integer of at least 0. A step
            raises it if the action is one of those added.
    """

    def __init__(self, env: Any, num_extra_actions: int) -> None:
        self.num_extra_actions = at_least(num_extra_actions, 0, "num_extra_actions")
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec, extra = specs.action, self.num_extra_actions
        ends = integers(spec)
        if ends is None or spec.shape:
            raise SpecError(f"ExtraDisabledActions: expected an action that is one integer with bounds, got {spec!r}")
        n = int(counts(*ends))
        if isinstance(spec, Array):
            more: Any = Array((), spec.dtype, spec.low, int(ends[1]) + extra, spec.name)
        else:
            more = Discrete(n + extra, int(ends[0]), spec.dtype, spec.name)
        lanes = () if specs.lanes is None else (specs.lanes,)
        mask = np.concatenate([np.ones((*lanes, n), np.int8), np.zeros((*lanes, extra), np.int8)], axis=-1)

        def note(held: NDArray[np.int8], info: Any) -> NDArray[np.int8]:
            return _masked(mask, n, info)

        def info(held: NDArray[np.int8]) -> dict[str, Any]:
            return {MASK: held.copy()}

        return Change(
            observation_spec=(specs.observation, MultiBinary((n + extra,), MASK)),
            action_spec=more,
            begin=lambda observation: mask,
            note=note,
            observation=lambda observation, held: (observation, held.copy()),
            info=info,
            action=lambda action: _enabled(action, int(ends[1])),
        )


def _enabled(action: Any, last: int) -> Any:
    if np.any(np.asarray(action) > last):
        raise SpecError(f"action: {action} is disabled, for the actions above {last} are; see info[{MASK!r}]")
    return action


def _masked(mask: NDArray[np.int8], n: int, info: Infos | Mapping[Any, Any]) -> NDArray[np.int8]:
    """Returns the mask of all actions. The inner info's mask replaces its first n elements."""
    if isinstance(info, Infos):
        if MASK not in info.columns if info.columns is not None else not any(MASK in one for one in info):
            return mask
        return np.stack([_masked(own, n, one) for own, one in zip(mask, info, strict=True)])
    if MASK not in info:
        return mask
    given = np.asarray(info[MASK])
    if given.shape != (n,):
        raise SpecError(f"info[{MASK!r}]: expected shape ({n},), an element for each action, got {given.shape}")
    return np.concatenate([given.astype(np.int8), mask[n:]])


class ActionRepeat(Lifted):
    """Repeats each action `times` times or until the episode ends. Adds rewards and multiplies discounts.

    Infos are merged, and later entries win. In a batch, lanes that have ended wait while the others continue. In a
    multi-agent environment, actions repeat as long as the same agents act and no agent has ended.

    Args:
        env: The environment.
        times: The number of steps for each action, at least 2.

    Raises:
        SpecError: `times` is not an integer of at least 2, or the lanes of a batch cannot wait for each other.
    """

    def __init__(self, env: Any, times: int) -> None:
        self.times = at_least(times, 2, "times")
        super().__init__(env)
        check_waiting(self)

    def change(self, specs: Specs) -> Change:
        def accumulated(function: Callable[[Any, Any], Any], spec: SpecTree) -> Any:
            return tree.map_leaves(lambda leaf: _accumulated(function, leaf, self.times), spec)

        return Change(
            reward_spec=accumulated(operator.add, specs.reward),
            discount_spec=accumulated(operator.mul, specs.discount),
        )

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        take_back = self.env.hold_episode()
        try:
            return self._repeated(super().step(action, restart, hold), action, acting(restart, hold))
        except BaseException:
            take_back()
            raise

    def _repeated(self, step: Any, action: Any, acted: Any) -> Any:
        """Repeats the action and returns the combined step; in a batch, only in the lanes in `acted`."""
        for _ in range(self.times - 1):
            if self.is_several:  # isinstance takes as long as a step of a small model
                over = any((*step.terminated.values(), *step.truncated.values()))
                if over or set(cast("Any", self).acting) != set(action):
                    return step
                step = _together(step, cast("Any", super()).step(action))
            elif self.batch_size is None:
                if step.terminated or step.truncated:
                    return step
                step = _after(step, super().step(action), True)
            else:
                acted = acted & ~(step.terminated | step.truncated)
                if not acted.any():
                    return step
                step = _after(step, super().step(action, hold=~acted), acted)
        return step


def _after(step: Step, later: Step, acted: Any) -> Step:
    """Combines two steps into one; in a batch, `acted` are the lanes that acted in the later step."""
    info, later_info = cast("tuple[Any, Any]", (step.info, later.info))
    if type(info) is Infos and info.columns == {} == later_info.columns:
        pass  # both are empty
    elif isinstance(step.info, Infos):
        each = zip(step.info, later.info, acted.tolist(), strict=True)
        info = Infos([_merged(one, other) if goes_on else one for one, other, goes_on in each])
    else:
        info = _merged(step.info, later.info)
    return Step(
        later.observation,
        tree.map_leaves(operator.add, step.reward, later.reward),
        step.terminated | later.terminated,
        step.truncated | later.truncated,
        tree.map_leaves(operator.mul, step.discount, later.discount),
        cast("Any", info),
    )


def _together(step: MultiStep, later: MultiStep) -> MultiStep:
    """Combines two multi-agent steps into one. Agents that joined in the later step have only its values."""

    def each(function: Callable[[Any, Any], Any], one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
        return {agent: function(one[agent], own) if agent in one else own for agent, own in other.items()}

    return MultiStep(
        later.observations,
        each(lambda one, other: tree.map_leaves(operator.add, one, other), step.rewards, later.rewards),
        later.terminated,
        later.truncated,
        each(lambda one, other: tree.map_leaves(operator.mul, one, other), step.discounts, later.discounts),
        each(_merged, step.infos, {**{key: {} for key in step.infos}, **later.infos}),
    )


def _merged(info: Info, later: Info) -> Info:
    # A mask is only valid in its own step.
    return {**{key: value for key, value in info.items() if key != MASK}, **later}


def _accumulated(function: Callable[[Any, Any], Any], spec: Any, times: int) -> Array:
    """Returns the spec of the combination (sum or product) of up to `times` values."""
    low, high = bounds_or_inf(spec)
    if function is operator.mul and (low is None or (low < 0).any()):
        low = high = None

    def together(bound: Any) -> NDArray[Any]:
        # Step by step, as the values are: then rounding keeps the order. Integers as Python's, which cannot overflow.
        parts = [bound if spec.dtype.kind == "f" else bound.astype(object)] * times
        return np.array(list(accumulate(parts, function)))

    def ends(bound: Any, choose: Callable[..., Any]) -> Any:
        return None if bound is None else np.asarray(choose(together(bound), axis=0)).tolist()

    return Array(spec.shape, spec.dtype, ends(low, np.min), ends(high, np.max), spec.name)
