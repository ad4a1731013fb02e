"""The engine: writes a program as one Python function, for one lane or many, that stores its results at the end.

    def make(record, gate, model, ...):
        def step(action):
            if record.halt or gate.is_stale:
                return gate(action)
            # Model: the functions that its author wrote
            ...
            # what lasts, now that no layer can fail
            model._state = state
            ...
            # ToGymnasium: five values
            return observation, reward, terminated, truncated, info

The source is compiled once for each distinct composition of layers. Environments are arguments of `make`, so that two
compositions with the same classes of layers share one code object. Tracebacks and debuggers show its lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..errors import SpecError, nearest
from .program import USUAL, VALUES, Gate, Program, Stage, maker, registers_read, text_of, titled
from .record import OVER


class Finish(NamedTuple):
    """The last lines of a step function, which return its values.

    Attributes:
        title: The comment above the lines.
        last: Lines over the registers of `VALUES`.
        first: Lines before all others, which may return.
        names: The objects that the lines name.
    """

    title: str
    last: str
    first: str = ""
    names: Mapping[str, Any] = {}


SIX_VALUES = Finish("a tuple of six values", f"return {', '.join(VALUES)}")
"""Returns the six values, with None for the default discount."""


def flat_step(
    program: Callable[..., Program], finish: Callable[[Program], Finish], layer: Any = None
) -> Callable[..., Any]:
    """Writes the step function of one lane, or of all lanes of a batch.

    Args:
        program: Returns the program; called again after a layer's functions have been replaced.
        finish: Returns the last lines of the function for a program.
        layer: A layer that the function must not reference, because the layer stores the function. It is the first
            argument of the function and of `program` instead.
    """
    return _write(program, finish, layer is not None, *() if layer is None else (layer,))[0]


def _write(program: Any, finish: Any, is_apart: bool, *arguments: Any) -> tuple[Callable[..., Any], Gate]:
    """Writes a step; a gate calls it again, for the `arguments` of a call."""
    layers = arguments[:1] if is_apart else ()
    made: Program = program(*layers)
    # A partial, because a function that refers to itself would keep the layers alive.
    gate = Gate(partial(_write, program, finish, is_apart), made.record)
    text, objects = _written(made, finish(made), gate, *layers)
    return maker(text)(*objects), gate


def _written(program: Program, finish: Finish, gate: Gate, layer: Any = None) -> tuple[str, list[Any]]:
    """Returns the source of a step, and the objects that it uses."""
    objects = {"record": program.record, "gate": gate, "OVER": OVER, **program.holders}
    used = {*registers_read(finish.first), *registers_read(finish.last)}
    named = [(one.title, one.names) for one in (*program.stages, *filter(None, [program.opening]))]
    named.append((finish.title, {name: value for name, value in finish.names.items() if name in used}))
    for title, names in named:
        for name, value in names.items():
            if objects.setdefault(name, value) is not value:
                raise SpecError(f"{title!r}: expected one meaning of {name!r} in a step, got two")
    given = [] if layer is None else [name for name, value in objects.items() if value is layer] or ["_"]
    bound = {name: value for name, value in objects.items() if name not in given}
    lanes = program.opening
    masks = () if lanes is None else ("restart", "hold")
    arguments = ", ".join((*given[:1], "action", *(f"{mask}=None" for mask in masks)))
    called = ", ".join((*given[:1], "action", *masks))
    stages = program.stages
    loads: dict[str, None] = {}
    written = {"action", *masks}

    def need(names: tuple[str, ...]) -> list[str]:
        missing = [name for name in names if name not in written and name in USUAL and lanes is None]
        loads.update({name: None for name in names if name not in written and name in program.kept})
        written.update(missing)
        return [f"{name} = {USUAL[name]}" for name in missing]

    words = Counter(re.findall(r"\w+", "\n".join(f"{one.lines}\n{one.commit}\n{one.undo}" for one in stages)))
    known = {"action", "over", *VALUES, *program.kept, *used}
    for stage in stages:
        for name in stage.writes:
            if name not in known and words[name] == 1:  # such as a misspelt one, whose value would be lost
                raise SpecError(f"stage {stage.title!r}: nothing reads {name!r}, which it sets; {nearest(name, known)}")
    lines: list[str] = []
    undone: list[str] = []
    title = ""
    for place, stage in enumerate(stages, 1):
        may_be_undone = bool(stage.undo) and not all(later.safe for later in stages[place:])
        own = titled(stage.title, f"{stage.save}\n{stage.lines}" if may_be_undone and stage.save else stage.lines)
        own = [*need(stage.reads), *(own[1:] if stage.title == title else own)]
        lines += _indented(own, len(undone))
        written.update(stage.writes)
        title = stage.title
        if may_be_undone:
            lines += _indented(["try:"], len(undone))
            undone.append(stage.undo)
            title = ""
    for depth, undo in reversed([*enumerate(undone)]):
        failed = ["except BaseException as error:", *_indented([*undo.splitlines(), "raise"], 1)]
        lines += _indented(failed, depth)
    lasting = [f"{holder} = {name}" for name, holder in program.kept.items() if program.writes(name)]
    ends = [
        name
        for name in ("terminated", "truncated")
        if lanes is None and any(name in stage.writes and not stage.guarded for stage in stages)
    ]
    if ends:
        lasting += [f"if {' or '.join(ends)}:", "    record.halt = OVER"]
    # Commits that may call a user's function come last, and inner layers before outer ones.
    base = next((i for i, stage in enumerate(stages) if {*VALUES} <= {*stage.writes}), 0)
    lasting += [line for stage in (*stages[base:], *stages[:base]) for line in stage.commit.splitlines()]
    last = [*need(registers_read(finish.last, finish.names)), *finish.last.splitlines()]
    head = [
        "# no episode, or a layer's functions were replaced, such as its rewarder",
        "if record.halt or gate.is_stale:",
    ]
    if lanes is not None:
        head = ["# a layer's functions were replaced, such as its rewarder", "if gate.is_stale:"]
    body = [
        *(f"{name} = {given[0]}" for name in given[1:]),  # a wrapper may also be a function of its own change
        *titled(finish.title, finish.first),
        *head,
        f"    return gate({called})",
        *(titled(lanes.title, lanes.lines) if lanes is not None and _reads_masks(stages) else []),
        *(f"{name} = {program.kept[name]}" for name in loads),
        *lines,
        *titled("what lasts, now that no layer can fail", lasting),
        *titled(finish.title, last),
    ]
    return text_of(arguments, body, bound), list(bound.values())


def _indented(lines: Sequence[str], depth: int) -> list[str]:
    return [f"{'    ' * depth}{line}" for line in lines]


def _reads_masks(stages: Sequence[Stage]) -> bool:
    """Returns True if a stage reads masks without checking them itself."""
    return any(not stage.guarded and {"restart", "hold", "idle"}.intersection(stage.reads) for stage in stages)
