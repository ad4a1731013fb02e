"""The parts of a step, and the function that is made of them: text that is written, compiled once, and called.

Part                 the lines of one layer
assemble(parts)      one function of all layers' lines
source_of(step)      its text
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2s
from itertools import chain
from textwrap import indent
from types import CodeType
from typing import Any, TypeAlias, cast
from weakref import WeakSet

VALUES = ("observation", "reward", "terminated", "truncated", "discount", "info")
"""The local variables between two parts, besides `action`."""

MakeParts: TypeAlias = "Callable[..., Sequence[Part]]"
"""Returns the parts of a step, the innermost layer first."""


@dataclass(frozen=True)
class Part:
    """The share of one layer in a step, as lines of Python.

    The lines of all layers run in one function. On the way in they read and set `action`; on the way out the six
    `VALUES`, of which `discount` may be None for the default (0 where `terminated`, else 1). A name after `$` is the
    layer's own: an object of `names`, or a local variable; it never meets the same name of another layer.
    """

    title: str  # the layer and its contribution, for the comment above its lines: text of the library, never of a user
    inward: str = ""  # runs before the lines of the layer inside
    outward: str = ""  # runs after them; the innermost layer sets all `VALUES` here, a form returns
    # Of the innermost layer: a condition, after `outward`, under which a step is not quiet, and lines that set all
    # `VALUES` where it holds, and of a quiet step. That sets neither flag, has the default discount, and a float as
    # reward.
    unless: str = ""
    rarely: str = ""
    otherwise: str = ""
    # Lines of a form in a quiet step, in place of `outward` and of `otherwise`: the flags and the discount are not set
    # then, and `info` is the source's own, which must not be handed out. They return.
    quiet: str = ""
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the objects that lines may name after `$`
    # Those of `VALUES` that are the same at every step after this layer; outer layers leave out what others need.
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Of a layer between the innermost and a form: True if its lines need neither flags nor discount and info, and leave
    # them and the reward as they are; a quiet step is one with them, too.
    keeps_quiet: bool = False
    plan: LayerPlan | None = None  # of a layer that may plan again: its plan, until it does


class LayerPlan:
    """The functions and objects that the part of a layer names, for as long as the layer does not plan again.

    A wrapper plans again when another rewarder is set, since the specs of its change may follow from it; a model when
    one of its optional functions was replaced. Steps that were assembled before, which anyone may hold, are then
    outdated. A copy of a plan is one that no step holds.
    """

    def __init__(self, origin: Any = None) -> None:
        self._origin = origin
        self._held_by: WeakSet[_Again] = WeakSet()

    def follow(self, origin: Any) -> None:
        """Outdates the plan if it was made of something else."""
        if origin != self._origin:
            self._origin = origin
            self.outdate()

    def add(self, again: _Again) -> None:
        """Adds a step that this plan is a part of, by what assembles it again."""
        self._held_by.add(again)

    def outdate(self) -> None:
        """Makes all steps that this plan is a part of be assembled again when they are called the next time."""
        for again in self._held_by:
            again.is_due = True
        self._held_by.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return LayerPlan, ()


class _Again:
    """Takes the place of a step that is outdated: assembles it again, once, and calls the newer one.

    Attributes:
        is_due: True once the plan of a layer is outdated; the step asks for it.
    """

    __slots__ = ("__weakref__", "_newer", "_newer_again", "_parts", "is_due")

    def __init__(self, parts: MakeParts) -> None:
        self.is_due = False
        self._parts = parts
        self._newer: Callable[..., Any] | None = None
        self._newer_again: _Again | None = None

    def __call__(self, *arguments: Any) -> Any:
        # The newer step has an object of this kind of its own, because two that hold each other live too long.
        if self._newer is None or (self._newer_again is not None and self._newer_again.is_due):
            self._newer, self._newer_again = _assembled(self._parts, arguments[:-1])
        return self._newer(*arguments)


def assemble(parts: Sequence[Part] | MakeParts, unbound: Any = None) -> Callable[..., Any]:
    """Makes one function of the parts of a step."""
    given: tuple[Part, ...] = () if callable(parts) else tuple(parts)

    def the_same(*_: Any) -> tuple[Part, ...]:
        return given

    return _assembled(parts if callable(parts) else the_same, () if unbound is None else (unbound,))[0]


def _assembled(parts: MakeParts, unbound: tuple[Any, ...]) -> tuple[Callable[..., Any], _Again | None]:
    layers, again = parts(*unbound), None
    plans = [layer.plan for layer in layers if layer.plan is not None]
    if plans:
        again = _Again(parts)
        for plan in plans:
            plan.add(again)
    text, objects = _written(layers, *unbound, again=again)
    return _factory(text)(*objects), again


def source_of(step: Any) -> str | None:
    """Returns the text of an assembled step; None for any other object."""
    code = getattr(step, "__code__", None)
    return _TEXTS.get(code.co_filename) if isinstance(code, CodeType) else None


def written(parts: Sequence[Part]) -> str:
    """Returns the text of the function that `assemble` makes of these parts, without compiling it."""
    return _written(parts)[0]


def library_name(kind: type, otherwise: str) -> str:
    """Returns the name of a class of the library, for titles, which never have text of a user."""
    ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0] and kind.__name__.isidentifier()
    return kind.__name__ if ours else otherwise


# Writing and compiling.

_TEXTS: dict[str, str] = {}
"""The texts of all compiled steps by the file names of their code."""

_LINES = ("inward", "outward", "unless", "rarely", "otherwise", "quiet")
"""The fields of a `Part` that are text."""

_NOTHING = object()

_WHY_AGAIN = "# a layer's functions were replaced, such as its rewarder: assemble again"

_HOLE = re.compile(r"\$([A-Za-z_]\w*)")


def _written(parts: Sequence[Part], unbound: Any = None, again: _Again | None = None) -> tuple[str, list[Any]]:
    """Writes the text of a step."""
    taken = {"action", "make", "step", *VALUES}
    objects: dict[str, Any] = {}
    layers: list[Part] = []
    if again is not None:
        taken.add("again")
        objects["again"] = again
    for part in parts:
        texts = {name: getattr(part, name) for name in _LINES}
        own: dict[str, str] = {}
        for name in dict.fromkeys(_HOLE.findall("\n".join(texts.values()))):
            if name in part.names and objects.get(name, _NOTHING) is part.names[name]:
                own[name] = name  # two layers name one object alike
                continue
            own[name] = _free(name, taken)
            taken.add(own[name])
            if name in part.names:
                objects[own[name]] = part.names[name]
        layers.append(replace(part, **{name: _renamed(text, own) for name, text in texts.items()}))
    given = [] if unbound is None else [name for name, value in objects.items() if value is unbound] or ["_"]
    bound = {name: value for name, value in objects.items() if name not in given}
    arguments = ", ".join((*given[:1], "action"))
    check = [] if again is None else [_WHY_AGAIN, "if again.is_due:", f"    return again({arguments})"]
    same = [f"{name} = {given[0]}" for name in given[1:]]  # a wrapper may be the function of its change, too
    body = indent("\n".join([*check, *same, *_body(layers)]), " " * 8)
    text = f"def make({', '.join(bound)}):\n    def step({arguments}):\n{body}\n\n    return step\n"
    return text, list(bound.values())


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _HOLE.sub(lambda hole: names[hole[1]], text)


def _body(layers: Sequence[Part]) -> list[str]:
    """Returns the lines of a step, outermost layer first on the way in and last on the way out."""
    innermost, *outer = layers
    inward = [line for layer in reversed(layers) for line in _titled(layer.title, layer.inward)]
    outward = [_titled(layer.title, layer.outward) for layer in outer]
    lines = [*inward, *_titled(innermost.title, innermost.outward)]
    if not innermost.unless:
        return [*lines, *chain(*outward)]
    lines.append(f"if {innermost.unless}:")
    rarely, otherwise = innermost.rarely.splitlines(), innermost.otherwise.splitlines()
    *between, last = [*outer] or [Part("")]
    if last.quiet and all(layer.keeps_quiet for layer in between):
        lines += _indented([*rarely, *chain(*outward)])
        return [*lines, *chain(*outward[:-1]), *_titled(f"{last.title}, quiet", last.quiet)]
    return [*lines, *_indented(rarely), "else:", *_indented(otherwise), *chain(*outward)]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _free(name: str, taken: Iterable[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _titled(title: str, text: str) -> list[str]:
    return [f"# {title}", *text.splitlines()] if text else []


@cache
def _factory(text: str) -> Callable[..., Callable[..., Any]]:
    """Compiles the text of a step, once."""
    file = f"<envoi step {blake2s(text.encode(), digest_size=8).hexdigest()}>"
    # Without a time, so that no check for changed files throws it away.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    _TEXTS[file] = text
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, file, "exec"), names)  # noqa: S102 (text of the library alone, see `Part`)
    return cast("Callable[..., Callable[..., Any]]", names["make"])
