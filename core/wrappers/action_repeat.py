"""A wrapper that repeats each action."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..protocol.env import Step
from ..protocol.infos import Infos
from ..protocol.multi_env import MASK, MultiStep
from ..protocol.process import Info
from ..spec import Array, SpecTree
from ..spec.arrays import bounds_or_inf
from ..wrapping.arguments import acting, at_least, check_waiting
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


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
        """A step with its repetitions; in a batch by the lanes that acted in it."""
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
    """Two steps as one, where in the later only the lanes have `acted`."""
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
    """Returns two steps of several agents as one; an agent that joined in the later has nothing of the first."""

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
    """Returns the spec of up to `times` values of another spec, combined."""
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
