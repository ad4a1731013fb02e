"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy import empty, ndarray

from .. import tree
from ..errors import EpisodeError
from ..protocol.batch_env import as_mask
from ..protocol.env import ENDED, ENDED_LANES
from ..protocol.fast_steps import Count
from ..spec import Spec, SpecTree
from .action_leaves import converted, idle, out_of_bounds
from .launching import launcher
from .plan import Functions, Plan

_KERNELS: dict[str, Functions] = {}
"""The compiled kernels of this process, by their digests."""

_ONE_AT_A_TIME = Lock()
"""Held while a thread compiles; all kernels of one digest share the module that their code is in."""


class Runner:
    """Steps n lanes by a kernel.

    Args:
        plan: The plan of the kernel.
        action_spec: The spec of a lane's action.
        n: The number of lanes.
        changing: Arrays of two lanes like those that differ from step to step.

    Attributes:
        arrays: The arrays that the kernel is given by their addresses, by name; they stay where they are.
        over: The lanes that have ended, bool of shape (n,).
        terminated: The lanes that terminated in the last step, bool of shape (n,); the next one changes it.
        truncated: The lanes that it truncated, likewise.
        asks: True if some arrays differ from step to step, or the states in which episodes begin are made outside.
        none: A mask of no lane; do not write into it.
        idle: Valid actions of all lanes.
        acts: False within `holding` if no lane acts.
        table: The addresses of the arrays, with which the kernel is called.
        launch: Steps all lanes, and returns the values of the batch; see `launcher`.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int, changing: Sequence[Any] = ()) -> None:
        with _ONE_AT_A_TIME:
            if plan.digest not in _KERNELS:
                _KERNELS[plan.digest] = plan.compile(changing)
        self.plan, self._n = plan, n
        self._kernel, self._check = _KERNELS[plan.digest]
        leaves = [idle(action, n) for action in plan.actions]
        remaining = iter(leaves)
        self.idle, self.acts = tree.map_leaves(lambda _: next(remaining), action_spec), True
        self.arrays = {held.name: held.zeros(n) for held in plan.all_held}
        self.over = self.arrays["over"]
        self.terminated, _, self.truncated, _ = self.arrays["ends"]
        self.asks = plan.takes_numbers or plan.asks_at_restarts
        one, other = ([self.arrays[held.name] for held in plan.states.held(name)] for name in ("before", "after"))
        self._before, self._after = one, other
        rest = list(self.arrays.values())[len(one) + len(other) :]
        self.table, self._next_table = _table(n, *one, *other, *rest), _table(n, *other, *one, *rest)
        self.none = np.zeros(n, bool)
        self._no_count: Count = self.none, np.zeros(n + 1, np.int64)
        self._action_spec, has_one = action_spec, isinstance(action_spec, Spec)
        self.launch = launcher(plan, self._kernel, len(changing), has_one, self.arrays["ends"])
        # For `step_alone`.
        first = plan.actions[0]
        self._dtype = first.dtype if has_one else None
        self._number = first.dtype.type if has_one and not first.shape else None
        self._python_number = int if self._number is not None and np.issubdtype(self._number, np.integer) else None
        self._alone = leaves[0].copy()
        self._first, *others = [((n, *output.shape), output.dtype) for output in plan.outputs]
        self._others = [empty(*other) for other in others]

    def load(self, leaves: Sequence[Any], over: np.ndarray[Any, Any]) -> bool:
        """Takes over the states of all lanes.

        Args:
            leaves: The leaves of the states, arrays of shape (n, …).
            over: The lanes that have ended.

        Returns:
            False if the states are not of the dtypes that the kernel was compiled for.
        """
        states = self.plan.states
        if not states.holds(leaves, self._n):
            return False
        states.write(self._before, leaves)
        self.over[:] = over
        return True

    def state(self) -> Any:
        """Returns the states of all lanes; the arrays are new."""
        return self.plan.states.read(self._before)

    def write_fresh(self, leaves: Sequence[Any], first: int = 0) -> None:
        """Gives the kernel states in which the next lanes to begin an episode do so.

        Args:
            leaves: The leaves of the states of k lanes, arrays of shape (k, …).
            first: The number of such lanes before them.
        """
        rows = [self.arrays[held.name][:, first:] for held in self.plan.states.held("fresh")]
        self.plan.states.write(rows, leaves)

    def converted(self, action: Any) -> Sequence[np.ndarray[Any, Any]] | None:
        """Returns the leaves of the actions as the kernel takes them.

        Args:
            action: The actions of all lanes.

        Returns:
            Arrays of shape (n, …) in C order; None if one has another dtype than its spec, with which the model may
            compute other values.

        Raises:
            SpecError: An action has another shape, or a dtype that cannot hold its spec's values.
        """
        return converted(self._action_spec, self.plan.actions, self._n, action)

    def mask(self, mask: Any, what: str) -> np.ndarray[Any, Any]:
        """Returns a mask of lanes as the kernel takes it, in C order.

        Args:
            mask: Bools of shape (n,); None for no lane.
            what: The name of the argument in the message.

        Raises:
            SpecError: It has another shape or dtype.
        """
        if mask is None:
            return self.none
        found: Any = as_mask(mask, self._n, what)
        return np.ascontiguousarray(found.view(ndarray))

    def step_alone(self, action: Any) -> tuple[int, np.ndarray[Any, Any], Sequence[Any]] | None:
        """Steps a single lane by a kernel that asks for nothing, and whose first output is the observation.

        Args:
            action: The action of the lane, without the lane axis.

        Returns:
            1 if the lane ended, else 0; the observation, and the other outputs, which the next step changes. None,
            before anything has changed, for an action of another type than its spec's.

        Raises:
            EpisodeError: The lane has ended.
            SpecError: The action is out of its bounds.
        """
        kind, actions = type(action), self._alone
        if kind is self._number or kind is self._python_number:
            try:
                actions[0] = action
            except OverflowError:
                return None
        elif kind is ndarray and action.dtype is self._dtype and action.shape == actions.shape[1:]:
            actions[0] = action
        else:
            return None
        observation = empty(*self._first)
        none, elapsed = self._no_count
        ended = self._kernel(self.table, none, none, elapsed, actions, observation, *self._others)
        if ended < 0:
            self.refuse(ended, (actions,), none, none)
        if not self.plan.in_place:
            self.exchange()
        return ended, observation, self._others

    def exchange(self) -> None:
        """Makes the next states those of the next step, and with the rows exchanges the tables of addresses."""
        self._before, self._after = self._after, self._before
        self.table, self._next_table = self._next_table, self.table

    @contextmanager
    def holding(self, lanes: np.ndarray[Any, Any], acts: bool) -> Iterator[None]:
        """Lets some lanes pause, within a `with` block.

        Args:
            lanes: The mask of these lanes.
            acts: False if none of the others acts.
        """
        hold, quiet = self.arrays["hold"], self.arrays["quiet"]
        hold[:], quiet[0], self.acts = lanes, not acts, acts
        try:
            yield
        finally:
            hold[:], quiet[0], self.acts = False, False, True

    def check(self, actions: Sequence[np.ndarray[Any, Any]], restart: Any, count: Count | None = None) -> None:
        """Checks that all lanes can act, before the random streams advance.

        Args:
            actions: The result of `converted`.
            restart: The lanes that begin an episode instead, a result of `mask`.
            count: The limit of steps; None for none.

        Raises:
            EpisodeError: A lane that acts has ended.
            SpecError: An action is out of its bounds.
        """
        cut, _ = count or self._no_count
        code = self._check(self.table, restart, cut, *actions)
        if code < 0:
            self.refuse(code, actions, restart, cut)

    def refuse(self, code: int, actions: Sequence[Any], restart: Any, cut: Any) -> None:
        """Raises the error of a kernel's result.

        Args:
            code: The result, below 0.
            actions: The leaves of the actions.
            restart: The lanes that begin an episode instead.
            cut: The lanes that a wrapper has ended.

        Raises:
            EpisodeError: A lane that acts has ended.
            SpecError: An action is out of its bounds.
        """
        number, lane = divmod(-1 - code, self._n)
        if number == 0:
            waiting = restart | self.arrays["hold"]
            over = cut & ~waiting
            by_wrapper = bool(over.any())  # which refuses before what is inside
            lanes = np.flatnonzero(over if by_wrapper else self.over & ~waiting).tolist()
            alone = self._n == 1 and not by_wrapper
            raise EpisodeError(f"step: {ENDED}" if alone else f"step: in lanes {lanes}, {ENDED_LANES}")
        raise out_of_bounds(self.plan.actions[number - 1], actions[number - 1][lane], lane)


def _table(n: int, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the table of a kernel.

    Args:
        n: The number of lanes.
        *arrays: The arrays that it is given by their addresses.
    """
    return np.array([n, *(array.ctypes.data for array in arrays)], np.int64)
