"""The common part of lifted wrappers over all kinds of environments: a change, and its consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..lane_values import lane, stack
from ..rewards.rewarder import Rewarder, RewardFunction, spec_range
from ..spec import SpecTree
from ..spec.base import shown
from .change import SPECS, Change, Specs
from .delegate import Around, Inside


class Changing(Around[Inside]):
    """An environment around another one, with the values that `change` describes."""

    # All that follows from the change: copies and pickles leave it out, for functions cannot be pickled.
    _planned: tuple[str, ...] = (
        *("planned_change", "_shared", "_inner_step", "_written_step", "_record_inside", "planned_limit"),
        *("_act", "_see", "_pay", "_begin", "_remember", "_note", "_end", "_tell", "_watch"),
    )

    planned_limit: int | None = None

    def __init__(self, env: Inside) -> None:
        super().__init__(env)
        self._plan()

    def change(self, specs: Specs) -> Change:
        """Returns the change for one agent.

        Called once per agent at construction, and again when the specs inside have changed.
        """
        return Change()

    def beginning(self, restart: Any) -> Any:
        """Prepares a step inside in which lanes are auto-reset; a `reset` has none.

        Returns:
            An object whose `stepped()` is called after the step inside, and whose `__exit__` when all layers have
            stepped, or with the error of one, when it takes back what was done.
        """
        raise NotImplementedError

    def _plan(self) -> None:
        """Asks for the change, sets the specs, and decides all that a step need not decide."""
        raise NotImplementedError

    def _checked_change(self, specs: Specs) -> Change:
        """Returns the change for these specs, whose functions take all lanes, and keeps its limit of steps."""
        change = self.change(specs)
        if not isinstance(cast("object", change), Change):
            raise SpecError(
                f"change: expected an envoi.Change, got {shown(change)}; return one from the method `change`"
            )
        self.planned_limit = change.limit
        return over_lanes(change.counting(specs.lanes), specs)

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; setting it here sets it there."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder
        self._plan()  # its spec follows

    @property
    def reward_range(self) -> tuple[float, float]:
        """The (lowest, highest) reward: the rewarder's, unless this wrapper changes rewards."""
        changed = self.reward_spec is not self.env.reward_spec
        return spec_range(self.reward_spec) if changed else self.env.reward_range

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()


Split: TypeAlias = Callable[[Any], Iterable[Any]]
Join: TypeAlias = Callable[[list[Any]], Any]


def vectorise(function: Callable[..., Any], join: Join, *splits: Split) -> Callable[..., Any]:
    """Returns a function of all lanes that calls `function` once per lane."""

    def all_lanes(*arguments: Any) -> Any:
        lanes = (split(argument) for split, argument in zip(splits, arguments, strict=True))
        return join([function(*one) for one in zip(*lanes, strict=True)])

    return all_lanes


def over_lanes(change: Change, specs: Specs) -> Change:
    """Returns a change whose functions take all lanes: the same, or with `by_lane` one that loops."""
    n = specs.lanes
    if n is None or not change.by_lane:
        return change

    def lanes(spec: SpecTree) -> Split:
        return lambda values: [lane(spec, values, index) for index in range(n)]

    def stacked(spec: SpecTree) -> Join:
        return lambda values: stack(spec, values)

    def flags(given: Any) -> list[bool]:
        return np.broadcast_to(given, n).tolist()

    def looped(function: Callable[..., Any] | None, join: Join, *splits: Split) -> Any:
        return None if function is None else vectorise(function, join, *splits)

    outside = outer_specs(change, specs)
    acting, seeing, paid = lanes(outside.action), lanes(specs.observation), lanes(specs.reward)
    memory: list[Split] = [] if change.begin is None else [iter]
    return replace(
        change,
        action=looped(change.action, stacked(specs.action), acting),
        observation=looped(change.observation, stacked(outside.observation), seeing, *memory),
        reward=looped(change.reward, stacked(outside.reward), paid, *memory),
        begin=looped(change.begin, _objects, seeing),
        remember=looped(change.remember, _objects, iter, acting, seeing, paid),
        note=looped(change.note, _objects, iter, iter),
        truncated=looped(change.truncated, lambda values: np.array(values, bool), flags, iter),
        info=looped(change.info, _columns, iter) if memory else change.info,
        by_lane=False,
    )


def outer_specs(change: Change, specs: Specs) -> Specs:
    """Returns the specs outside a change: its own, and the inner ones that it leaves as they are."""
    own = {name.removesuffix("_spec"): getattr(change, name) for name in SPECS}
    return specs._replace(**{name: spec for name, spec in own.items() if spec is not None})


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [entry[name] for entry in entries] for name in entries[0]}
