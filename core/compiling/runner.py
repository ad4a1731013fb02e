"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy import empty, ndarray

from .. import tree
from ..errors import EpisodeError, SpecError
from ..protocol.batch_env import as_mask, check_count
from ..protocol.env import ENDED, ENDED_LANES
from ..protocol.infos import Infos
from ..seeding import Streams, addresses
from ..spec import Discrete, SpecTree
from .plan import Action, Plan

if TYPE_CHECKING:
    from ..batching.context_table import Coming


def idle(action: Action, n: int) -> np.ndarray[Any, Any]:
    """Returns a valid action for n lanes."""
    one = np.zeros(action.shape, action.dtype)
    if action.bounds is not None:
        one = np.clip(one, *action.bounds).astype(action.dtype)
    return np.repeat(one[None], n, 0)


def launcher(plan: Plan, kernel: Callable[..., Any], ends: np.ndarray[Any, Any]) -> Callable[..., Any]:
    """Returns a function that computes a step of all lanes in a kernel. `Runner.exchange` then commits the step.

    A call takes little longer than its checks, so the checks of `Runner.converted` and `as_mask` for common cases are
    inlined here. The function takes the runner as an argument, because the runner holds the function.
    """
    n, first, observed = ends.shape[1], plan.actions[0], plan.seen.example
    bools, lanes, none, no_infos = np.dtype(bool), (n,), np.zeros(n, bool), Infos(columns={}, n=n)
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
        begins = none if restart is None else restart
        if restart is not None and not (
            type(begins) is ndarray and begins.dtype is bools and begins.shape == lanes and begins.flags.carray
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
            runner.refuse(ended, action, begins)
        # Without `strict`, which takes as long as `zip`.
        observation = new if is_array else dict(zip(keys, new)) if keys else rebuild(observed, new)  # noqa: B905
        if not ended and discounts is None:
            return observation, rewards, None, None, None, no_infos, None
        return observation, rewards, terminated.copy(), truncated.copy(), discounts, no_infos, over.copy()

    return launch


COMING, FIRST = slice(7, 12), 11
"""The part of a kernel's table for contexts, and for the contexts in which lanes begin; see `make_kernel`."""

_KERNELS: dict[str, Callable[..., int]] = {}
"""The compiled kernels of this process, by their digests."""

_ONE_AT_A_TIME = Lock()
"""Held while a thread compiles; all kernels of one digest share the module that their code is in."""


class Runner:
    """Steps n lanes with a kernel.

    The kernel gets `arrays` by their addresses, in `table`, so they never move. `launch` computes a step of all lanes,
    see `launcher`, and changes only the random streams, which `take_back` takes back; `exchange` commits it.

    Attributes:
        saves_streams: True if the kernel can save all random streams.
        is_plain: True if the kernel needs nothing from outside for a step: it also begins episodes itself.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int) -> None:
        with _ONE_AT_A_TIME:
            if plan.digest not in _KERNELS:
                _KERNELS[plan.digest] = plan.compile()
        self.plan, self._n, self.kernel, self._action_spec = plan, n, _KERNELS[plan.digest], action_spec
        leaves = [idle(action, n) for action in plan.actions]
        self.idle: Any = leaves[0] if plan.has_one_action else tuple(leaves)
        numbers = np.dtype(np.int64)
        self.arrays: dict[str, np.ndarray[Any, Any]] = {
            "hold": np.zeros(n, bool),
            "ends": np.zeros((3, n), bool),  # terminated, truncated, and either
            "progress": np.zeros(2, numbers),  # the lane that the kernel is at, and the number of those that have begun
            # The states of the lanes' streams before the step, and which are saved.
            "saved": np.zeros((n, 12), numbers),
            "settings": np.zeros(n, plan.own.dtype),
            "bits": np.zeros((n, 12), numbers),  # the addresses of the streams, see `find_streams`
        }
        # States, masks of ended lanes, indices of contexts, and numbers of steps.
        self._before, self._after = (
            [*plan.states.zeros(n), np.zeros(n, bool), np.zeros(n, numbers), np.zeros(n, numbers)] for _ in "ab"
        )
        self._fresh = plan.states.zeros(n)  # initial states, if Python calls `initial`
        self.table, self._next_table = self._table(self._before, self._after), self._table(self._after, self._before)
        self.progress = self.arrays["progress"]
        self.coming: Coming | None = None
        self._read_by_kernel: Any = ()  # further arrays of the kernel, kept alive
        self._known: list[list[Any]] = [[None, None] for _ in range(n)]  # the generators of each lane
        self.is_current, self.is_unchanged = plan.functions.is_current, plan.functions.is_unchanged
        self.is_plain, self.saves_streams = plan.begins, True
        self.none = np.zeros(n, bool)
        self.launch = launcher(plan, self.kernel, self.arrays["ends"])

    def _table(self, before: Sequence[Any], after: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Returns the addresses that the kernel reads, see `make_kernel`."""
        *states, over, place, elapsed = before
        *next_states, next_over, next_place, next_elapsed = after
        rest = (over, place, elapsed, next_over, next_place, next_elapsed, *states, *next_states, *self._fresh)
        addresses = [[array.ctypes.data for array in some] for some in (self.arrays.values(), rest)]
        return np.array([self._n, *addresses[0], *[0] * 5, *addresses[1]], np.int64)

    @property
    def over(self) -> np.ndarray[Any, Any]:
        """The lanes that have ended."""
        return self._before[-3]

    @property
    def place(self) -> np.ndarray[Any, Any]:
        """The index of each lane's context in the table of contexts."""
        return self._before[-2]

    @property
    def elapsed(self) -> np.ndarray[Any, Any]:
        """The number of steps of each lane's episode."""
        return self._before[-1]

    @property
    def after(self) -> Sequence[np.ndarray[Any, Any]]:
        """The rows that the last step has computed, before `exchange` commits it; see `place` and `over`."""
        return self._after

    def load(self, leaves: Sequence[Any], *of_lanes: Any) -> bool:
        """Copies states and other rows of all lanes; returns False if the kernel cannot hold the states."""
        if not self.plan.states.holds(leaves, self._n):
            return False
        for row, held in zip(self._before, (*leaves, *of_lanes), strict=True):
            row[:] = held
        self.coming = None
        return True

    def find_streams(self, streams: Sequence[Streams] | Mapping[int, Streams], lanes: Iterable[int]) -> None:
        """Passes the addresses of the lanes' generators, for dynamics and observations, to the kernel."""
        bits, draws = self.arrays["bits"], self.plan.draws
        columns = [(0, "dynamics")] if draws - {"observe"} else []
        columns += [(1, "observation")] if "observe" in draws else []
        for index in lanes:
            for k, name in columns:
                generator = getattr(streams[index], name)
                if self._known[index][k] is not generator:
                    self._known[index][k] = generator
                    found = addresses(generator)
                    bits[index, 4 * k : 4 * k + 4], bits[index, 8 + k] = found[:4], found[4]
        self.saves_streams = all(bits[:, 8 + k].all() for k, _ in columns)
        self.is_plain = self.plan.begins and self.saves_streams

    def columns(self, is_next: bool = False) -> list[np.ndarray[Any, Any]]:
        """Returns the states of all lanes, an array of shape (n, …) per leaf, before or after a step."""
        rows = self.after if is_next else self._before
        return [row if row.ndim == 1 else row.copy() for row in rows[:-3]]

    def snapshot(self) -> list[np.ndarray[Any, Any]]:
        """Returns copies of all rows."""
        return [row.copy() for row in self._before]

    def restore(self, rows: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copies the rows of a snapshot back."""
        self.coming = None
        for row, held in zip(self._before, rows, strict=True):
            row[:] = held

    def knows(self, coming: Coming | None) -> bool:
        """Returns True if the kernel was compiled for contexts of the same types."""
        return coming is None or coming is self.coming or coming.table.records(self.plan.context) is not None

    def turn_to(self, coming: Coming) -> None:
        """Sets the contexts of lanes that begin next. The kernel must be compiled for their types."""
        contexts = cast("np.ndarray[Any, Any]", coming.table.records(self.plan.context))
        places = np.ascontiguousarray(coming.places, np.int64)
        self.coming, self._read_by_kernel = coming, (contexts, places)
        self.place[:] = coming.held
        found = [contexts.ctypes.data, len(contexts), places.ctypes.data, len(places), coming.first]
        self.table[COMING] = self._next_table[COMING] = found

    def take_back(self, error: BaseException | None = None) -> None:
        """Rewinds the streams of lanes to before the last step, even if the step raised an error."""
        lane, bits, saved = int(self.progress[0]), self.arrays["bits"], self.arrays["saved"]
        if error is not None:
            error.envoi_lane = lane  # type: ignore[attr-defined]
        for index in range(lane, -1, -1):  # backwards, because lanes may share streams
            for k in range(2):
                if saved[index, 10 + k]:
                    words = saved[index, 5 * k : 5 * k + 5].tobytes()
                    ctypes.memmove(int(bits[index, 8 + k]), words[:32], 32)
                    ctypes.memmove(int(bits[index, 4 * k]) + 8, words[32:], 8)

    def write_fresh(self, leaves: Sequence[Any], number: int) -> bool:
        """Passes an initial state to the kernel, as state `number`; returns False if the kernel cannot hold it."""
        if not self.plan.states.holds([np.asarray(leaf)[None] for leaf in leaves], 1):
            return False
        for row, leaf in zip(self._fresh, leaves, strict=True):
            row[number] = leaf
        return True

    def converted(self, action: Any) -> Any:
        """Returns the actions in the kernel's dtypes; None if the kernel cannot take them."""
        found: list[np.ndarray[Any, Any]] = []
        leaves: list[Any] = []
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
                if not integers or array.dtype not in exact:
                    return None
                cast = array.astype(own.dtype)
                wrong = (cast != array).reshape(self._n, -1).any(1)
                if wrong.any():
                    lane = int(wrong.argmax())
                    raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array[lane]} in lane {lane}")
                array = cast
            found.append(array if array.flags.carray else array.copy())
        return found[0] if self.plan.has_one_action else tuple(found)

    def exchange(self) -> None:
        """Commits a step: swaps the rows before and after it, and the tables of their addresses."""
        self._before, self._after = self._after, self._before
        self.table, self._next_table = self._next_table, self.table

    def refuse(self, code: int, actions: Any, restart: Any) -> None:
        """Raises the error that a kernel's negative result describes."""
        number, lane = divmod(-1 - code, self._n)
        if number == 0:
            lanes = np.flatnonzero(self.over & ~(restart | self.arrays["hold"])).tolist()
            raise EpisodeError(f"step: {ENDED}" if self._n == 1 else f"step: in lanes {lanes}, {ENDED_LANES}")
        one, leaf = self.plan.actions[number - 1], actions if self.plan.has_one_action else actions[number - 1]
        low, high = cast("Any", one.bounds)
        is_one = low.min() == low.max() and high.min() == high.max()
        bounds = f"{low.min()} … {high.max()}" if is_one else f"{low} … {high}"
        raise SpecError(f"{one.path}: expected values of {bounds}, got {leaf[lane]} in lane {lane}")
