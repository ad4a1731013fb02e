"""Rewrites a scalar model's functions so that numba can compile them.

The functions are used as they are, except for what numba has no types for:

    self.speed               a field of a record, if it is a number; a constant, if it is an array or a tuple
    self.helper(state)       a call of the function `helper`, rewritten in the same way
    rng.uniform(low, high)   a call of a function on the lane's stream, see `random_streams`
    context["gravity"]       a field of the lane's record of its context
    state._replace(x=1)      a call of the state's class
    x**2, x + 1, int(x), …   a function with Python's values, or none, see `operators`
    math.sin(x), np.exp(x)   the same, or numpy's own loop, see `known_functions`
    return {"a": 1}, …       in `observe`: a tuple, in the order of the spec

Line numbers stay, so that errors show the author's lines.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from .changes import Change, name_of
from .constants import constant_text, globals_of, held_value, is_constant, is_equal, reader_of
from .errors import NotCompilable
from .returned_values import return_scalars
from .sources import definition_of

_GENERATORS = ("rng", "generator")
"""Names of parameters that are taken for generators in an author's own helpers."""


@dataclass
class Rewritten:
    """One rewritten function.

    Attributes:
        tree: Its module.
        name: Its name in that module.
        file: The file of the original.
        globals: The globals that it uses.
        returned: Empty if it returns tuples of scalars in place of arrays, the keys if it does in place of dicts; else
            None.
    """

    tree: ast.Module
    name: str
    file: str
    globals: dict[str, Any]
    returned: tuple[Any, ...] | None = None


@dataclass
class Rewriter:
    """Rewrites the functions of one model.

    Args:
        model: The model.
        state: A state, for the class of named tuples.
        keys: The keys of an observation that is a dict.
        dtype: The dtype of an observation that is one array.

    Attributes:
        fields: The numbers among the model's attributes that its functions use.
        functions: The rewritten functions by their names.
        uses_generator: The names of functions that use their generator.
        sources: Everything that the code depends on, as text.
        attributes: The attributes of the model that the code has as constants.
        frozen: The globals that the code has as constants, as functions that read them, with their values.
    """

    model: Any
    state: Any
    keys: tuple[Any, ...] = ()
    dtype: Any = None
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: dict[str, Rewritten] = field(default_factory=dict[str, Rewritten])
    uses_generator: set[str] = field(default_factory=set[str])
    sources: list[str] = field(default_factory=list[str])
    helpers: dict[str, FunctionType] = field(default_factory=dict[str, FunctionType])
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    frozen: list[tuple[Callable[[], Any], Any]] = field(default_factory=list[tuple[Callable[[], Any], Any]])

    def method(self, name: str, generator: int | None = None, context: int | None = None) -> str:
        """Rewrites a method of the model.

        Args:
            name: The method's name.
            generator: The position of its parameter that is a generator, `self` not counted.
            context: The position of the one that is a context.

        Returns:
            The global name of the new function, whose first parameter is the record of the model.

        Raises:
            NotCompilable: Its source is not there, or it does what cannot be compiled.
        """
        key = f"model_{name}"
        if key not in self.functions:
            held = inspect.getattr_static(type(self.model), name)
            bound = getattr(self.model, name)
            function = bound.__func__ if isinstance(bound, MethodType) else bound
            if not isinstance(function, FunctionType) or name in vars(self.model):
                title = type(self.model).__name__
                raise NotCompilable(f"{title}.{name}: expected a method of the class, got {bound!r}")
            self._function(key, function, generator, context, not isinstance(held, staticmethod), name == "observe")
        return key

    def helper(self, function: FunctionType) -> str:
        """Rewrites a function that is no method, and returns its global name."""
        key = f"function_{function.__module__.replace('.', '_')}_{function.__qualname__.replace('.', '_')}"
        if not key.isidentifier():
            raise NotCompilable(f"{function.__qualname__}: a function inside a function cannot be compiled")
        if self.helpers.setdefault(key, function) is not function:
            raise NotCompilable(f"{function.__qualname__}: there are two functions of this name")
        if key not in self.functions:
            self._function(key, function, None, None, False)
        return key

    def _function(
        self,
        key: str,
        function: FunctionType,
        generator: int | None,
        context: int | None,
        of_model: bool,
        observes: bool = False,
    ) -> None:
        place = f"{type(self.model).__name__}.{function.__name__}" if of_model else function.__name__
        tree, definition, file = definition_of(function, place)
        self.sources.append(ast.unparse(tree))
        definition.decorator_list = []
        new = Rewritten(tree, key, file, dict(globals_of(function)))
        self.functions[key] = new  # before its body, which may call it
        known = dict(new.globals)
        self._set_defaults(new, definition, function, place)
        names = [argument.arg for argument in definition.args.args]
        shift = 1 if of_model else 0
        generators = {names[generator + shift]} if generator is not None else {*names} & {*_GENERATORS}
        own = names[0] if of_model and names else ""
        definition.name = key
        for argument in definition.args.args:
            argument.annotation = None
        definition.returns = None
        local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        context_name = names[context + shift] if context is not None else ""
        change = Change(self, key, place, file, new.globals, local, own, generators, context_name)
        known = {name: value for name, value in known.items() if name not in local}
        self._note_globals(definition, function, known)
        definition.body = [change.visit(statement) for statement in definition.body]
        if observes:
            new.returned = return_scalars(definition, self.keys, self.dtype, change.resolve)
        ast.fix_missing_locations(tree)
        self._keep_used(new, definition)

    def _set_defaults(self, new: Rewritten, definition: ast.FunctionDef, function: FunctionType, place: str) -> None:
        """Replaces the expressions of default arguments by their values."""
        named = function.__kwdefaults__ or {}
        keywords = [one.arg for one in definition.args.kwonlyargs]
        values = [*(function.__defaults__ or ()), *(named[name] for name in keywords if name in named)]
        if not all(value is None or is_constant(value) for value in values):
            raise NotCompilable(f"{place}: its default arguments are no numbers")
        names: list[Any] = [name_of(self.constant(new.name, f"default{k}", value)) for k, value in enumerate(values)]
        count = len(function.__defaults__ or ())
        definition.args.defaults = names[:count]
        rest = iter(names[count:])
        definition.args.kw_defaults = [next(rest) if name in named else None for name in keywords]

    def _note_globals(self, definition: ast.FunctionDef, function: FunctionType, known: dict[str, Any]) -> None:
        """Notes the values of the globals that a function uses, which may change later."""
        for node in ast.walk(definition):
            if isinstance(node, ast.Name) and node.id in known:
                self.frozen.append((reader_of(function, node.id), held_value(known[node.id])))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                base = known.get(node.value.id)
                if isinstance(base, ModuleType) and hasattr(base, node.attr):
                    self.frozen.append((partial(getattr, base, node.attr), held_value(getattr(base, node.attr))))

    def _keep_used(self, new: Rewritten, definition: ast.FunctionDef) -> None:
        """Keeps the globals that a rewritten function uses, and notes their values in the digest."""
        used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        kept = {name: new.globals[name] for name in sorted(used & new.globals.keys())}
        self.sources += [f"{name} = {constant_text(value)}" for name, value in kept.items()]
        new.globals = kept

    def constant(self, key: str, name: str, value: Any) -> str:
        """Adds a constant to the globals of a function.

        Args:
            key: The global name of the function.
            name: The name of the constant.
            value: Its value.

        Returns:
            Its global name.
        """
        self.functions[key].globals[f"constant_{name}"] = value
        return f"constant_{name}"

    def attribute(self, name: str, value: Any) -> None:
        """Notes an attribute of the model that the code has as a constant.

        Args:
            name: Its name.
            value: Its value.
        """
        self.attributes[name] = held_value(value)

    def is_current(self, models: Iterable[Any]) -> bool:
        """Returns True if all that the code has as constants still has the values that it had.

        Args:
            models: The models that the code is to step.
        """
        try:
            return all(is_equal(read(), value) for read, value in self.frozen) and all(
                is_equal(getattr(model, name), value) for model in models for name, value in self.attributes.items()
            )
        except (AttributeError, KeyError, ValueError):  # it is no longer there
            return False


def jitted(rewriter: Rewriter) -> Callable[[], Mapping[str, Any]]:
    """Returns a function that makes the compiled forms of all rewritten functions, by their names."""

    def make() -> Mapping[str, Any]:
        from numba import njit  # imported here, because only compiling needs it

        from . import number_conversions, operators, random_functions, ufunc_functions

        checked = {**operators.NAMES, **number_conversions.NAMES, **ufunc_functions.NAMES}
        given = {**random_functions.NAMES, **checked}
        space: dict[str, dict[str, Any]] = {}
        made: dict[str, Any] = {}
        for key, new in rewriter.functions.items():
            names = space[key] = {"__name__": f"{type(rewriter.model).__module__}", **new.globals, **given}
            exec(compile(new.tree, new.file, "exec"), names)  # noqa: S102 (the author's own function, rewritten)
            made[key] = njit(names[key], error_model="python", boundscheck=True)
        for names in space.values():
            names.update(made)
        return {**checked, **made}

    return make
