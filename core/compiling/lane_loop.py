"""The text of a kernel of rewritten functions: one loop over lanes that acts, resets, observes, and finds the ends.

A scalar model's functions generate the random numbers of their lane themselves, so that lanes go one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .kernel_text import Action, Output, all_held, check_lines, head_lines, indented, last_lines_of_all
from .layout import Held, Rows


@dataclass
class Sections:
    """The lines of a lane in a kernel. Next states are left in `z0, …`.

    Attributes:
        act: Lines of a lane that acts: set all `z`, and write the reward.
        begin: Lines of a lane that begins an episode: set all `z`.
        observe: Lines that write the observation of `z`.
        end: Lines of a lane that acted: set `terminated` and `truncated`, and write the discount.
        held: The arrays besides the common ones that the kernel is given by their addresses.
    """

    act: list[str]
    begin: list[str]
    observe: list[str]
    end: list[str]
    held: list[Held] = field(default_factory=list[Held])


def loop_text(
    title: str, states: Rows, actions: Sequence[Action], outputs: Sequence[Output], sections: Sections
) -> str:
    """Returns the text of a kernel.

    Args:
        title: A comment about it.
        states: The rows of states.
        actions: The leaves of the action.
        outputs: The arrays that it fills, `reward` and perhaps `discount` among them, each of a number a lane.
        sections: Its lines.
    """
    held = all_held(states, sections.held)
    names = [output.name for output in outputs]
    idle = ["reward[i] = 0"]
    one = ["discount[i] = 1"] if "discount" in names else []
    lines = [
        f"# {title}",
        *check_lines(actions, held),
        *head_lines(actions, outputs, held),
        "    begun = 0",
        "    ended = 0",
        "    for i in range(n):",
        "        acts = False",
        "        if hold[i]:",
        *indented([f"z{k} = {old}" for k, old in enumerate(states.scalars("before", "i"))] + idle, 12),
        "        elif restart[i]:",
        *indented(sections.begin + idle, 12),
        "            begun += 1",
        "        else:",
        "            acts = True",
        *indented(sections.act, 12),
        *indented([f"{new} = z{k}" for k, new in enumerate(states.scalars("after", "i"))], 8),
        *indented(sections.observe, 8),
        "        terminated = False",
        "        truncated = False",
        "        cut_off = False",
        "        if acts:",
        *indented(sections.end, 12),
        "            cut_off = truncated or elapsed[i] >= last",
        "            if terminated or cut_off:",
        "                ended += 1",
        "        else:",
        *indented(one or ["pass"], 12),
        "        ends[0, i] = terminated",
        "        ends[1, i] = truncated",
        "        ends[2, i] = cut_off",
        "        ends[3, i] = terminated or cut_off",
        *last_lines_of_all(),
        "    return ended",
    ]
    return "\n".join(lines) + "\n"
