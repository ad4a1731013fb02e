"""The text of kernels: what those of scalar models (`lane_loop`) and of traced functions (`lane_blocks`) share.

    kernel(table, restart, cut, elapsed, …, actions, observations, rewards)  →  how many lanes ended

Each lane acts, begins a new episode (`restart`), or pauses (`hold`). The actions of all lanes are checked before any
lane acts. Where the model's functions can raise an error, next states go to other rows than those that they are
computed from. So an error leaves the batch as it was.

Arrays that stay where they are from step to step, such as the rows of states, are `Held`: `table` has their
addresses, because an argument costs as much time as two lanes, and one that is a Python number twice that. Under a
limit of steps by a wrapper, `elapsed` counts the steps of each lane, with the limit at its end, which is 0 for none;
`cut` are the lanes that the last step has truncated. Both belong to the wrapper. The limit ends lanes in what the step
returns, while the batch inside the wrapper knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

import numpy as np

from .. import tree
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, SpecTree
from .errors import NotCompilable
from .layout import Held, Rows


@dataclass(frozen=True)
class Output:
    """An array that each step returns.

    Attributes:
        name: Its name in the text.
        shape: The shape of one lane's value.
        dtype: Its dtype.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


COMMON = (
    Held("over", (None,), np.dtype(bool)),
    Held("hold", (None,), np.dtype(bool)),
    Held("quiet", (1,), np.dtype(bool)),
    Held("ends", (4, None), np.dtype(bool)),
)
"""The lanes that have ended, those that pause, True if no lane acts, and the ends of a step, see `FLAGS`."""

FLAGS = ("terminated", "truncated", "cut_off", "ended_now")
"""The rows of `ends`; `truncated` is by the model, and `cut_off` by the model or the limit."""


def all_held(states: Rows, held: Sequence[Held]) -> list[Held]:
    """Returns all arrays that a kernel is given by their addresses, in the order of its table.

    Args:
        states: The rows of states.
        held: The arrays besides the common ones.
    """
    return [*states.held("before"), *states.held("after"), *COMMON, *held]


@dataclass(frozen=True)
class Action:
    """One leaf of the action, as kernels read it.

    Attributes:
        path: Its path, for messages.
        shape: Its shape in one lane.
        dtype: The dtype of the spec.
        low: The least value of each element, if these are integers; else None.
        high: The largest.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: np.ndarray[Any, Any] | None
    high: np.ndarray[Any, Any] | None


def actions_of(spec: SpecTree) -> list[Action]:
    """Returns the leaves of an action spec.

    Raises:
        NotCompilable: A leaf is no array of numbers.
    """
    found: list[Action] = []
    for path, leaf in tree.leaves(spec, "action"):
        low = high = None
        if isinstance(leaf, Discrete):
            low, high = np.asarray(leaf.start), np.asarray(leaf.start + leaf.n - 1)
        elif isinstance(leaf, MultiDiscrete):
            low, high = np.broadcast_to(leaf.start, leaf.shape), leaf.last
        elif isinstance(leaf, MultiBinary):
            low, high = np.zeros(leaf.shape, int), np.ones(leaf.shape, int)
        elif isinstance(leaf, Array):
            if leaf.dtype.kind in "iu":
                low, high = leaf.low_or_inf, leaf.high_or_inf
        else:
            raise NotCompilable(f"{path}: a {type(leaf).__name__} is no array of numbers")
        found.append(Action(path, leaf.shape, leaf.dtype, low, high))
    return found


def scalars(name: str, shape: tuple[int, ...], lane: str = "i") -> list[str]:
    """Returns the expressions of all elements of one lane's array.

    Args:
        name: The array of n lanes.
        shape: The shape of one lane's.
        lane: The index of the lane.
    """
    return [f"{name}[{', '.join(map(str, (lane, *place)))}]" for place in np.ndindex(*shape)]


def check_lines(actions: Sequence[Action], held: Sequence[Held]) -> list[str]:
    """Returns the lines of `check`, which returns 0 if all lanes can act, else a negative number for the first error.

    Args:
        actions: The leaves of the action.
        held: All arrays of the table.
    """
    leaves = leaf_names(actions)
    tests = [
        (number, f"({element} < {low}) | ({element} > {high})")
        for number, action in enumerate(actions, 1)
        for element, low, high in _bounds(number - 1, action)
    ]
    codes = [f"if {test}:\n    return -1 - {number} * n - i" for number, test in tests]
    wrong = " | ".join(["over[i]", "cut[i]", *(test for _, test in tests)])
    return [
        f"def check({', '.join(['table', 'restart', 'cut', *leaves])}):",
        "    n = table[0]",
        "    check_length(restart, n)",
        "    check_length(cut, n)",
        *indented(held_lines(held, ("over", "hold")), 4),
        "    wrong = False",
        "    for i in range(n):",
        f"        wrong |= ({wrong}) & (not (restart[i] | hold[i]))",
        "    if not wrong:",
        "        return 0",
        "    for i in range(n):",
        "        if not (restart[i] or hold[i]):",
        "            if over[i] or cut[i]:",
        "                return -1 - i",
        *indented(codes, 12),
        "    return 0",
        "",
    ]


def head_lines(
    actions: Sequence[Action], outputs: Sequence[Output], held: Sequence[Held], arguments: Sequence[str] = ()
) -> list[str]:
    """Returns the first lines of `kernel`, which check the actions and find the held arrays.

    Args:
        actions: The leaves of the action.
        outputs: The arrays that it fills.
        held: All arrays of the table.
        arguments: Names of the arrays that differ from step to step.
    """
    names = ["table", "restart", "cut", "elapsed", *arguments, *leaf_names(actions)]
    return [
        f"def kernel({', '.join([*names, *(output.name for output in outputs)])}):",
        f"    code = check({', '.join(['table', 'restart', 'cut', *leaf_names(actions)])})",
        "    if code < 0:",
        "        return code",
        "    n = table[0]",
        "    check_length(elapsed, n + 1)",
        "    limit = elapsed[n]",
        f"    last = limit - 1 if limit > 0 else {2**62}",
        *indented(held_lines(held), 4),
    ]


def last_lines(loop: str, element: Callable[[str], str]) -> list[str]:
    """Returns the lines that keep, when no error can be raised any more, which lanes have ended, and the limit's count.

    Args:
        loop: The first line of a loop over lanes.
        element: Returns the element of an array of lanes, or of one of the `FLAGS`, by its name.
    """
    over, cut, elapsed, restart, hold = map(element, ("over", "cut", "elapsed", "restart", "hold"))
    terminated, truncated, cut_off, _ = map(element, FLAGS)
    return [
        loop,
        f"    {over} = {over} if {hold} else {terminated} | {truncated}",
        "if limit > 0:",
        f"    {loop}",
        f"        {cut} = ({cut} & {hold}) | {cut_off}",
        f"    {loop}",
        f"        {elapsed} = 0 if {restart} else {elapsed} + (not {hold})",
    ]


def last_lines_of_all() -> list[str]:
    """Returns `last_lines` for a kernel that has put the flags of all lanes into `ends`."""
    names = {flag: f"ends[{number}, i]" for number, flag in enumerate(FLAGS)}
    return indented(last_lines("for i in range(n):", lambda name: names.get(name, f"{name}[i]")), 4)


def leaf_names(actions: Sequence[Action]) -> list[str]:
    """Returns the names of the actions' leaves."""
    return [f"action{number}" for number in range(len(actions))]


def held_lines(held: Sequence[Held], used: Sequence[str] | None = None) -> list[str]:
    """Returns the lines that make arrays of the addresses in the table.

    Args:
        held: All arrays of the table.
        used: The names of the needed ones; None for all.
    """
    return [
        f"{one.name} = array_at(table[{number}], ({''.join(f'{n}, ' for n in _axes(one))}), {one.name}_kind)"
        f"  # {one.dtype}"
        for number, one in enumerate(held, 1)
        if used is None or one.name in used
    ]


def _axes(held: Held) -> list[str]:
    return ["n" if axis is None else str(axis) for axis in held.shape]


def _bounds(number: int, action: Action) -> list[tuple[str, int, int]]:
    """Returns the elements of an action that have bounds, with these."""
    if action.low is None or action.high is None:
        return []
    elements = scalars(f"action{number}", action.shape)
    low, high = np.broadcast_to(action.low, action.shape).ravel(), np.broadcast_to(action.high, action.shape).ravel()
    return [(element, int(one), int(other)) for element, one, other in zip(elements, low, high, strict=True)]


def indented(lines: Sequence[str], width: int) -> list[str]:
    """Returns lines after more spaces.

    Args:
        lines: The lines.
        width: The number of spaces.
    """
    return [indent(line, " " * width) for line in lines]
