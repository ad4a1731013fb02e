"""The text of a kernel: one loop over lanes that acts, resets, observes, and finds the ends.

    kernel(table, restart, cut, offsets, common, limit, …, actions, observations, rewards)  →  how many lanes ended

Each lane acts, begins a new episode (`restart`), or pauses (`hold`). The actions of all lanes are checked before any
lane acts. Where the model's functions can raise an error, next states go to other records than those that they are
computed from. So an error leaves the batch as it was. A kernel is made of `Section`s, which the two ways of compiling a
model write.

Arrays that stay where they are from step to step, such as the records of states, are `Held`: `table` has their
addresses, because an argument costs as much time as two lanes. Under a limit of steps by a wrapper, a lane has taken
`offsets + common` steps after this one. The limit ends lanes in what the step returns, while the batch inside the
wrapper knows nothing of it. Lanes that the wrapper has cut off come as `cut`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

import numpy as np

from .. import tree
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, SpecTree
from .errors import NotCompilable
from .layout import Layout


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


@dataclass(frozen=True)
class Held:
    """An array that a kernel is given by its address.

    Attributes:
        name: Its name in the text.
        shape: Its shape, with None for the number of lanes.
        dtype: Its dtype.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def zeros(self, n: int) -> np.ndarray[Any, Any]:
        """Returns such an array of n lanes, filled with zeros."""
        return np.zeros(tuple(n if axis is None else axis for axis in self.shape), self.dtype)


RECORDS = ("before", "after")
"""The names of the records of states and next states, the first arrays of every kernel."""

COMMON = (
    Held("over", (None,), np.dtype(bool)),
    Held("hold", (None,), np.dtype(bool)),
    Held("quiet", (1,), np.dtype(bool)),
    Held("ends", (3, None), np.dtype(bool)),
)
"""The arrays that follow them: the lanes that have ended, those that pause, True if no lane acts, and the ends of a
step, which are `terminated`, `truncated` by the model, and `truncated` by the model or the limit."""


@dataclass
class Sections:
    """The lines of a kernel. States are read as `b.f0, …`, and the next states are left in `z0, …`.

    Attributes:
        act: Lines of a lane that acts: set all `z`, and write the reward.
        begin: Lines of a lane that begins an episode: set all `z`.
        observe: Lines that write the observation of `z`.
        end: Lines of a lane that acted: set `terminated` and `truncated`, and write the discount.
        setup: Lines before the loop.
        kept: The numbers k for which `act` sets `z_k` to the state before.
        in_place: True if no line raises an error, so that next states can replace those before.
        held: The arrays besides the common ones that the kernel is given by their addresses.
        arguments: Names of the arrays that differ from step to step.
    """

    act: list[str]
    begin: list[str]
    observe: list[str]
    end: list[str]
    setup: list[str] = field(default_factory=list[str])
    kept: frozenset[int] = frozenset()
    in_place: bool = False
    held: list[Held] = field(default_factory=list[Held])
    arguments: list[str] = field(default_factory=list[str])


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


def kernel_text(
    title: str, layout: Layout, actions: Sequence[Action], outputs: Sequence[Output], sections: Sections
) -> str:
    """Returns the text of a kernel.

    Args:
        title: A comment about it.
        layout: The layout of states.
        actions: The leaves of the action.
        outputs: The arrays that it fills, `reward` and perhaps `discount` among them.
        sections: Its lines.
    """
    names = [name for name, _ in layout.fields]
    count = range(len(names))
    store = [f"a.{name} = z{k}" for k, name in enumerate(names)]
    kept = sections.kept if sections.in_place else frozenset[int]()
    idle = [
        f"{element} = 0"
        for output in outputs
        if output.name == "reward"
        for element in scalars(output.name, output.shape)
    ]
    ones = [
        f"{element} = 1"
        for output in outputs
        if output.name == "discount"
        for element in scalars("discount", output.shape)
    ]
    leaves = [f"action{number}" for number in range(len(actions))]
    tests = [
        (number, f"not ({low} <= {element} and {element} <= {high})")
        for number, action in enumerate(actions, 1)
        for element, low, high in _bounds(number - 1, action)
    ]
    codes = [f"if {test}:\n    return -1 - {number} * n - i" for number, test in tests]
    common = [*(Held(name, (None,), layout.dtype) for name in RECORDS), *COMMON]
    loop = [] if sections.in_place else ["    for i in range(n):"]  # only now, when no error can be raised any more
    arguments = ["table", "restart", "cut", "offsets", "common", "limit", *sections.arguments, *leaves]
    lines = [
        f"# {title}",
        f"def check({', '.join(['table', 'restart', 'cut', *leaves])}):",
        "    n = table[0]",
        "    check_length(restart, n)",
        "    check_length(cut, n)",
        *_indented(_held_lines(common, ("over", "hold")), 4),
        "    wrong = False",
        "    for i in range(n):",
        "        if not (restart[i] or hold[i]):",
        f"            wrong |= {' or '.join(['over[i]', 'cut[i]', *(test for _, test in tests)])}",
        "    if not wrong:",
        "        return 0",
        "    for i in range(n):",
        "        if not (restart[i] or hold[i]):",
        "            if over[i] or cut[i]:",
        "                return -1 - i",
        *_indented(codes, 12),
        "    return 0",
        "",
        f"def kernel({', '.join([*arguments, *(output.name for output in outputs)])}):",
        f"    code = check({', '.join(['table', 'restart', 'cut', *leaves])})",
        "    if code < 0:",
        "        return code",
        "    n = table[0]",
        "    check_length(offsets, n)",
        *_indented(_held_lines([*common, *sections.held]), 4),
        *_indented(sections.setup, 4),
        "    begun = 0",
        "    ended = 0",
        "    for i in range(n):",
        "        b = before[i]",
        "        a = before[i]" if sections.in_place else "        a = after[i]",
        "        acts = False",
        "        if hold[i]:",
        *_indented([f"z{k} = b.{names[k]}" for k in count] + idle, 12),
        "        elif restart[i]:",
        *_indented(sections.begin + [store[k] for k in sorted(kept)] + idle, 12),
        "            begun += 1",
        "        else:",
        "            acts = True",
        *_indented(sections.act, 12),
        *_indented([store[k] for k in count if k not in kept], 8),
        *_indented(sections.observe, 8),
        "        terminated = False",
        "        truncated = False",
        "        cut_off = False",
        "        if acts:",
        *_indented(sections.end, 12),
        "            cut_off = truncated or (limit > 0 and offsets[i] + common >= limit)",
        "            if terminated or cut_off:",
        "                ended += 1",
        "        else:",
        *_indented([*ones, "if limit > 0 and restart[i]:", "    offsets[i] = -common"], 12),
        "        ends[0, i] = terminated",
        "        ends[1, i] = truncated",
        "        ends[2, i] = cut_off",
        *loop,
        "        if not hold[i]:",
        "            over[i] = ends[0, i] or ends[1, i]",
        "    return ended",
    ]
    return "\n".join(lines) + "\n"


def _held_lines(held: Sequence[Held], used: Sequence[str] | None = None) -> list[str]:
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


def _indented(lines: Sequence[str], width: int) -> list[str]:
    return [indent(line, " " * width) for line in lines]
