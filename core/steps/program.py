"""Programs: what one step does, as stages that the layers of an environment contribute.

A stage is a few lines of Python over registers, which are the local variables of the function that an engine writes:
`action`, the six values of a step, and those of its layer. Engines find the registers that it reads and sets.

    Stage("Model", "state = model.transition(before, action, streams.dynamics)")
    Stage("Model", "observation = model.observe(state, streams.observation)")

An engine writes the stages of all layers into one function, which stores its results last. Resets are nested calls.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from textwrap import indent
from types import CodeType
from typing import Any, cast

VALUES = ("observation", "reward", "terminated", "truncated", "discount", "info")
"""The registers of the values of a step."""

USUAL = {"reward": "0.0", "terminated": "False", "truncated": "False", "discount": "None", "info": "{}"}
"""The values of registers that no stage sets, for one lane; a discount of None is the default."""


@dataclass(frozen=True)
class Stage:
    """The part of a step that one layer contributes.

    Attributes:
        title: The layer and what it does, as a comment above its lines. It never contains text of a user.
        lines: Statements. Names that begin with an underscore are local to the stage.
        names: The objects that the lines name. Layers of one program must not use a name for different objects.
        guarded: True if its own lines refuse or end an episode's steps, and check masks of lanes.
        safe: True if it cannot fail.
        commit: Lines that store its results, after the whole step has succeeded.
        undo: Lines that undo its effects if a later stage fails; `error` is the exception.
        save: Lines at the start that save what `undo` needs. Both are left out if no later stage can fail.
        source: Returns the source of the compiled function that the lines call, for `explain`; empty if there is none.
    """

    title: str
    lines: str
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])
    guarded: bool = False
    safe: bool = False
    commit: str = ""
    undo: str = ""
    save: str = ""
    source: Callable[[], str] = str

    @property
    def reads(self) -> tuple[str, ...]:
        """The registers that the lines read before setting them."""
        return registers_read(self.lines, self.names)

    @property
    def writes(self) -> tuple[str, ...]:
        """The registers that the lines set."""
        return _registers(self.lines)[1]


@dataclass(frozen=True)
class Program:
    """The stages of a step in order.

    Attributes:
        stages: The stages.
        record: The record of the episode.
        kept: The registers that last from step to step, and the attribute that stores each, such as `"layer1.memory"`.
        holders: The objects that `kept` names.
        state: The expression for the environment's state after the stages; empty if `env.state` is already up to date.
        opening: For many lanes, the first stage, which sets `restart`, `hold` and `idle` (the lanes that do
            not act) to masks or None; all stages can read them. None for a single lane.
    """

    stages: tuple[Stage, ...]
    record: Any
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    holders: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: str = ""
    opening: Stage | None = None

    def writes(self, name: str) -> bool:
        """Returns True if a stage sets the register."""
        return any(name in stage.writes for stage in self.stages)


@cache
def _registers(lines: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names that statements read before setting them, and the names that they set."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    bound: set[str] = set()
    for statement in ast.parse(lines).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        bound |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
        for node in names:
            if isinstance(node.ctx, ast.Load) and node.id not in written and not hasattr(builtins, node.id):
                read[node.id] = None
        written |= {node.id: None for node in names if isinstance(node.ctx, ast.Store)}
    found = [name for name in read if name not in bound and not name.startswith("_")]
    return tuple(found), tuple(name for name in written if not name.startswith("_"))


def registers_read(lines: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the names that lines read before setting them, except the names of objects."""
    return tuple(name for name in _registers(lines)[0] if name not in names)


# Writing.

_TEXTS: dict[str, str] = {}
"""The source of all written steps, by the file name of their code."""

_NUMBERS = count(1)


def titled(title: str, lines: str | Sequence[str]) -> list[str]:
    """Returns lines with a title above them as a comment; an empty list if there are no lines."""
    found = lines.splitlines() if isinstance(lines, str) else list(lines)
    return [f"# {title}", *found] if found else []


def text_of(arguments: str, body: Sequence[str], objects: Iterable[str]) -> str:
    """Returns the source of `make`, a function that takes objects and returns the step function."""
    lines = indent("\n".join(body), " " * 8)
    return f"def make({', '.join(objects)}):\n    def step({arguments}):\n{lines}\n\n    return step\n"


@cache
def maker(text: str) -> Callable[..., Callable[..., Any]]:
    """Compiles the source of a step; the same source is compiled only once."""
    file = f"<envoi step {next(_NUMBERS)}>"  # also of other threads
    # Without a modification time, so that `linecache.checkcache` keeps it.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    _TEXTS[file] = text
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), names)  # noqa: S102 (text of the library alone, see `Stage.title`)
    return cast("Callable[..., Callable[..., Any]]", names["make"])


def source_of(step: Any) -> str | None:
    """Returns the source of a step that envoi wrote, or None for any other object."""
    code = getattr(step, "__code__", None)
    return _TEXTS.get(code.co_filename) if isinstance(code, CodeType) else None


def library_name(kind: type, otherwise: str) -> str:
    """Returns the class's name if the library defines the class, else `otherwise`: titles contain no user text."""
    ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0] and kind.__name__.isidentifier()
    return kind.__name__ if ours else otherwise


class Gate:
    """Replaces a written step that cannot run: it raises an error, or writes the step again and calls it.

    Attributes:
        is_stale: True after a layer's functions have been replaced, such as its rewarder; the step checks it.
    """

    __slots__ = ("__weakref__", "_newer", "_newer_gate", "_record", "_write", "is_stale")

    def __init__(self, write: Callable[..., tuple[Callable[..., Any], Gate]], record: Any) -> None:
        self.is_stale = False
        self._write, self._record = write, record
        self._newer: Callable[..., Any] | None = None
        self._newer_gate: Gate | None = None
        record.add(self)

    def __call__(self, *arguments: Any) -> Any:
        if not self.is_stale:
            return self._record.refuse(*arguments)
        # The newer step has its own gate, because a reference cycle would keep both alive for too long.
        if self._newer is None or (self._newer_gate is not None and self._newer_gate.is_stale):
            self._newer, self._newer_gate = self._write(*arguments)
        return self._newer(*arguments)
