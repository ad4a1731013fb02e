"""The kernel of a model before it is compiled: its arguments, its text, and what it was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import indent
from types import FunctionType
from typing import Any

import numpy as np

from .. import tree
from ..errors import NotCompilable
from ..spec import SpecTree
from ..spec.arrays import ARRAYS, bounds_or_inf
from .compilation import is_compiling, is_on_disk, kernel_digest, kernel_of
from .layout import Held, Records, Rows


@dataclass(frozen=True)
class Output:
    """An array that each step returns."""

    name: str
    shape: tuple[int, ...]  # the shape of one lane's value
    dtype: np.dtype[Any]


COMMON = (
    Held("hold", (None,), np.dtype(bool)),
    Held("ends", (3, None), np.dtype(bool)),
    Held("progress", (2,), np.dtype(np.int64)),
    Held("saved", (None, 12), np.dtype(np.int64)),
)
"""The lanes that pause, the ends of a step, see `FLAGS`, the lane that the kernel is at and the number of those that
have begun; and the states of the lanes' streams before, of which the last two numbers tell which are saved."""

FLAGS = ("terminated", "truncated", "ended_now")
"""The rows of `ends`; `truncated` is by the model or the limit."""


def all_held(states: Rows, held: Sequence[Held]) -> list[Held]:
    """Returns all arrays that a kernel is given by their addresses, in the order of its table."""
    return [*kept(states, "before"), *kept(states, "after"), *COMMON, *held]


def kept(states: Rows, name: str) -> list[Held]:
    """Returns the rows that a step reads from one set, `before`, and writes into the other, `after`.

    Besides states, these are the lanes that have ended, the places of their contexts, and the steps of their episodes.
    """
    of_lane = {"over": np.dtype(bool), "place": np.dtype(np.int64), "elapsed": np.dtype(np.int64)}
    return [*states.held(name), *(Held(f"{what}_{name}", (None,), dtype) for what, dtype in of_lane.items())]


COMING = 5
"""The last numbers of a kernel's table: see `coming_lines`."""


@dataclass(frozen=True)
class Action:
    """One leaf of the action, as kernels read it."""

    path: str  # for messages
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: np.ndarray[Any, Any] | None  # the least value of each element, if these are integers; else None
    high: np.ndarray[Any, Any] | None  # likewise


def actions_of(spec: SpecTree) -> list[Action]:
    """Returns the leaves of an action spec."""
    found: list[Action] = []
    for path, leaf in tree.leaves(spec, "action"):
        if not isinstance(leaf, ARRAYS):
            raise NotCompilable(f"{path}: a {type(leaf).__name__} is no array of numbers")
        low, high = bounds_or_inf(leaf) if leaf.dtype.kind in "iu" else (None, None)
        found.append(Action(path, leaf.shape, leaf.dtype, low, high))
    return found


def head_lines(actions: Sequence[Action], outputs: Sequence[Output], held: Sequence[Held]) -> list[str]:
    """Returns the first lines of `kernel`, which find the held arrays and check that all lanes can act.

    A negative result is the first error: of a lane that has ended, or of the action's leaf of a number.
    """
    leaves = leaf_names(actions)
    tests = [
        (number, f"({element} < {low}) | ({element} > {high})")
        for number, action in enumerate(actions, 1)
        for element, low, high in _bounds(number - 1, action)
    ]
    wrong = " | ".join(["over_before[i]", *(test for _, test in tests)])
    return [
        f"def kernel({', '.join(['table', 'limit', 'restart', *leaves, *(output.name for output in outputs)])}):",
        "    n = table[0]",
        "    check_length(restart, n)",
        *indented(held_lines(held), 4),
        "    wrong = False",
        "    for i in range(n):",
        f"        wrong |= ({wrong}) & (not (restart[i] | hold[i]))",
        "    if wrong:",
        "        for i in range(n):",
        "            if not (restart[i] or hold[i]):",
        "                if over_before[i]:",
        "                    return -1 - i",
        *indented([f"if {test}:\n    return -1 - {number} * n - i" for number, test in tests], 16),
        f"    last = limit - 1 if limit > 0 else {2**62}",
        *indented(coming_lines(len(held) + 1), 4),
    ]


def coming_lines(number: int) -> list[str]:
    """Returns the lines that find the table of contexts, and the places of those in which lanes begin.

    The places are one a lane, or from `first` on those of the lanes that begin, in their order.
    """
    return [
        f"contexts = array_at(table[{number}], (table[{number + 1}],), contexts_kind)",
        f"coming = array_at(table[{number + 2}], (table[{number + 3}],), place_before_kind)",
        f"first = table[{number + 4}]",
    ]


def leaf_names(actions: Sequence[Action]) -> list[str]:
    """Returns the names of the actions' leaves."""
    return [f"action{number}" for number in range(len(actions))]


def held_lines(held: Sequence[Held]) -> list[str]:
    """Returns the lines that make arrays of the addresses in the table."""
    return [
        f"{one.name} = array_at(table[{number}], ({''.join(f'{n}, ' for n in _axes(one))}), {one.name}_kind)"
        f"  # {one.dtype}"
        for number, one in enumerate(held, 1)
    ]


def _axes(held: Held) -> list[str]:
    return ["n" if axis is None else str(axis) for axis in held.shape]


def _bounds(number: int, action: Action) -> list[tuple[str, int, int]]:
    """Returns the elements of an action that have bounds, with these."""
    if action.low is None or action.high is None:
        return []
    elements = [f"action{number}[{', '.join(map(str, ('i', *place)))}]" for place in np.ndindex(*action.shape)]
    low, high = np.broadcast_to(action.low, action.shape).ravel(), np.broadcast_to(action.high, action.shape).ravel()
    return [(element, int(one), int(other)) for element, one, other in zip(elements, low, high, strict=True)]


def indented(lines: Sequence[str], width: int) -> list[str]:
    """Returns lines after more spaces."""
    return [indent(line, " " * width) for line in lines]


@dataclass
class Plan:
    """A kernel that can be compiled, of a scalar `Model`."""

    title: str
    text: str
    states: Rows
    actions: Sequence[Action]
    outputs: Sequence[Output]  # the arrays that it fills
    observation: Any  # the structure of an observation, with a zero array of one lane for each leaf
    context: Records
    own: Records  # the records of the numbers among the model's attributes that the kernel reads
    held: Sequence[Held]  # the arrays that the kernel is given by their addresses, besides the common ones
    begins: bool  # True if the kernel begins episodes itself; False if `initial` is called for them in Python
    names: Callable[[], Mapping[str, Any]]  # more globals of the text
    sources: str  # everything else that the code depends on, as text
    draws: frozenset[str]  # the functions of the kernel that take random numbers: initial, transition, observe
    # True if what the code has as constants, attributes of some models and globals, has not changed since.
    is_current: Callable[[Sequence[Any]], bool]
    is_unchanged: Callable[[], bool]  # True if that has not changed since `is_current`; it is quick
    frees_gil: bool = False  # True if other threads may run meanwhile, which costs as much as some ten lanes

    @cached_property
    def digest(self) -> str:
        """The name of the kernel; equal for kernels that compile to the same code and take the same arguments."""
        arrays = [[(one.shape, one.dtype) for one in some] for some in (self.actions, self.outputs, self.all_held)]
        return kernel_digest(self.text, repr((self.sources, arrays, self.frees_gil)))

    @property
    def is_on_disk(self) -> bool:
        """True if its machine code is on disk."""
        return is_on_disk(self.digest)

    @property
    def is_being_compiled(self) -> bool:
        """True if another process seems to compile it."""
        return is_compiling(self.digest)

    @property
    def all_held(self) -> list[Held]:
        """All arrays that the kernel is given by their addresses, in the order of its table."""
        return all_held(self.states, self.held)

    def compile(self) -> Callable[..., int]:
        """Compiles the kernel, or loads it from disk; it must be called with exactly the arrays of its signature."""
        options = {"error_model": "python", "boundscheck": True, "nogil": self.frees_gil, "no_cfunc_wrapper": True}
        return kernel_of(self.digest, self.title, self._function, options)

    def _function(self) -> tuple[FunctionType, list[Any]]:
        """Returns the kernel's function, and examples of its arguments."""
        from .kernel_functions import NAMES  # imported here, because only compiling needs numba

        n = 2
        actions = [np.zeros((n, *action.shape), action.dtype) for action in self.actions]
        outputs = [np.empty((n, *output.shape), output.dtype) for output in self.outputs]
        kinds = {f"{held.name}_kind": held.dtype for held in self.all_held}
        kinds["contexts_kind"] = self.context.dtype
        space = {**NAMES, **self.names(), **kinds, "__name__": f"envoi_kernel_{self.digest}"}
        exec(compile(self.text, "envoi/kernels", "exec"), space)  # noqa: S102 (text of this package)
        return space["kernel"], [np.zeros(1, np.int64), 0, np.zeros(n, bool), *actions, *outputs]
