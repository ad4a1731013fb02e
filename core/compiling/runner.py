"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import empty, ndarray

from .. import tree
from ..errors import EpisodeError, SpecError
from ..protocol.batch_env import as_mask
from ..protocol.env import ENDED, ENDED_LANES
from ..protocol.fast_steps import Count
from ..protocol.infos import Infos
from ..spec import Spec, SpecTree
from .plan import COMING, Action, Functions, Plan, kept

if TYPE_CHECKING:
    from ..batching.context_table import Coming


def rebuilder(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that makes a tree of some structure from its first leaves in a sequence."""
    if not tree.is_branch(structure):
        return lambda leaves: leaves[0]
    if type(structure) is dict and not any(tree.is_branch(leaf) for leaf in structure.values()):
        keys = tuple(structure)
        return lambda leaves: dict(zip(keys, leaves, strict=False))

    def rebuilt(leaves: Sequence[Any]) -> Any:
        remaining = iter(leaves)
        return tree.map_leaves(lambda _: next(remaining), structure)

    return rebuilt


def converted(spec: SpecTree, actions: Sequence[Action], n: int, action: Any) -> list[np.ndarray[Any, Any]] | None:
    """Returns the leaves of actions as a kernel takes them; see `Runner.converted`."""
    found: list[np.ndarray[Any, Any]] = []
    leaves: list[Any] = []
    tree.map_leaves(lambda _, leaf: leaves.append(leaf), spec, action)
    for leaf, own in zip(leaves, actions, strict=True):
        array = np.asarray(leaf)
        if array.shape != (n, *own.shape):
            raise SpecError(f"{own.path}: expected shape {(n, *own.shape)}, got {array.shape}")
        if array.dtype != own.dtype:
            integers = own.dtype.kind in "iu"
            if array.dtype.kind not in ("iu" if integers else "biuf") and own.dtype.kind != "b":
                raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array.dtype}")
            if not integers or array.dtype not in (np.int64, np.int32, np.uint32):
                return None
            cast = array.astype(own.dtype)
            wrong = (cast != array).reshape(n, -1).any(1)
            if wrong.any():
                lane = int(wrong.argmax())
                raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array[lane]} in lane {lane}")
            array = cast
        found.append(array if array.flags.carray else array.copy())
    return found


def out_of_bounds(action: Action, value: Any, lane: int) -> SpecError:
    """Returns the error for an action out of its bounds."""
    low, high = np.unique(np.asarray(action.low)), np.unique(np.asarray(action.high))
    bounds = f"{low[0]} … {high[-1]}" if len(low) == len(high) == 1 else f"{action.low} … {action.high}"
    return SpecError(f"{action.path}: expected values of {bounds}, got {value} in lane {lane}")


def idle(action: Action, n: int) -> np.ndarray[Any, Any]:
    """Returns a valid action of n lanes."""
    low, high = action.low, action.high
    one = np.zeros(action.shape, action.dtype)
    if low is not None and high is not None:
        one = np.clip(one, low, high).astype(action.dtype)
    return np.repeat(one[None], n, 0)


def launcher(
    plan: Plan, kernel: Callable[..., Any], has_one_action: bool, ends: np.ndarray[Any, Any]
) -> Callable[..., Any]:
    """Returns a function that computes a step of all lanes by a kernel, which `Runner.exchange` then makes theirs.

    A call costs as much as its checks, and a loop over two arrays more than the call. So the function has the checks of
    the common cases of `Runner.converted` and `Runner.mask` in it, and a line for each array. It takes the runner that
    keeps it, and does not hold it.
    """
    n, one = ends.shape[1], plan.actions[0]
    none = np.zeros(n, bool)
    inputs = "".join(f"action{k}, " for k in range(len(plan.actions)))
    new = [f"new{k}, " for k in range(len(plan.outputs))]
    names: dict[str, Any] = {
        "kernel": kernel, "none": none, "no_count": (none, np.zeros(n + 1, np.int64)), "empty": empty,
        "ndarray": ndarray, "bools": np.dtype(bool), "lanes": (n,), "dtype": one.dtype, "shape": (n, *one.shape),
        "terminated": ends[0], "truncated": ends[2], "over": ends[3],
        "no_infos": Infos(columns={}, n=n), "observed": rebuilder(plan.observation),
    }  # fmt: skip
    for k, output in enumerate(plan.outputs):
        names |= {f"shape{k}": (n, *output.shape), f"dtype{k}": output.dtype}
    fits = "type(action) is ndarray and action.dtype is dtype and action.shape == shape and action.flags.carray"
    is_mask = "type(begins) is ndarray and begins.dtype is bools and begins.shape == lanes and begins.flags.carray"
    lines = [
        f"def make({', '.join(names)}):",
        "    def launch(runner, action, restart, count, coming, ask):",
        f"        if {fits if has_one_action else 'False'}:",
        "            action0 = action",
        "        else:",
        "            leaves = runner.converted(action)",
        "            if leaves is None:",
        "                return None",
        f"            {inputs}= leaves",
        "        begins = none if restart is None else restart",
        f"        if restart is not None and not ({is_mask}):",
        "            begins = runner.mask(restart, 'restart')",
        "        if coming is not None:",
        "            if coming is not runner.coming:",
        "                runner.turn_to(coming)",
        "            if coming.first >= 0:",
        "                runner.table[-1] = coming.first",
        "        if ask is not None:",
        f"            runner.check(({inputs}), begins, count)  # before the random streams advance",
        "            ask(begins)",
        *(f"        new{k} = empty(shape{k}, dtype{k})" for k in range(len(plan.outputs))),
        "        cut, elapsed = count or no_count",
        "        try:",
        f"            ended = kernel(runner.table, begins, cut, elapsed, {inputs}{''.join(new)})",
        "        except Exception as error:",
        "            runner.take_back(error)",
        "            raise",
        "        if ended < 0:",
        f"            runner.refuse(ended, ({inputs}), begins, cut)",
        *_return_lines(plan, new),
        "    return launch",
    ]
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)  # noqa: S102 (text of this module)
    return space["make"](*names.values())


def _return_lines(plan: Plan, new: Sequence[str]) -> list[str]:
    """Returns the lines that return the values."""
    outputs = [output.name for output in plan.outputs]
    reward, has_discount = outputs.index("reward"), "discount" in outputs
    observation = f"observed(({''.join(new[:reward])}))" if tree.is_branch(plan.observation) else "new0"
    flags, discount = "terminated.copy(), truncated.copy()", f"new{reward + 1}" if has_discount else "None"
    quiet = [f"        if not ended:\n            return {observation}, new{reward}, None, None, None, no_infos, None"]
    returned = f"        return {observation}, new{reward}, {flags}, {discount}, no_infos, over.copy()"
    return [returned] if has_discount else [*quiet, returned]


_KERNELS: dict[str, Functions] = {}
"""The compiled kernels of this process, by their digests."""

_ONE_AT_A_TIME = Lock()
"""Held while a thread compiles; all kernels of one digest share the module that their code is in."""


class Runner:
    """Steps n lanes by a kernel.

    `arrays` are those that it is given by their addresses, in `table`; they stay where they are. The masks `terminated`
    and `truncated` are those of the last step, which the next one changes. `launch` computes a step of all lanes, see
    `launcher`, and changes only the random streams, which an error takes back, and the `count` of a wrapper; `exchange`
    commits it.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int) -> None:
        with _ONE_AT_A_TIME:
            if plan.digest not in _KERNELS:
                _KERNELS[plan.digest] = plan.compile()
        self.plan, self._n = plan, n
        self._kernel, self._check = _KERNELS[plan.digest]
        leaves = [idle(action, n) for action in plan.actions]
        remaining = iter(leaves)
        self.idle = tree.map_leaves(lambda _: next(remaining), action_spec)
        self.arrays = {held.name: held.zeros(n) for held in plan.all_held}
        self.terminated, _, self.truncated, _ = self.arrays["ends"]
        one, other = ([self.arrays[held.name] for held in kept(plan.states, name)] for name in ("before", "after"))
        self._before, self._after = one, other
        rest = list(self.arrays.values())[len(one) + len(other) :]
        self.table, self._next_table = _table(n, *one, *other, *rest), _table(n, *other, *one, *rest)
        self.progress = self.arrays["progress"]  # its second number is that of the lanes that have begun
        self.coming: Coming | None = None
        self._read_by_kernel: Any = ()  # the arrays that it is given besides, which must stay where they are
        self.none = np.zeros(n, bool)
        self._no_count: Count = self.none, np.zeros(n + 1, np.int64)
        self._action_spec, has_one = action_spec, isinstance(action_spec, Spec)
        self.launch = launcher(plan, self._kernel, has_one, self.arrays["ends"])
        # For `step_alone`.
        first = plan.actions[0]
        self._dtype = first.dtype if has_one else None
        self._number = first.dtype.type if has_one and not first.shape else None
        self._python_number = int if self._number is not None and np.issubdtype(self._number, np.integer) else None
        self._alone = leaves[0].copy()
        self._first, *others = [((n, *output.shape), output.dtype) for output in plan.outputs]
        self._others = [empty(*other) for other in others]

    @property
    def over(self) -> np.ndarray[Any, Any]:
        """The lanes that have ended."""
        return self._before[-2]

    @property
    def place(self) -> np.ndarray[Any, Any]:
        """The places of the lanes' contexts."""
        return self._before[-1]

    def load(self, leaves: Sequence[Any]) -> bool:
        """Takes over the states of all lanes."""
        states = self.plan.states
        if not states.holds(leaves, self._n):
            return False
        states.write(self._before[:-2], leaves)
        self.coming = None
        return True

    def columns(self) -> list[np.ndarray[Any, Any]]:
        """Returns the states of all lanes by leaf, of shapes (n, …); the arrays are new."""
        return self.plan.states.read(self._before)

    def snapshot(self) -> list[np.ndarray[Any, Any]]:
        """Returns copies of all rows."""
        return [row.copy() for row in self._before]

    def restore(self, rows: Sequence[np.ndarray[Any, Any]]) -> None:
        """Takes over rows of a snapshot."""
        self.coming = None
        for row, held in zip(self._before, rows, strict=True):
            row[:] = held

    def turn_to(self, coming: Coming) -> None:
        """Lets the next lanes begin in some contexts."""
        contexts, places = coming.table.records(self.plan.context), np.ascontiguousarray(coming.places, np.int64)
        if contexts is None:
            raise AssertionError("contexts of other types than those that the kernel was compiled for")
        self.coming, self._read_by_kernel = coming, (contexts, places)
        self.place[:] = coming.held
        found = [contexts.ctypes.data, len(contexts), places.ctypes.data, len(places), coming.first]
        self.table[-COMING:] = self._next_table[-COMING:] = found

    def take_back(self, error: Exception | None = None) -> None:
        """Returns the streams of the lanes to where they were before a step, or an error in one of them."""
        lane, bits, saved = int(self.progress[0]), self.arrays["bits"], self.arrays["saved"]
        if error is not None:
            error.envoi_lane = lane  # type: ignore[attr-defined]
        for index in range(lane, -1, -1):  # backwards, because lanes may share streams
            for k in range(2):
                if saved[index, 10 + k]:
                    words = saved[index, 5 * k : 5 * k + 5].tobytes()
                    ctypes.memmove(int(bits[index, 8 + k]), words[:32], 32)
                    ctypes.memmove(int(bits[index, 4 * k]) + 8, words[32:], 8)

    def write_fresh(self, leaves: Sequence[Any], first: int = 0) -> None:
        """Gives the kernel states in which the next lanes to begin an episode do so."""
        rows = [self.arrays[held.name][:, first:] for held in self.plan.states.held("fresh")]
        self.plan.states.write(rows, leaves)

    def converted(self, action: Any) -> Sequence[np.ndarray[Any, Any]] | None:
        """Returns the leaves of the actions as the kernel takes them."""
        return converted(self._action_spec, self.plan.actions, self._n, action)

    def mask(self, mask: Any, what: str) -> np.ndarray[Any, Any]:
        """Returns a mask of lanes as the kernel takes it, in C order."""
        if mask is None:
            return self.none
        found: Any = as_mask(mask, self._n, what)
        return np.ascontiguousarray(found.view(ndarray))

    def step_alone(self, action: Any) -> tuple[int, np.ndarray[Any, Any], Sequence[Any]] | None:
        """Steps a single lane by a kernel that begins episodes itself, and whose first output is the observation."""
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
        try:
            ended = self._kernel(self.table, none, none, elapsed, actions, observation, *self._others)
        except Exception as error:
            self.take_back(error)
            raise
        if ended < 0:
            self.refuse(ended, (actions,), none, none)
        self.exchange()
        return ended, observation, self._others

    def exchange(self) -> None:
        """Makes the next states those of the next step, and with the rows exchanges the tables of addresses."""
        self._before, self._after = self._after, self._before
        self.table, self._next_table = self._next_table, self.table

    @contextmanager
    def holding(self, lanes: np.ndarray[Any, Any]) -> Iterator[None]:
        """Lets some lanes pause, within a `with` block."""
        hold = self.arrays["hold"]
        hold[:] = lanes
        try:
            yield
        finally:
            hold[:] = False

    def check(self, actions: Sequence[np.ndarray[Any, Any]], restart: Any, count: Count | None = None) -> None:
        """Checks that all lanes can act, before the random streams advance."""
        cut, _ = count or self._no_count
        code = self._check(self.table, restart, cut, *actions)
        if code < 0:
            self.refuse(code, actions, restart, cut)

    def refuse(self, code: int, actions: Sequence[Any], restart: Any, cut: Any) -> None:
        """Raises the error of a kernel's result."""
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
    """Returns the table of a kernel."""
    return np.array([n, *(array.ctypes.data for array in arrays), *[0] * COMING], np.int64)
