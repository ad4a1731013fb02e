"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy import empty, ndarray

from .. import tree
from ..errors import SpecError
from ..lane_values import stack
from ..protocol.batch_env import as_mask, check_count
from ..protocol.infos import Infos
from ..seeding import Streams, addresses
from ..spec import Discrete, SpecTree, zeros
from .plan import Plan

if TYPE_CHECKING:
    from ..batching.context_table import Coming


def launcher(plan: Plan, kernel: Callable[..., Any], ends: np.ndarray[Any, Any]) -> Callable[..., Any]:
    """Returns a function that computes a step of all lanes in a kernel. `Runner.exchange` then commits the step.

    The checks of `Runner.converted` and `as_mask` for common cases are inlined, because they take as long as a call.
    """
    n, first, observed = ends.shape[1], plan.actions[0], plan.seen.example
    bools, lanes, no_infos = np.dtype(bool), (n,), Infos(columns={}, n=n)
    action_dtype, action_shape = first.dtype if plan.has_one_action else None, (n, *first.shape)
    shapes, dtypes = [(n, *shape) for shape in plan.seen.shapes], plan.seen.dtypes
    shape, dtype, is_array = shapes[0], dtypes[0], not tree.is_branch(observed)
    keys = tuple(observed) if type(observed) is dict else ()
    reward, discount, rebuild = plan.reward, plan.discount, tree.rebuild
    terminated, truncated, over = ends

    def launch(runner: Runner, action: Any, restart: Any, limit: int, coming: Coming | None) -> Any:
        fits = type(action) is ndarray and action.dtype is action_dtype and action.shape == action_shape
        if not (fits and action.flags.carray) and (action := runner.converted(action)) is None:
            return None
        begins = runner.none if restart is None else restart
        # Mostly the lanes that have ended, as the last step has returned them.
        if (
            restart is not None
            and begins is not runner.ended
            and not (
                type(begins) is ndarray and begins.dtype is bools and begins.shape == lanes and begins.flags.carray
            )
        ):
            begins = cast("Any", as_mask(restart, n, "restart")).view(ndarray).copy()
        if coming is not None:
            if coming is not runner.coming:
                runner.turn_to(coming)
            if coming.first >= 0:
                runner.table[FIRST] = coming.first
        new = empty(shape, dtype) if is_array else tuple(map(empty, shapes, dtypes))
        rewards = empty(lanes, reward)
        discounts = None if discount is None else empty(lanes, discount)
        try:
            ended = kernel(runner.table, limit, begins, action, new, rewards, discounts)
        except BaseException as error:
            runner.take_back(error)
            raise
        if ended < 0:
            return runner.refuse(action, begins)
        # Without `strict`, which takes as long as `zip`.
        observation = new if is_array else dict(zip(keys, new)) if keys else rebuild(observed, new)  # noqa: B905
        if not ended and discounts is None:
            return observation, rewards, None, None, None, no_infos, None
        runner.ended = over.copy()
        return observation, rewards, terminated.copy(), truncated.copy(), discounts, no_infos, runner.ended

    return launch


FIRST, COMING = 1, slice(1, 4)
"""The place in a kernel's table for the first context in the queue, and for it and all contexts; see `make_kernel`."""

_KERNELS: dict[str, Callable[..., int]] = {}
"""The compiled kernels of this process, by their digests."""

_ONE_AT_A_TIME = Lock()
"""Held while a thread compiles; all kernels of one digest share the module that their code is in."""


class Runner:
    """Steps n lanes with a kernel.

    The kernel gets `arrays` by their addresses, in `table`, so they never move. `launch` computes a step of all lanes,
    see `launcher`, and changes only the random streams, which `take_back` takes back; `exchange` commits it.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int) -> None:
        with _ONE_AT_A_TIME:
            if plan.digest not in _KERNELS:
                _KERNELS[plan.digest] = plan.compile()
        self.plan, self._n, self.kernel, self._action_spec = plan, n, _KERNELS[plan.digest], action_spec
        self.idle: Any = stack(action_spec, [zeros(action_spec)] * n)  # valid actions
        numbers = np.dtype(np.int64)
        ends = np.zeros((3, n), bool)  # terminated, truncated, and either
        self.arrays: dict[str, np.ndarray[Any, Any]] = {
            # The lane that the kernel is at, and the numbers of lanes that have begun and of saved streams.
            "progress": np.zeros(3, numbers),
            "saved": np.zeros((2 * n, 7), numbers),  # the states of streams before the step, see `keep_stream`
            "hold": np.zeros(n, bool),
            **dict(zip(("terminated", "truncated", "ended"), ends, strict=True)),
            "settings": np.zeros(n, plan.own.dtype),
        }
        self._streams = np.zeros((2, 5, n), numbers)  # the addresses of `Stream`, for dynamics and observations
        # States, masks of ended lanes, indices of contexts, and numbers of steps; before and after a step.
        rows: list[list[Any]] = [[*plan.states.zeros(n), *(np.zeros(n, kind) for kind in "?qq")] for _ in "ab"]
        self.before, self.after = rows
        self._fresh = plan.states.zeros(n)  # initial states, if Python calls `initial`
        self.progress = self.arrays["progress"]
        self.table, self._next_table = self._table(self.before, self.after), self._table(self.after, self.before)
        self.coming: Coming | None = None
        self._read_by_kernel: Any = ()  # further arrays of the kernel, kept alive
        self._known: list[list[Any]] = [[None, None] for _ in range(n)]  # the generators of each lane
        self.functions = plan.functions
        self.is_unchanged: Callable[[], bool] = bool  # False; see `Functions.is_unchanged`
        # The kernel needs nothing from outside for a step; it can save all random streams.
        self.is_plain, self.saves_streams = plan.begins, True
        self.none = self.ended = np.zeros(n, bool)
        self.launch = launcher(plan, self.kernel, ends)

    def _table(self, before: Sequence[Any], after: Sequence[Any]) -> np.ndarray[Any, Any]:
        *states, over, place, elapsed = before
        *next_states, next_over, next_place, next_elapsed = after
        rows = (over, place, elapsed, next_over, next_place, next_elapsed)
        streams = self._streams.reshape(10, -1)
        arrays = (*self.arrays.values(), *rows, *streams, *states, *next_states, *self._fresh)
        return np.array([self._n, *[0] * 3, *(array.ctypes.data for array in arrays)], np.int64)

    def load(self, leaves: Sequence[Any], *of_lanes: Any) -> bool:
        """Copies states and other rows of all lanes; returns False if the kernel cannot hold the states."""
        if not self.plan.states.holds(leaves, self._n):
            return False
        for row, held in zip(self.before, (*leaves, *of_lanes), strict=True):
            row[:] = held
        self.coming = None
        return True

    def find_streams(self, streams: Sequence[Streams] | Mapping[int, Streams], lanes: Iterable[int]) -> None:
        """Passes the addresses of the lanes' generators, for dynamics and observations, to the kernel."""
        draws = self.plan.draws
        columns = [(0, "dynamics")] if draws - {"observe"} else []
        columns += [(1, "observation")] if "observe" in draws else []
        for index in lanes:
            for k, name in columns:
                generator = getattr(streams[index], name)
                if self._known[index][k] is not generator:
                    self._known[index][k] = generator
                    self._streams[k, :, index] = addresses(generator)
        self.saves_streams = all(self._streams[k, 4].all() for k, _ in columns)
        self.is_plain = self.plan.begins and self.saves_streams

    def columns(self, is_next: bool = False) -> list[np.ndarray[Any, Any]]:
        """Returns the states of all lanes, an array of shape (n, …) per leaf, before or after a step."""
        rows = self.after if is_next else self.before
        return [row if row.ndim == 1 else row.copy() for row in rows[:-3]]

    def knows(self, coming: Coming | None) -> bool:
        """Returns True if the kernel was compiled for contexts of the same types."""
        return coming is None or coming is self.coming or coming.table.records(self.plan.context) is not None

    def turn_to(self, coming: Coming) -> None:
        """Sets the contexts of lanes that begin next. The kernel must be compiled for their types."""
        contexts = cast("np.ndarray[Any, Any]", coming.table.records(self.plan.context))
        places = np.ascontiguousarray(coming.places, np.int64)
        self.coming, self._read_by_kernel = coming, (contexts, places)
        self.before[-2][:] = coming.held
        found = [coming.first, contexts.ctypes.data, places.ctypes.data]
        self.table[COMING] = self._next_table[COMING] = found

    def take_back(self, error: BaseException | None = None) -> None:
        """Rewinds the streams of lanes to before the last step, even if the step raised an error."""
        if error is not None:
            error.envoi_lane = self.progress.item(0)  # type: ignore[attr-defined]
        saved = self.arrays["saved"][: self.progress.item(2)]
        for row in saved[::-1]:  # backwards, because lanes may share streams
            numbers, half, words = int(row[0]), int(row[1]), row.tobytes()
            ctypes.memmove(numbers, words[16:48], 32)
            ctypes.memmove(half, words[48:], 8)

    def write_fresh(self, leaves: Sequence[Any], number: int) -> bool:
        """Passes an initial state to the kernel, as state `number`; returns False if the kernel cannot hold it."""
        if not self.plan.states.holds([np.asarray(leaf)[None] for leaf in leaves], 1):
            return False
        for row, leaf in zip(self._fresh, leaves, strict=True):
            row[number] = leaf
        return True

    def converted(self, action: Any) -> Any:
        """Returns the actions in the kernel's dtypes; None if the kernel cannot take them."""
        found, leaves = list[np.ndarray[Any, Any]](), list[Any]()
        tree.map_leaves(lambda _, leaf: leaves.append(leaf), self._action_spec, action)
        for leaf, own in zip(leaves, self.plan.actions, strict=True):
            array = np.asarray(leaf)
            check_count(own.path, leaf, self._n)
            if array.shape != (self._n, *own.shape):
                raise SpecError(f"{own.path}: expected shape {(self._n, *own.shape)}, got {array.shape}")
            if array.dtype != own.dtype:
                integers = own.dtype.kind in "iu"
                if array.dtype.kind not in ("biu" if integers else "biuf") and own.dtype.kind != "b":
                    raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array.dtype}")
                exact = (np.int64, np.int32, np.uint32, *[np.bool_] * isinstance(self._action_spec, Discrete))
                if not integers or array.dtype not in exact or (array.astype(own.dtype) != array).any():
                    return None
                array = array.astype(own.dtype)
            found.append(array if array.flags.carray else array.copy())
        return found[0] if self.plan.has_one_action else tuple(found)

    def exchange(self) -> None:
        """Commits a step: swaps the rows before and after it, and the tables of their addresses."""
        self.before, self.after = self.after, self.before
        self.table, self._next_table = self._next_table, self.table

    def refuse(self, actions: Any, restart: Any) -> None:
        """Raises the error of a lane whose action is out of bounds; not of one whose episode has ended."""
        n, acts = self._n, ~(restart | self.arrays["hold"] | self.before[-3])
        for one, leaf in zip(self.plan.actions, (actions,) if self.plan.has_one_action else actions, strict=True):
            low, high = one.bounds or (np.array(-np.inf), np.array(np.inf))
            wrong = ((leaf < low) | (leaf > high)).reshape(n, -1).any(1) & acts
            if wrong.any():
                is_one = low.min() == low.max() and high.min() == high.max()
                span = f"{low.min()} … {high.max()}" if is_one else f"{low} … {high}"
                raise SpecError(f"{one.path}: expected values of {span}, got {leaf[wrong][0]} in lane {wrong.argmax()}")
