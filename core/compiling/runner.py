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
from .plan import Plan

_KERNELS: dict[str, Callable[..., Any]] = {}
"""The compiled kernels of this process, by their digests."""


class OtherDtype(Exception):  # noqa: N818 (never leaves this package)
    """The action has another dtype than its spec, with which the model may compute other values."""


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
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int, examples: Sequence[Any]) -> None:
        if plan.digest not in _KERNELS:
            _KERNELS[plan.digest] = plan.compile(examples)
        self.plan, self._n = plan, n
        self._kernel = _KERNELS[plan.digest]
        self._before, self._after = plan.layout.empty(n), plan.layout.empty(n)
        self.over, self.none, self.flags = np.zeros(n, bool), np.zeros(n, bool), np.zeros((2, n), bool)
        self._action_spec = action_spec
        self._one = plan.actions[0] if isinstance(action_spec, Spec) else None
        self._shape = (n, *self._one.shape) if self._one is not None else None
        self._dtype = None if self._one is None else self._one.dtype
        self._empties = [((n, *output.shape), output.dtype) for output in plan.outputs]

    def load(self, state: Any, over: np.ndarray[Any, Any]) -> bool:
        """Takes over the states of all lanes.

        Args:
            state: The states, a tree of arrays of shape (n, …).
            over: The lanes that have ended.

        Returns:
            False if the states are not of the dtypes that the kernel was compiled for.
        """
        leaves = [leaf for _, leaf in tree.leaves(state)]
        layout = self.plan.layout
        if not layout.fits(leaves, self._n):
            return False
        layout.write(self._before, leaves)
        self.over[:] = over
        return True

    def state(self) -> Any:
        """Returns the states of all lanes; the arrays are new."""
        return self.plan.layout.read(self._before)

    def records(self) -> np.ndarray[Any, Any]:
        """Returns the records of the states, which the next step changes."""
        return self._before

    def run(
        self, action: Any, restart: np.ndarray[Any, Any], hold: np.ndarray[Any, Any], given: Sequence[Any]
    ) -> tuple[int, list[Any]]:
        """Steps all lanes.

        Args:
            action: The actions.
            restart: The lanes that begin an episode instead.
            hold: The lanes that pause.
            given: The kernel's own arguments.

        Returns:
            The number of lanes that ended, whose ends are in `flags`, and the plan's outputs.

        Raises:
            EpisodeError: A lane that acts has ended.
            SpecError: An action has the wrong dtype or shape, or is out of its bounds.
            OtherDtype: See there.
        """
        if type(action) is np.ndarray and action.dtype == self._dtype and action.shape == self._shape:
            actions = (action if action.flags.carray else action.copy(),)
        else:
            actions = self._converted(action)
        outputs = [empty(shape, dtype) for shape, dtype in self._empties]
        ended = self._kernel(
            self._before, self._after, restart, hold, self.over, self.flags, *given, *actions, *outputs
        )
        if ended < 0:
            self._refuse(-1 - ended, actions, restart, hold)
        self._before, self._after = self._after, self._before
        return ended, outputs

    def _converted(self, action: Any) -> list[np.ndarray[Any, Any]]:
        """Returns the leaves of the actions as the kernel takes them."""
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
                    raise OtherDtype
                cast = array.astype(own.dtype)
                wrong = (cast != array).reshape(self._n, -1).any(1)
                if wrong.any():
                    lane = int(wrong.argmax())
                    raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array[lane]} in lane {lane}")
                array = cast
            converted.append(array if array.flags.carray else array.copy())
        return converted

    def _refuse(self, code: int, actions: Sequence[Any], restart: Any, hold: Any) -> None:
        """Raises the error that a kernel's result stands for."""
        number, lane = divmod(code, self._n)
        if number == 0:
            lanes = np.flatnonzero(self.over & ~restart & ~hold).tolist()
            raise EpisodeError(f"step: {ENDED}" if self._n == 1 else f"step: in lanes {lanes}, {ENDED_LANES}")
        own = self.plan.actions[number - 1]
        low, high = np.unique(np.asarray(own.low)), np.unique(np.asarray(own.high))
        bounds = f"{low[0]} … {high[-1]}" if len(low) == len(high) == 1 else f"{own.low} … {own.high}"
        raise SpecError(f"{own.path}: expected values of {bounds}, got {actions[number - 1][lane]} in lane {lane}")
