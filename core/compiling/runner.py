"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import empty

from .. import tree
from ..errors import EpisodeError, SpecError
from ..protocol.env import ENDED, ENDED_LANES
from ..spec import Spec, SpecTree
from .kernel_text import Action
from .plan import Plan

_KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}
"""The compiled kernels of this process, by their digests."""


class Runner:
    """Steps n lanes by a kernel.

    Args:
        plan: The plan of the kernel.
        action_spec: The spec of a lane's action.
        n: The number of lanes.
        examples: The kernel's own arguments, as in `Plan.compile`.

    Attributes:
        over: The lanes that have ended, bool of shape (n,).
        flags: The ends of the last step, `terminated` and `truncated`, bool of shape (2, n).
        none: A mask of no lane; do not write into it.
        idle: Valid actions, leaf by leaf.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int, examples: Sequence[Any]) -> None:
        if plan.digest not in _KERNELS:
            _KERNELS[plan.digest] = plan.compile(examples)
        self.plan, self._n = plan, n
        self._kernel, self._check = _KERNELS[plan.digest]
        self.idle = [_idle(action, n) for action in plan.actions]
        self._before, self._after = plan.layout.empty(n), plan.layout.empty(n)
        self.over, self.none, self.flags = np.zeros(n, bool), np.zeros(n, bool), np.zeros((2, n), bool)
        self._action_spec = action_spec
        self._one = plan.actions[0] if isinstance(action_spec, Spec) else None
        self._shape = (n, *self._one.shape) if self._one is not None else None
        self._dtype = None if self._one is None else self._one.dtype
        self._empties = [((n, *output.shape), output.dtype) for output in plan.outputs]

    def load(self, leaves: Sequence[Any], over: np.ndarray[Any, Any]) -> bool:
        """Takes over the states of all lanes.

        Args:
            leaves: The leaves of the states, arrays of shape (n, …).
            over: The lanes that have ended.

        Returns:
            False if the states are not of the dtypes that the kernel was compiled for.
        """
        layout = self.plan.layout
        arrays = layout.converted(leaves, self._n)
        if arrays is None:
            return False
        layout.write(self._before, arrays)
        self.over[:] = over
        return True

    def state(self) -> Any:
        """Returns the states of all lanes; the arrays are new."""
        return self.plan.layout.read(self._before)

    def actions(self, action: Any) -> Sequence[np.ndarray[Any, Any]] | None:
        """Returns the leaves of the actions as the kernel takes them.

        Args:
            action: The actions of all lanes.

        Returns:
            Arrays of shape (n, …); None if one has another dtype than its spec, with which the model may compute other
            values.

        Raises:
            SpecError: An action has another shape, or a dtype that cannot hold its spec's values.
        """
        if type(action) is np.ndarray and action.dtype == self._dtype and action.shape == self._shape:
            return (action if action.flags.carray else action.copy(),)
        return self._converted(action)

    def run(
        self,
        actions: Sequence[np.ndarray[Any, Any]],
        restart: np.ndarray[Any, Any],
        hold: np.ndarray[Any, Any],
        given: Sequence[Any],
    ) -> tuple[int, list[Any]]:
        """Steps all lanes.

        Args:
            actions: The result of `actions`.
            restart: The lanes that begin an episode instead.
            hold: The lanes that pause.
            given: The kernel's own arguments.

        Returns:
            The number of lanes that ended, whose ends are in `flags`, and the plan's outputs.
        """
        outputs = [empty(shape, dtype) for shape, dtype in self._empties]
        ended = self._kernel(
            self._before, self._after, restart, hold, self.over, self.flags, *given, *actions, *outputs
        )
        self._before, self._after = self._after, self._before
        return ended, outputs

    def check(self, actions: Sequence[np.ndarray[Any, Any]], restart: Any, hold: Any) -> None:
        """Checks that all lanes can act, before the random streams advance.

        Args:
            actions: The result of `actions`.
            restart: The lanes that begin an episode instead.
            hold: The lanes that pause.

        Raises:
            EpisodeError: A lane that acts has ended.
            SpecError: An action is out of its bounds.
        """
        code = self._check(restart, hold, self.over, *actions)
        if code < 0:
            self._refuse(-1 - code, actions, restart, hold)

    def _converted(self, action: Any) -> list[np.ndarray[Any, Any]] | None:
        converted: list[np.ndarray[Any, Any]] = []
        leaves: list[Any] = []
        if self._one is None:
            tree.map_leaves(lambda _, leaf: leaves.append(leaf), self._action_spec, action)
        else:
            leaves.append(action)
        for leaf, own in zip(leaves, self.plan.actions, strict=True):
            array = np.asarray(leaf)
            if array.shape != (self._n, *own.shape):
                raise SpecError(f"{own.path}: expected shape {(self._n, *own.shape)}, got {array.shape}")
            if array.dtype != own.dtype:
                integers = own.dtype.kind in "iu"
                if array.dtype.kind not in ("iu" if integers else "biuf") and own.dtype.kind != "b":
                    raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array.dtype}")
                if not integers or array.dtype not in (np.int64, np.int32, np.uint32):
                    return None
                cast = array.astype(own.dtype)
                wrong = (cast != array).reshape(self._n, -1).any(1)
                if wrong.any():
                    lane = int(wrong.argmax())
                    raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array[lane]} in lane {lane}")
                array = cast
            converted.append(array if array.flags.carray else array.copy())
        return converted

    def _refuse(self, code: int, actions: Sequence[Any], restart: Any, hold: Any) -> None:
        """Raises the error of a kernel's result."""
        number, lane = divmod(code, self._n)
        if number == 0:
            lanes = np.flatnonzero(self.over & ~restart & ~hold).tolist()
            raise EpisodeError(f"step: {ENDED}" if self._n == 1 else f"step: in lanes {lanes}, {ENDED_LANES}")
        own = self.plan.actions[number - 1]
        low, high = np.unique(np.asarray(own.low)), np.unique(np.asarray(own.high))
        bounds = f"{low[0]} … {high[-1]}" if len(low) == len(high) == 1 else f"{own.low} … {own.high}"
        raise SpecError(f"{own.path}: expected values of {bounds}, got {actions[number - 1][lane]} in lane {lane}")


def _idle(action: Action, n: int) -> np.ndarray[Any, Any]:
    """Returns a valid action of n lanes."""
    low, high = action.low, action.high
    one = np.zeros(action.shape, action.dtype)
    if low is not None and high is not None:
        one = np.clip(one, low, high).astype(action.dtype)
    return np.repeat(one[None], n, 0)
