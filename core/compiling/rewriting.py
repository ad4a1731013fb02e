"""Rewrites a scalar model's functions so that numba can compile them.

The functions are used as they are, except for what numba has no types for:

    self.speed               a field of a record, if it is a number; a constant, if it is an array or a tuple
    self.helper(state)       a call of the function `helper`, rewritten in the same way
    rng.uniform(low, high)   a call of a function on the lane's stream, see `random_streams`
    context["gravity"]       a field of the lane's record of its context
    state._replace(x=1)      a call of the state's class
    x**2                     C's `pow`, as Python computes it
    return {"a": 1}, …       in `observe`: a tuple, in the order of the spec

Line numbers stay, so that errors show the author's lines.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from .errors import NotCompilable
from .random_streams import METHODS

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
        returns_scalars: True if it returns tuples of scalars in place of arrays or dicts.
    """

    tree: ast.Module
    name: str
    file: str
    globals: dict[str, Any]
    returns_scalars: bool = False


@dataclass
class Rewriter:
    """Rewrites the functions of one model.

    Args:
        model: The model.
        state: A state, for the class of named tuples.
        keys: The keys of an observation that is a dict.

    Attributes:
        fields: The numbers among the model's attributes that its functions use.
        functions: The rewritten functions by their names.
        uses_generator: The names of functions that use their generator.
    """

    model: Any
    state: Any
    keys: tuple[Any, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: dict[str, Rewritten] = field(default_factory=dict[str, Rewritten])
    uses_generator: set[str] = field(default_factory=set[str])
    sources: list[str] = field(default_factory=list[str])

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
            if not isinstance(function, FunctionType):
                raise NotCompilable(f"{type(self.model).__name__}.{name}: expected a function, got {function!r}")
            self._function(key, function, generator, context, not isinstance(held, staticmethod), name == "observe")
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
        try:
            lines, first = inspect.getsourcelines(function)
            text = textwrap.dedent("".join(lines))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError) as error:
            raise NotCompilable(f"{place}: its source cannot be read ({error})") from error
        (definition,) = tree.body
        if not isinstance(definition, ast.FunctionDef):
            raise NotCompilable(f"{place}: expected a function that is written by def")
        self.sources.append(ast.unparse(tree))
        ast.increment_lineno(tree, first - 1)
        definition.decorator_list = []
        new = Rewritten(tree, key, inspect.getsourcefile(function) or "<source>", dict(_globals_of(function)))
        self.functions[key] = new  # before its body, which may call it
        names = [argument.arg for argument in definition.args.args]
        shift = 1 if of_model else 0
        generators = {names[generator + shift]} if generator is not None else {*names} & {*_GENERATORS}
        own = names[0] if of_model and names else ""
        definition.name = key
        for argument in definition.args.args:
            argument.annotation = None
        definition.returns = None
        change = _Change(self, new, key, place, own, generators, names[context + shift] if context is not None else "")
        definition.body = [change.visit(statement) for statement in definition.body]
        if observes:
            new.returns_scalars = _return_scalars(definition, self.keys)
        ast.fix_missing_locations(tree)
        self._follow(new, definition)

    def _follow(self, new: Rewritten, definition: ast.FunctionDef) -> None:
        """Rewrites the functions among the globals that a function uses, and notes the values of the others."""
        used = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
        kept: dict[str, Any] = {}
        for name in sorted(used & new.globals.keys()):
            value = new.globals[name]
            if isinstance(value, FunctionType) and not value.__module__.startswith(("numpy", "numba")):
                key = f"function_{value.__module__.replace('.', '_')}_{value.__qualname__.replace('.', '_')}"
                if not key.isidentifier():
                    raise NotCompilable(f"{value.__qualname__}: a function inside a function cannot be compiled")
                if key not in self.functions:
                    self._function(key, value, None, None, False)
                _rename(definition, name, key)
                continue
            kept[name] = value
            self.sources.append(f"{name} = {_constant_text(value)}")
        new.globals = kept

    def constant(self, new: Rewritten, name: str, value: Any) -> str:
        """Adds an attribute that is no number as a constant.

        Args:
            new: The function that uses it.
            name: The name of the attribute.
            value: Its value.

        Returns:
            Its global name.
        """
        new.globals[f"constant_{name}"] = value
        return f"constant_{name}"


class _Change(ast.NodeTransformer):
    """Changes the body of one function."""

    def __init__(
        self, rewriter: Rewriter, new: Rewritten, key: str, place: str, own: str, generators: set[str], context: str
    ) -> None:
        self.rewriter, self.new, self.key, self.place = rewriter, new, key, place
        self.own, self.generators, self.context = own, generators, context

    def _refuse(self, node: ast.AST, reason: str) -> NotCompilable:
        line = getattr(node, "lineno", "?")
        return NotCompilable(f"{self.place} ({self.new.file.rpartition('/')[2]}, line {line}): {reason}")

    def visit_Call(self, node: ast.Call) -> Any:
        target = node.func
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            if target.value.id in self.generators:
                if target.attr not in METHODS:
                    raise self._refuse(node, f"rng.{target.attr} cannot be compiled; there are {', '.join(METHODS)}")
                self.rewriter.uses_generator.add(self.key)
                arguments = [self.visit(one) for one in node.args]
                keywords = [self.visit(one) for one in node.keywords]
                call = ast.Call(_name(f"rng_{target.attr}"), [_name(target.value.id), *arguments], keywords)
                return ast.copy_location(call, node)
            if target.value.id == self.own:
                return self._own_call(node, target)
        if isinstance(target, ast.Attribute) and target.attr == "_replace" and isinstance(target.value, ast.Name):
            return self._replaced(node, target.value)
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow):
            return ast.copy_location(ast.Call(_name("power"), [node.left, node.right], []), node)
        return node

    def _own_call(self, node: ast.Call, target: ast.Attribute) -> Any:
        bound = getattr(self.rewriter.model, target.attr, None)
        if not isinstance(bound, (MethodType, FunctionType)):
            raise self._refuse(node, f"self.{target.attr} is no function")
        key = self.rewriter.method(target.attr)
        if key in self.rewriter.uses_generator:
            self.rewriter.uses_generator.add(self.key)
        first = [_name(self.own)] if isinstance(bound, MethodType) else []
        call = ast.Call(
            _name(key), [*first, *(self.visit(one) for one in node.args)], [self.visit(k) for k in node.keywords]
        )
        return ast.copy_location(call, node)

    def _replaced(self, node: ast.Call, value: ast.Name) -> Any:
        fields = getattr(self.rewriter.state, "_fields", None)
        given = {one.arg: self.visit(one.value) for one in node.keywords}
        if fields is None or not given.keys() <= {*fields}:
            raise self._refuse(node, "_replace is only compiled for the named tuple of the state")
        kind = self.rewriter.constant(self.new, "state", type(self.rewriter.state))
        parts: list[Any] = [given.get(name) or ast.Attribute(_name(value.id), name, ast.Load()) for name in fields]
        return ast.copy_location(ast.Call(_name(kind), parts, []), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not (isinstance(node.value, ast.Name) and node.value.id == self.own):
            return self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            raise self._refuse(node, f"it sets self.{node.attr}; the functions of a model change nothing")
        if not hasattr(self.rewriter.model, node.attr):
            raise self._refuse(node, f"the model has no attribute {node.attr!r}")
        value = getattr(self.rewriter.model, node.attr)
        if isinstance(value, (bool, int, float, np.number, np.bool_)):
            self.rewriter.fields[node.attr] = value
            return node
        if not _is_constant(value):
            raise self._refuse(node, f"self.{node.attr} is a {type(value).__name__}; numbers, arrays and tuples can be")
        name = self.rewriter.constant(self.new, node.attr, value)
        self.rewriter.sources.append(f"self.{node.attr} = {_constant_text(value)}")
        return ast.copy_location(_name(name), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == self.context and self.context:
            if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
                raise self._refuse(node, "a context is only compiled with the names of features written out")
            return ast.copy_location(ast.Attribute(_name(self.context), f"c_{node.slice.value}", ast.Load()), node)
        return self.generic_visit(node)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _rename(tree: ast.AST, old: str, new: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def _return_scalars(definition: ast.FunctionDef, keys: tuple[Any, ...]) -> bool:
    """Replaces arrays and dicts that a function returns by tuples, if it does so in every return.

    `np.array([x, v], dtype)` needs memory in each step, and numba has no dicts of different values.
    """
    returns = [node for node in ast.walk(definition) if isinstance(node, ast.Return)]
    new: list[ast.expr] = []
    for node in returns:
        value = node.value
        if isinstance(value, ast.Dict) and keys:
            found = {
                key.value: one
                for key, one in zip(value.keys, value.values, strict=True)
                if isinstance(key, ast.Constant)
            }
            if found.keys() != {*keys}:
                return False
            new.append(ast.Tuple([found[key] for key in keys], ast.Load()))
        elif isinstance(value, ast.Call) and not keys and _makes_array(value):
            (elements,) = [one.elts for one in value.args[:1] if isinstance(one, (ast.List, ast.Tuple))]
            new.append(ast.Tuple(list(elements), ast.Load()))
        else:
            return False
    for node, value in zip(returns, new, strict=True):
        node.value = ast.copy_location(value, node)
    return bool(returns)


def _makes_array(call: ast.Call) -> bool:
    """Returns True for `np.array([a, b, …])` of single elements, of any dtype: the output has that of the spec."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr in ("array", "asarray")
    if not named or not call.args or not isinstance(call.args[0], (ast.List, ast.Tuple)):
        return False
    return not any(isinstance(one, (ast.Starred, ast.List, ast.Tuple)) for one in call.args[0].elts)


def _globals_of(function: FunctionType) -> Mapping[str, Any]:
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return all(_is_constant(part) for part in parts)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, str, np.number, np.bool_))


def _constant_text(value: Any) -> str:
    """Returns a text that differs for values that compile to different code."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    return repr(value) if _is_constant(value) else getattr(value, "__name__", type(value).__name__)


def jitted(rewriter: Rewriter) -> Callable[[], Mapping[str, Any]]:
    """Returns a function that makes the compiled forms of all rewritten functions, by their names."""

    def make() -> Mapping[str, Any]:
        from numba import njit  # imported here, because only compiling needs it

        from .random_functions import NAMES

        space: dict[str, dict[str, Any]] = {}
        made: dict[str, Any] = {}
        for key, new in rewriter.functions.items():
            names = space[key] = {"__name__": f"{type(rewriter.model).__module__}", **new.globals, **NAMES}
            exec(compile(new.tree, new.file, "exec"), names)  # noqa: S102 (the author's own function, rewritten)
            made[key] = njit(names[key], error_model="python", boundscheck=True)
        for names in space.values():
            names.update(made)
        return made

    return make
