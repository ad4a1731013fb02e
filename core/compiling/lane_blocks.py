"""The text of a kernel of traced functions: loops over blocks of lanes, of packed instructions where possible.

    for each block of up to 64 lanes:
        act        the next states and rewards of all its lanes, kept where a lane acts
        begin      the states of lanes that begin an episode, one by one
        observe    the observations and infos of all
        end        the flags and discounts, kept where a lane acts
        copies     to the rows of states, and to the arrays that the step returns

A loop that calls C functions is not vectorised. So the operations of each stage are two loops: the calls with all that
they depend on, and the rest, which LLVM turns into packed instructions. What a loop computes goes to rows on the
stack and is copied at the end, for LLVM knows that nothing else refers to these, and needs no checks of overlaps when
it packs. Only the arrays that the step returns, of which each loop fills few, are written at once.

Each operation is the same as in a loop over lanes, and rounds the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .block_stages import Block, Stages, each_lane
from .expression_text import SHORT
from .expressions import Recorder
from .kernel_text import Action, Output, all_held, check_lines, head_lines, indented, last_lines_of_all
from .layout import Held, Rows

LANES = 64
"""The most lanes in a block."""

STACK = 65_536
"""The bytes on the stack that a block takes at most, unless one lane takes more."""


def blocks_text(
    title: str, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], recorder: Recorder,
    exact: frozenset[str], stages: Stages,
) -> str:  # fmt: skip
    """Returns the text of a kernel.

    Args:
        title: A comment about it.
        states: The rows of states.
        actions: The leaves of the action.
        outputs: The arrays that it fills.
        recorder: The recorder of the nodes.
        exact: The result of `exact_functions`.
        stages: The nodes. Their `held` gets the array of ufunc loops, if there are any.
    """
    block = Block(states, actions, outputs, recorder, exact, stages)
    body = [
        *each_lane([f"{block.row('acts', np.dtype(bool))} = not ({block.common('restart')} | {block.common('hold')})"]),
        *block.act(),
        *block.begin(),
        *block.observe(),
        *block.end(),
        *block.copies(),
        *(block.last() if stages.in_place else []),
    ]
    if recorder.loops:  # found by writing the lines
        stages.held.append(Held("loops", (2 * len(recorder.loops),), np.dtype(np.int64)))
    held = all_held(states, stages.held)
    size = max(1, min(LANES, STACK // sum(dtype.itemsize for dtype in block.rows.values())))
    lines = [
        f"# {title}",
        *check_lines(actions, held),
        *head_lines(actions, outputs, held, stages.arguments),
        "    new = 0",
        "    for i in range(n):",
        "        new += restart[i]",
        *indented(stages.setup, 4),
        "    begun = 0",
        "    ended = 0",
        *(f"    {name} = row({size}, {SHORT[dtype.name]})" for name, dtype in block.rows.items()),
        f"    for start in range(0, n, {size}):",
        f"        count = min({size}, n - start)",
        *(f"        {name} = {view}" for name, view in block.views.items()),
        *indented(body, 8),
        *([] if stages.in_place else last_lines_of_all()),
        "    return ended",
    ]
    return "\n".join(lines) + "\n"
