"""The step of a batch as one function: its checks, the call of a kernel, and the values, written out for the arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import empty, ndarray

from .. import tree
from ..protocol.infos import Infos
from .plan import Plan
from .structures import rebuilder


def launcher(
    plan: Plan, kernel: Callable[..., Any], changing: int, has_one_action: bool, ends: np.ndarray[Any, Any]
) -> Callable[..., Any]:
    """Returns a function that steps all lanes by a kernel.

    A call costs as much as its checks, and a loop over two arrays more than the call. So the function has the checks of
    the common cases of `Runner.converted` and `Runner.mask` in it, and a line for each array. It takes the runner that
    keeps it, and does not hold it.

    Args:
        plan: The plan of the kernel.
        kernel: The kernel.
        changing: The number of its arrays that differ from step to step.
        has_one_action: True if the action is a single array.
        ends: The array `ends` of the kernel, of shape (4, n).

    Returns:
        `(runner, action, restart, count, ask)` returns the seven values of a batch's `ended_step`; None, before
        anything has changed, where `Runner.converted` does. The lanes of the mask `restart` begin an episode instead;
        `count` is the limit of steps; None for none. Where it is given, `ask(runner, restart)` returns the arrays
        that differ from step to step. Errors are those of `converted`, `mask` and `check`.
    """
    n, one = ends.shape[1], plan.actions[0]
    none = np.zeros(n, bool)
    inputs = "".join(f"action{k}, " for k in range(len(plan.actions)))
    asked = "".join(f"changing{k}, " for k in range(changing))
    new = [f"new{k}, " for k in range(len(plan.outputs))]
    names: dict[str, Any] = {
        "kernel": kernel, "none": none, "no_count": (none, np.zeros(n + 1, np.int64)), "empty": empty,
        "ndarray": ndarray, "bools": np.dtype(bool), "lanes": (n,), "dtype": one.dtype, "shape": (n, *one.shape),
        "terminated": ends[0], "truncated": ends[2], "over": ends[3],
        "Infos": Infos, "no_infos": Infos(columns={}, n=n), "n": n,
        "observed": rebuilder(plan.observation), "informed": rebuilder(plan.info),
    }  # fmt: skip
    for k, output in enumerate(plan.outputs):
        names |= {f"shape{k}": (n, *output.shape), f"dtype{k}": output.dtype}
    fits = "type(action) is ndarray and action.dtype is dtype and action.shape == shape and action.flags.carray"
    is_mask = "type(begins) is ndarray and begins.dtype is bools and begins.shape == lanes and begins.flags.carray"
    lines = [
        f"def make({', '.join(names)}):",
        "    def launch(runner, action, restart, count, ask):",
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
        "        if ask is not None:",
        f"            runner.check(({inputs}), begins, count)  # before the random streams advance",
        f"            [{asked}] = ask(runner, None if restart is None else begins)",
        *(f"        new{k} = empty(shape{k}, dtype{k})" for k in range(len(plan.outputs))),
        "        cut, elapsed = count or no_count",
        f"        ended = kernel(runner.table, begins, cut, elapsed, {asked}{inputs}{''.join(new)})",
        "        if ended < 0:",
        f"            runner.refuse(ended, ({inputs}), begins, cut)",
        *([] if plan.in_place else ["        runner.exchange()"]),
        *_return_lines(plan, new),
        "    return launch",
    ]
    space: dict[str, Any] = {}
    exec("\n".join(lines), space)  # noqa: S102 (text of this module)
    return space["make"](*names.values())


def _return_lines(plan: Plan, new: Sequence[str]) -> list[str]:
    """Returns the lines that return the values.

    Args:
        plan: The plan of the kernel.
        new: The names of its outputs, each with a comma.
    """
    outputs = [output.name for output in plan.outputs]
    reward, has_discount = outputs.index("reward"), "discount" in outputs
    observation = f"observed(({''.join(new[:reward])}))" if tree.is_branch(plan.observation) else "new0"
    infos = f"Infos(columns=informed(({''.join(new[reward + 1 + has_discount :])})), n=n)" if plan.info else "no_infos"
    flags, discount = "terminated.copy(), truncated.copy()", f"new{reward + 1}" if has_discount else "None"
    quiet = [f"        if not ended:\n            return {observation}, new{reward}, None, None, None, {infos}, None"]
    returned = f"        return {observation}, new{reward}, {flags}, {discount}, {infos}, over.copy()"
    return [returned] if has_discount else [*quiet, returned]
