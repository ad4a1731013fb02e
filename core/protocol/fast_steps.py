"""Fast steps: every layer of an environment declares its part of a step, and one flat function is made of the parts.

    ToGymnasium      a form                 action →                          → five values
    Lifted           a wrapper's change     action → action, reward → reward
    Model            the environment        action → the functions that the author wrote → six values

Called one inside the other, three layers cost three calls a step, and each asks again what was settled when the
environment was made. Instead each declares its part as text, and `assemble` writes the texts one after another into
one function:

    def make(model, ENDED, is_default_discount):
        def step(action):
            # Model: the functions that the author wrote
            ...
            # ToGymnasium: five values
            return observation, reward, terminated, truncated, info

        return step

The text is compiled once for each distinct composition. Environments come in as arguments of `make`, so that two
compositions of the same kinds of layers share one code object. `explain` returns the text; tracebacks and debuggers
show its lines.

A part that a subclass could contradict is not used: `parts_of` has the one rule for that.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2s
from textwrap import indent
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from ..errors import SpecError
from .process import Process

if TYPE_CHECKING:
    from .env import Env

VALUES = ("observation", "reward", "terminated", "truncated", "discount", "info")
"""The local variables between two parts, besides `action`."""

RawStep = Callable[[Any], tuple[Any, Any, bool, bool, Any, dict[Any, Any]]]
"""`action -> (observation, reward, terminated, truncated, discount, info)`, discount None for the default."""


@dataclass(frozen=True)
class Part:
    """The share of one layer in a step, as lines of Python.

    The lines of all layers run in one function. On the way in they read and set `action`; on the way out the six
    `VALUES`, of which `discount` may be None for the default (0 where `terminated`, else 1). A name after `$` is the
    layer's own: an object of `names`, or a local variable; it never meets the same name of another layer.

    Attributes:
        title: The layer and its contribution, for the comment above its lines: text of the library, never of a user.
        inward: Lines that run before those of the layer inside.
        outward: Lines that run after them. The innermost layer sets all `VALUES` here, a form returns.
        names: The objects that the lines may name after `$`.
        unless: Of the innermost layer: a condition, after `outward`, under which a step is not quiet. A quiet step sets
            neither flag, has the default discount, and a float as reward.
        rarely: Of the innermost layer: lines that set all `VALUES` where `unless` holds.
        otherwise: Of the innermost layer: lines that set all `VALUES` of a quiet step.
        quiet: Lines of a form in a quiet step, in place of `outward` and of `otherwise`: the flags and the discount are
            not set then, and `info` is the source's own, which must not be handed out. They return.
        constants: Those of `VALUES` that are the same at every step after this layer, so that outer layers can leave
            out what they would do about others.
    """

    title: str
    inward: str = ""
    outward: str = ""
    unless: str = ""
    rarely: str = ""
    otherwise: str = ""
    quiet: str = ""
    names: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])


SIX_VALUES = Part("a tuple of six values", outward=f"return {', '.join(VALUES)}")
"""The part that ends a step for layers which call it."""


def assemble(parts: Sequence[Part], unbound: Any = None) -> Callable[..., Any]:
    """Makes one function of the parts of a step.

    Args:
        parts: The innermost layer first; the last one returns.
        unbound: An object that the function shall not hold but take as its first argument, for a layer that keeps the
            function itself.

    Returns:
        `action -> result`, or `(unbound, action) -> result`. It must not be pickled or copied: make it again.
    """
    text, objects = _written(parts, unbound)
    return _factory(text)(*objects)


def fast_step(env: Env) -> RawStep:
    """Returns the fastest step function of an environment that respects user overrides of `step`.

    What is patched onto an instance after this call may go unseen.

    Args:
        env: An environment of one agent; for a batch the function takes `restart` as `step` does.
    """
    parts = parts_of(env)
    return assemble([*parts, SIX_VALUES]) if parts else _called(env)


def parts_of(env: Env) -> tuple[Part, ...]:
    """Returns the parts of an environment's step, the innermost layer first; none where `step` itself must be called.

    They are what the method `step_parts` of its class gives. They do not hold where `step` is overridden below that
    class, or patched onto the instance.

    Args:
        env: An environment of one agent.
    """
    return beside_step(env, "step_parts", tuple)()


def parts_or_call(env: Env) -> tuple[Part, ...]:
    """Returns the parts of an environment's step, or one part that calls it.

    Args:
        env: An environment of one agent.
    """
    call = f"{', '.join(VALUES)} = $inner_step(action)"
    return parts_of(env) or (Part("a layer that is called as it is", outward=call, names={"inner_step": _called(env)}),)


def _called(env: Env) -> RawStep:
    return beside_step(env, "raw_step", env.step)


def beside_step(env: Env, name: str, otherwise: Any = None) -> Any:
    """Returns a method beside an environment's step, unless a subclass of its class has a `step` of its own.

    Args:
        env: The environment.
        name: The method's name.
        otherwise: The result where there is no such method, or it does not hold.
    """
    # Not by `vars(env)`: CPython 3.11 reads an object's attributes more slowly once its dict was asked for.
    if getattr(env.step, "__func__", None) is type(env).step:
        for kind in type(env).__mro__:
            if name in vars(kind):
                return getattr(env, name)
            if "step" in vars(kind) or "raw_step" in vars(kind):
                break
    return otherwise


def five_step(env: Env) -> Callable[[Any], tuple[Any, Any, bool, bool, dict[Any, Any]]] | None:
    """Returns an environment's `five_step`, where it has one: a step for forms that have no place for a discount.

    It gives five values, and a discount that is not the default in the info, as `info["discount"]`.

    Args:
        env: An environment of one agent.
    """
    return beside_step(env, "five_step")


def explain(env: Any) -> str:
    """Returns the source of an environment's assembled step, with a comment above the lines of each layer.

    The text is the same for the same composition of layers.

    Args:
        env: A form of any framework, or a core environment, for which it is the step that forms and wrappers call.

    Raises:
        SpecError: It has no step.
    """
    step = getattr(env, "step", None)
    if not callable(step):
        raise SpecError(f"env: expected an environment, got {env!r}")
    code = getattr(step, "__code__", None)
    if isinstance(code, CodeType) and code.co_filename in _TEXTS:
        return _TEXTS[code.co_filename]
    if isinstance(env, Process) and not hasattr(env, "agents") and getattr(env, "batch_size", None) is None:
        return _written([*parts_or_call(cast("Any", env)), SIX_VALUES])[0]
    return _written(
        [Part("a step that is called as it is", outward="return $own_step(action)", names={"own_step": step})]
    )[0]


# Writing and compiling.

_TEXTS: dict[str, str] = {}
"""The texts of all compiled steps by the file names of their code."""

_LINES = ("inward", "outward", "unless", "rarely", "otherwise", "quiet")
"""The fields of a `Part` that are text."""

_HOLE = re.compile(r"\$([A-Za-z_]+)")


def _written(parts: Sequence[Part], unbound: Any = None) -> tuple[str, list[Any]]:
    """Writes the text of a step.

    Returns:
        The text, and the objects that its `make` takes.
    """
    taken = {"action", "make", "step", *VALUES}
    objects: dict[str, Any] = {}
    layers: list[Part] = []
    for part in parts:
        texts = {name: getattr(part, name) for name in _LINES}
        own: dict[str, str] = {}
        for name in dict.fromkeys(_HOLE.findall("\n".join(texts.values()))):
            own[name] = _free(name, taken)
            taken.add(own[name])
            if name in part.names:
                objects[own[name]] = part.names[name]
        layers.append(replace(part, **{name: _renamed(text, own) for name, text in texts.items()}))
    given = [name for name, value in objects.items() if unbound is not None and value is unbound]
    bound = {name: value for name, value in objects.items() if name not in given}
    body = indent("\n".join(_body(layers)), " " * 8)
    arguments = ", ".join((*given, "action"))
    return f"def make({', '.join(bound)}):\n    def step({arguments}):\n{body}\n\n    return step\n", list(
        bound.values()
    )


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _HOLE.sub(lambda hole: names[hole[1]], text)


def _body(layers: Sequence[Part]) -> list[str]:
    """Returns the lines of a step, outermost layer first on the way in and last on the way out."""
    innermost, *outer = layers
    inward = [line for layer in reversed(layers) for line in _titled(layer.title, layer.inward)]
    outward = [line for layer in outer for line in _titled(layer.title, layer.outward)]
    lines = [*inward, *_titled(innermost.title, innermost.outward)]
    if not innermost.unless:
        return [*lines, *outward]
    lines.append(f"if {innermost.unless}:")
    rarely, otherwise = innermost.rarely.splitlines(), innermost.otherwise.splitlines()
    if len(outer) == 1 and outer[0].quiet:
        return [*lines, *_indented([*rarely, *outward]), *_titled(f"{outer[0].title}, quiet", outer[0].quiet)]
    return [*lines, *_indented(rarely), "else:", *_indented(otherwise), *outward]


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
