"""How the steps of an agent go with those inside: several for one, or none any more."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..batching.values import Infos
from ..errors import EpisodeError, SpecError
from ..protocol.batch_env import as_mask
from ..protocol.env import ENDED, ENDED_LANES, Step
from ..protocol.multi_env import COMMON, MASK, MultiEnv, MultiReset, MultiStep
from ..protocol.process import Info
from ..protocol.roster import check_actions
from ..spec import Array, SpecTree
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted, ended
from ..wrapping.lifted_multi import OverSeveral
from ..wrapping.lifted_single import OverOne, zeroed
from .bounds import at_least, bounds_or_inf, with_zero

PADDING = "padding"
"""The key, in the info, that marks a step after the end of an episode inside a `FixedLength`."""


class ActionRepeat(Lifted):
    """Repeats each action until the episode ends; rewards are added and discounts multiplied.

    Infos are merged, the later over the earlier. Lanes of a batch that have ended stand still while the others go on.
    Several agents repeat their actions for as long as exactly the same ones are to act, and nobody ends.

    Args:
        env: The environment.
        times: How often, at least 2.

    Raises:
        SpecError: The number is none, or the lanes of a batch cannot wait for each other.
    """

    def __init__(self, env: Any, times: int) -> None:
        self.times = at_least(times, 2, "times")
        super().__init__(env)
        _check_waiting(self)

    def change(self, specs: Specs) -> Change:
        def accumulated(function: Callable[[Any, Any], Any], spec: SpecTree) -> Any:
            return tree.map_leaves(lambda leaf: _accumulated(function, leaf, self.times), spec)

        return Change(
            reward_spec=accumulated(operator.add, specs.reward),
            discount_spec=accumulated(operator.mul, specs.discount),
        )

    def step(self, action: Any, restart: Any = None) -> Any:
        step = super().step(action, restart)
        return self._repeated(step, action, True if restart is None else ~np.asarray(restart))

    def step_lanes(self, action: Any, lanes: Any) -> Any:
        return self._repeated(super().step_lanes(action, lanes), action, np.asarray(lanes))

    def _repeated(self, step: Any, action: Any, acted: Any) -> Any:
        """A step with its repetitions; in a batch by the lanes that acted in it."""
        for _ in range(self.times - 1):
            if isinstance(self, MultiEnv):
                over = any((*step.terminated.values(), *step.truncated.values()))
                if over or set(self.acting) != set(action):
                    return step
                step = _together(step, cast("Any", super()).step(action))
            elif self.batch_size is None:
                if ended(self, step):
                    return step
                step = _after(step, super().step(action), True)
            else:
                acted = acted & ~ended(self, step)
                if not acted.any():
                    return step
                step = _after(step, super().step_lanes(action, acted), acted)
        return step


def _after(step: Step, later: Step, acted: Any) -> Step:
    """Two steps as one, where in the later only the lanes have `acted`."""
    if isinstance(step.info, Infos):
        each = zip(step.info, cast("Infos", later.info), acted.tolist(), strict=True)
        info: Any = Infos([_merged(one, other) if goes_on else one for one, other, goes_on in each])
    else:
        info = _merged(step.info, later.info)
    return Step(
        later.observation,
        tree.map_leaves(operator.add, step.reward, later.reward),
        step.terminated | later.terminated,
        step.truncated | later.truncated,
        tree.map_leaves(operator.mul, step.discount, later.discount),
        info,
    )


def _together(step: MultiStep, later: MultiStep) -> MultiStep:
    """Two steps of several agents as one; who has joined in the later has nothing of the first."""

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
    # A mask speaks of its own moment alone.
    return {**{key: value for key, value in info.items() if key != MASK}, **later}


def _accumulated(function: Callable[[Any, Any], Any], spec: Any, times: int) -> Array:
    """The spec of what up to `times` values of another one make together."""
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


class _PaddedOne(OverOne):
    """One agent's episodes of one length, or those in the lanes of a batch."""

    memory = ("_elapsed", "_terminated", "_truncated")

    # How many steps the episode has had, and how it has ended inside; in a batch with one element a lane.
    _elapsed: Any = np.int64(0)
    _terminated: Any = np.False_
    _truncated: Any = np.False_

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Any:
        result = super().reset(seed=seed, options=options, mask=mask)
        began = self._lanes(True) if mask is None else np.asarray(mask)
        self._elapsed = np.where(began, 0, self._elapsed)
        self._terminated, self._truncated = self._terminated & ~began, self._truncated & ~began
        return result

    def step(self, action: Any, restart: Any = None) -> Step:
        if restart is None:
            return self._paced(action, self._lanes(True), None)
        began = cast("Any", as_mask(restart, self.batch_size or 0, "restart"))
        return self._paced(action, ~began, began)

    def step_lanes(self, action: Any, lanes: Any) -> Step:
        return self._paced(action, as_mask(lanes, cast("int", self.batch_size), "lanes"), None, some=True)

    def _lanes(self, flag: bool) -> Any:
        """One flag for all lanes, or for the one agent."""
        return np.full(() if self.batch_size is None else self.batch_size, flag)

    def _paced(self, action: Any, acting: Any, restart: Any, some: bool = False) -> Step:
        """A step of the lanes `acting`; of them alone, as in `step_lanes`, where it is to be of `some`."""
        over = acting & (self._elapsed >= cast("Any", self).fix_length)
        if over.any():
            raise EpisodeError(
                f"step: {ENDED}"
                if self.batch_size is None
                else f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}"
            )
        padding = acting & (self._terminated | self._truncated)
        if padding.any():
            step = self._padded(action, acting, restart, padding)
        else:
            step = super().step_lanes(action, acting) if some else super().step(action, restart)
        began = self._lanes(False) if restart is None else restart
        self._elapsed = np.where(began, 0, self._elapsed + acting)
        self._terminated = self._terminated & ~began | step.terminated
        self._truncated = self._truncated & ~began | step.truncated
        full = acting & (self._elapsed >= cast("Any", self).fix_length)
        terminated, truncated = full & self._terminated, full & (self._truncated | ~self._terminated)
        if self.batch_size is None:
            terminated, truncated = bool(terminated), bool(truncated)
        return step._replace(terminated=cast("Any", terminated), truncated=cast("Any", truncated))

    def _padded(self, action: Any, acting: Any, restart: Any, padding: Any) -> Step:
        """A step in which only those act inside that have not ended there."""
        if self.batch_size is None:
            reward, discount = (tree.map_leaves(_zero, spec) for spec in (self.reward_spec, self.discount_spec))
            return Step(self.observation, reward, False, False, discount, {PADDING: True})
        infos = [{PADDING: True} if padded else {} for padded in padding.tolist()]
        if restart is not None and restart.any():
            infos = [{**info, **first} for info, first in zip(infos, super().reset(mask=restart).info, strict=True)]
        step = super().step_lanes(action, acting & ~padding)
        infos = [{**info, **own} for info, own in zip(infos, step.info, strict=True)]
        discount = zeroed(step.discount, padding, self.discount_spec, zero=0)
        return step._replace(discount=discount, info=cast("Any", Infos(infos)))


class _PaddedSeveral(OverSeveral):
    """Several agents' episodes of one length."""

    memory = ("_elapsed", "_ends")

    _elapsed = 0
    _ends: Mapping[Any, tuple[bool, bool]] = {}

    @property
    def agents(self) -> tuple[Any, ...]:
        if self._elapsed >= cast("Any", self).fix_length:
            return ()
        playing = self.env.agents
        return tuple(agent for agent in self.possible_agents if agent in playing or agent in self._ends)

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return self.env.turn if self.agents and self.env.agents else None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        result = super().reset(seed=seed, options=options)
        self._elapsed, self._ends = 0, {}
        return result

    def step(self, actions: Mapping[Any, Any], restart: None = None) -> MultiStep:
        length, ends = cast("Any", self).fix_length, self._ends
        if ends:
            check_actions(actions, self.acting, None if self.agents else ENDED)
        elif self._elapsed >= length:
            check_actions(actions, (), ENDED)
        inside = MultiStep({}, {}, {}, {}, {}, {})
        if self.env.agents or not ends:
            inside = super().step({agent: action for agent, action in actions.items() if agent not in ends})
        self._elapsed += 1
        self._ends = {
            **ends,
            **{a: (flag, inside.truncated[a]) for a, flag in inside.terminated.items() if flag or inside.truncated[a]},
        }
        known = [agent for agent in self.possible_agents if agent in inside.rewards or agent in ends]
        full = self._elapsed >= length
        seeing = known if full else [agent for agent in known if agent in self.acting]
        terminated = {agent: full and self._ends.get(agent, (False, True))[0] for agent in known}
        truncated = {agent: full and self._ends.get(agent, (False, True))[1] for agent in known}

        def padded(values: Mapping[Any, Any], specs: Mapping[Any, SpecTree]) -> dict[Any, Any]:
            return {a: values[a] if a in values else tree.map_leaves(_zero, specs[a]) for a in known}

        infos: dict[Any, Info] = {a: inside.infos.get(a, {PADDING: True}) for a in known}
        return MultiStep(
            {a: inside.observations[a] if a in inside.observations else self.observation(a) for a in seeing},
            padded(inside.rewards, self.reward_spec),
            terminated,
            truncated,
            padded(inside.discounts, self.discount_spec),
            {**infos, **{key: info for key, info in inside.infos.items() if key == COMMON}},
        )


class FixedLength(Lifted):
    """Gives every episode exactly `fix_length` steps: longer ones are cut off, shorter ones padded.

    An episode that ends inside goes on, and no flag tells: the step in which it ended has its own reward and discount,
    and those after it repeat the last observation, whatever the action, with reward 0, discount 0 and
    `info["padding"]`; so its return stays what it was. The last step terminates an episode that has terminated inside,
    and truncates any other. (TF-Agents has the same values, but marks each step from the end inside on as the last.)

    The agents of several are padded each by itself, and end together. Where they take turns, those that have ended
    inside wait; once nobody is left there all of them act.

    Args:
        env: The environment.
        fix_length: How many steps, at least 1.

    Raises:
        SpecError: The number is none, or the lanes of a batch cannot wait for each other.
    """

    _one, _several = _PaddedOne, _PaddedSeveral

    def __init__(self, env: Any, fix_length: int) -> None:
        self.fix_length = at_least(fix_length, 1, "fix_length")
        super().__init__(env)
        _check_waiting(self)

    def change(self, specs: Specs) -> Change:
        return Change(
            reward_spec=tree.map_leaves(with_zero, specs.reward),
            discount_spec=tree.map_leaves(with_zero, specs.discount),
        )


def _zero(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)[()]


def _check_waiting(wrapper: Any) -> None:
    if getattr(wrapper, "batch_size", None) is not None and not wrapper.lanes_can_wait:
        raise SpecError(
            f"env: expected lanes that can wait for each other, and those of {wrapper.env!r} act together; "
            f"put {type(wrapper).__name__} around each of them, before they are a batch"
        )
