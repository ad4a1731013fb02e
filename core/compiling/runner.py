"""A kernel with its records and scratch arrays, for the lanes of one batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
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
from ..spec import Spec, SpecTree
from .plan import COMING, Action, Plan, kept

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
        check_count(own.path, leaf, n)
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
    """Returns a function that computes a step of all lanes in a kernel; `Runner.exchange` then commits it.

    A call costs as much as its checks, and a loop over two arrays more than the call. So the function has the checks of
    the common cases of `Runner.converted` and `as_mask` in it, and a line for each array. It takes the runner that
    keeps it, and does not hold it.
    """
    n, one = ends.shape[1], plan.actions[0]
    inputs = "".join(f"action{k}, " for k in range(len(plan.actions)))
    new = [f"new{k}, " for k in range(len(plan.outputs))]
    names: dict[str, Any] = {
        "kernel": kernel, "none": np.zeros(n, bool), "empty": empty, "as_mask": as_mask, "n": n,
        "ndarray": ndarray, "bools": np.dtype(bool), "lanes": (n,), "dtype": one.dtype, "shape": (n, *one.shape),
        "terminated": ends[0], "truncated": ends[1], "over": ends[2],
        "no_infos": Infos(columns={}, n=n), "observed": rebuilder(plan.observation),
    }  # fmt: skip
    for k, output in enumerate(plan.outputs):
        names |= {f"shape{k}": (n, *output.shape), f"dtype{k}": output.dtype}
    fits = "type(action) is ndarray and action.dtype is dtype and action.shape == shape and action.flags.carray"
    is_mask = "type(begins) is ndarray and begins.dtype is bools and begins.shape == lanes and begins.flags.carray"
    lines = [
        f"def make({', '.join(names)}):",
        "    def launch(runner, action, restart, limit, coming):",
        f"        if {fits if has_one_action else 'False'}:",
        "            action0 = action",
        "        else:",
        "            leaves = runner.converted(action)",
        "            if leaves is None:",
        "                return None",
        f"            {inputs}= leaves",
        "        begins = none if restart is None else restart",
        f"        if restart is not None and not ({is_mask}):",
        "            begins = as_mask(restart, n, 'restart').view(ndarray).copy()",
        "        if coming is not None:",
        "            if coming is not runner.coming:",
        "                runner.turn_to(coming)",
        "            if coming.first >= 0:",
        "                runner.table[-1] = coming.first",
        *(f"        new{k} = empty(shape{k}, dtype{k})" for k in range(len(plan.outputs))),
        "        try:",
        f"            ended = kernel(runner.table, limit, begins, {inputs}{''.join(new)})",
        "        except BaseException as error:",
        "            runner.take_back(error)",
        "            raise",
        "        if ended < 0:",
        f"            runner.refuse(ended, ({inputs}), begins)",
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


_KERNELS: dict[str, Callable[..., int]] = {}
"""The compiled kernels of this process, by their digests."""

_ONE_AT_A_TIME = Lock()
"""Held while a thread compiles; all kernels of one digest share the module that their code is in."""


class Runner:
    """Steps n lanes with a kernel.

    The kernel gets `arrays` by their addresses, in `table`, so they never move. The masks `terminated` and `truncated`
    describe the last step; the next one overwrites them. `launch` computes a step of all lanes, see `launcher`, and
    changes only the random streams, which `take_back` takes back; `exchange` commits it.

    Attributes:
        is_plain: True if the kernel needs nothing from outside for a step: it begins episodes itself, and can save all
            random streams.
        steps_alone: True if there is a single lane, and values that `step_alone` can have.
    """

    def __init__(self, plan: Plan, action_spec: SpecTree, n: int) -> None:
        with _ONE_AT_A_TIME:
            if plan.digest not in _KERNELS:
                _KERNELS[plan.digest] = plan.compile()
        self.plan, self._n, self._kernel = plan, n, _KERNELS[plan.digest]
        leaves = [idle(action, n) for action in plan.actions]
        remaining = iter(leaves)
        self.idle = tree.map_leaves(lambda _: next(remaining), action_spec)
        self.arrays = {held.name: held.zeros(n) for held in plan.all_held}
        self.terminated, self.truncated, _ = self.arrays["ends"]
        one, other = ([self.arrays[held.name] for held in kept(plan.states, name)] for name in ("before", "after"))
        self._before, self._after = one, other
        rest = list(self.arrays.values())[len(one) + len(other) :]
        self.table, self._next_table = _table(n, *one, *other, *rest), _table(n, *other, *one, *rest)
        self.progress = self.arrays["progress"]  # its second number is that of the lanes that have begun
        self.coming: Coming | None = None
        self._read_by_kernel: Any = ()  # the arrays that it is given besides, which must stay where they are
        self._known: list[list[Any]] = [[None, None] for _ in range(n)]  # the generators of each lane
        self.is_plain = plan.begins
        self.none = np.zeros(n, bool)
        self._action_spec, has_one = action_spec, isinstance(action_spec, Spec)
        self.launch = launcher(plan, self._kernel, has_one, self.arrays["ends"])
        # For `step_alone`.
        first, single = plan.actions[0], not tree.is_branch(plan.observation)
        self.steps_alone = n == 1 and has_one and single and not any(output.shape for output in plan.outputs[1:])
        self._dtype = first.dtype if has_one else None
        self._number = first.dtype.type if has_one and not first.shape else None
        self._python_number = int if self._number is not None and np.issubdtype(self._number, np.integer) else None
        self._alone = leaves[0].copy()
        self._first, *others = [((n, *output.shape), output.dtype) for output in plan.outputs]
        self._others = [empty(*other) for other in others]

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
        """The rows after the last step, which `exchange` has not committed yet; see `place` and `over`."""
        return self._after

    def load(self, leaves: Sequence[Any], *of_lanes: Any) -> bool:
        """Copies the states of all lanes and their other rows; returns False if the kernel cannot hold the states."""
        if not self.plan.states.holds(leaves, self._n):
            return False
        self.plan.states.write(self._before[: -len(of_lanes)], leaves)
        for row, held in zip(self._before[-len(of_lanes) :], of_lanes, strict=True):
            row[:] = held
        self.coming = None
        return True

    def find_streams(self, streams: Sequence[Streams], lanes: Iterable[int]) -> None:
        """Passes the addresses of some lanes' generators, for dynamics and observations, to the kernel."""
        bits, draws = self.arrays["bits"], self.plan.draws
        columns = [(0, "dynamics")] if draws - {"observe"} else []
        columns += [(1, "observation")] if "observe" in draws else []
        for index in lanes:
            known = self._known[index]
            for k, name in columns:
                generator = getattr(streams[index], name)
                if known[k] is not generator:
                    known[k] = generator
                    found = addresses(generator)
                    bits[index, 4 * k : 4 * k + 4], bits[index, 8 + k] = found[:4], found[4]
        self.is_plain = self.plan.begins and all(bits[:, 8 + k].all() for k, _ in columns)

    def columns(self) -> list[np.ndarray[Any, Any]]:
        """Returns the states of all lanes by leaf, of shapes (n, …); the arrays are new."""
        return self.plan.states.read(self._before)

    def snapshot(self) -> list[np.ndarray[Any, Any]]:
        """Returns copies of all rows."""
        return [row.copy() for row in self._before]

    def restore(self, rows: Sequence[np.ndarray[Any, Any]]) -> None:
        """Copies the rows of a snapshot back."""
        self.coming = None
        for row, held in zip(self._before, rows, strict=True):
            row[:] = held

    def knows(self, coming: Coming | None) -> bool:
        """Returns True if the kernel was compiled for contexts of these types."""
        return coming is None or coming is self.coming or coming.table.records(self.plan.context) is not None

    def turn_to(self, coming: Coming) -> None:
        """Sets the contexts in which the next lanes begin; the kernel must be compiled for their types."""
        contexts = cast("np.ndarray[Any, Any]", coming.table.records(self.plan.context))
        places = np.ascontiguousarray(coming.places, np.int64)
        self.coming, self._read_by_kernel = coming, (contexts, places)
        self.place[:] = coming.held
        found = [contexts.ctypes.data, len(contexts), places.ctypes.data, len(places), coming.first]
        self.table[-COMING:] = self._next_table[-COMING:] = found

    def take_back(self, error: BaseException | None = None) -> None:
        """Rewinds the lanes' streams to before a step, also one that raised an error in one of them."""
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
        """Passes the kernel the initial states of the lanes that begin an episode next."""
        rows = [self.arrays[held.name][:, first:] for held in self.plan.states.held("fresh")]
        self.plan.states.write(rows, leaves)

    def converted(self, action: Any) -> Sequence[np.ndarray[Any, Any]] | None:
        """Returns the leaves of the actions as the kernel takes them."""
        return converted(self._action_spec, self.plan.actions, self._n, action)

    def step_alone(self, action: Any) -> tuple[int, np.ndarray[Any, Any], Sequence[Any]] | None:
        """Computes a step of a single lane, if `steps_alone`; reuses all arrays except the observation's.

        Returns None, with nothing changed, for an action that must be converted.
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
        try:
            ended = self._kernel(self.table, 0, self.none, actions, observation, *self._others)
        except BaseException as error:
            self.take_back(error)
            raise
        if ended < 0:
            self.refuse(ended, (actions,), self.none)
        return ended, observation, self._others

    def exchange(self) -> None:
        """Commits a step: swaps the rows before and after it, and the tables of their addresses."""
        self._before, self._after = self._after, self._before
        self.table, self._next_table = self._next_table, self.table

    def refuse(self, code: int, actions: Sequence[Any], restart: Any) -> None:
        """Raises the error that a kernel's negative result describes."""
        number, lane = divmod(-1 - code, self._n)
        if number == 0:
            lanes = np.flatnonzero(self.over & ~(restart | self.arrays["hold"])).tolist()
            raise EpisodeError(f"step: {ENDED}" if self._n == 1 else f"step: in lanes {lanes}, {ENDED_LANES}")
        raise out_of_bounds(self.plan.actions[number - 1], actions[number - 1][lane], lane)


def _table(n: int, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the table of a kernel."""
    return np.array([n, *(array.ctypes.data for array in arrays), *[0] * COMING], np.int64)
