"""Actions that exist and are never legal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..protocol.infos import Infos
from ..protocol.multi_env import MASK
from ..spec import Array, Discrete, MultiBinary
from ..wrapping.arguments import at_least
from ..wrapping.bounds import counts, integers
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ExtraDisabledActions(Lifted):
    """Adds actions that are always disabled, for a learner that wants more of them than there are.

    An observation becomes `(observation, mask)`, and the mask is in the info as `"action_mask"` too: int8 of shape
    (actions,), 1 where an action is legal. Actions that a mask in the info inside forbids remain forbidden.

    Args:
        env: The environment; its action is one integer with bounds.
        num_extra_actions: How many actions to add above the largest, at least 0.

    Raises:
        SpecError: The action is something else, or the number is none; on a step by one of the actions added.
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
    """Returns the mask of all actions, with the mask of the first n in the info inside."""
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
