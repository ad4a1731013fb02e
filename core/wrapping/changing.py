"""The common part of lifted wrappers over all kinds of environments: a change, and its consequences."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from ..errors import SpecError
from ..rewards.reward_arithmetic import spec_range
from ..rewards.rewarder import Rewarder, RewardFunction
from ..spec.base import shown
from .by_lane import over_lanes
from .change import Change, Specs
from .delegate import Around, Inside


class Changing(Around[Inside]):
    """An environment around another one, with the values that `change` describes.

    Args:
        env: The environment inside.
    """

    # All that follows from the change: copies and pickles leave it out, for functions cannot be pickled.
    _planned: tuple[str, ...] = (
        *("_change", "_shared", "_inner_step", "_layer_plan", "_no_flags", "_six_values"),
        "_ignores_beginnings",
        *("_step_limit", "_step_counted", "_highest"),
        *("_act", "_see", "_pay", "_begin", "_remember", "_note", "_end", "_tell"),
    )

    _step_limit: int | None = None

    def __init__(self, env: Inside) -> None:
        super().__init__(env)
        self._plan()

    def change(self, specs: Specs) -> Change:
        """Returns the change for one agent.

        Called once per agent at construction, and again when the specs inside have changed.

        Args:
            specs: The specs inside, of one agent.
        """
        return Change()

    def beginning(self, restart: Any) -> AbstractContextManager[None]:
        """Returns the context of a step inside in which lanes are auto-reset; a `reset` has none.

        What it does on entry it takes back if the step is refused, which leaves it with an error.

        Args:
            restart: The mask of these lanes, shape (n,).
        """
        return nullcontext()

    def _plan(self) -> None:
        """Asks for the change, sets the specs, and decides all that a step need not decide."""
        raise NotImplementedError

    def _checked_change(self, specs: Specs) -> Change:
        """Returns the change for these specs, whose functions take all lanes, and keeps its limit of steps.

        Raises:
            SpecError: `change` returns something else.
        """
        change = self.change(specs)
        if not isinstance(cast("object", change), Change):
            raise SpecError(
                f"change: expected an envoi.Change, got {shown(change)}; return one from the method `change`"
            )
        self._step_limit = change.limit
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
