"""Rewrites a scalar model's functions so that numba can compile them.

The functions are used as they are, except for what numba has no types for:

    self.speed               a field of a record, if it is a number; a constant, if it is an array or a tuple
    self.helper(state)       a call of the function `helper`, rewritten in the same way
    rng.uniform(low, high)   a call of a function on the lane's stream, see `random_streams`
    context["gravity"]       a field of the lane's record of its context
    state._replace(x=1)      a call of the state's class
    x**2, x + 1, int(x), …   a function with Python's values, or none, see `operators`
    math.sin(x)              the same, if its compiled form gives the same bits, see `known_functions`
    return {"a": 1}, …       in `observe`: a tuple, in the order of the spec

Line numbers stay, so that errors show the author's lines.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np

from ..errors import NotCompilable, near_misses
from .known_functions import method_replacement, replacement_of
from .random_streams import METHODS


def is_constant(value: Any) -> bool:
    """Returns True for numbers, texts, arrays of numbers, and tuples of these."""
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return all(is_constant(part) for part in parts)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, str, np.number, np.bool_))


def globals_of(function: FunctionType) -> Mapping[str, Any]:
    """Returns the globals of a function, and the variables of the functions around it that it uses."""
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def reader_of(function: FunctionType, name: str) -> Callable[[], Any]:
    """Returns a function that reads a global of another function, or a variable of the function around it."""
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return lambda: cell.cell_contents
    return lambda: function.__globals__[name]


def held_value(value: Any) -> Any:
    """Returns a copy of a constant, since arrays may be changed in place; any other value as it is."""
    return copy.deepcopy(value) if is_constant(value) else value


def is_equal(one: Any, other: Any) -> bool:
    """Returns True for equal numbers, arrays and tuples of these, and for the same other object."""
    if one is other and not isinstance(one, np.ndarray):
        return True
    if not is_constant(one) or not is_constant(other) or type(one) is not type(other):
        return False
    return constant_text(one) == constant_text(other)


def constant_text(value: Any) -> str:
    """Returns a text that differs for values that compile to different code."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return f"{type(value).__name__} ({', '.join(map(constant_text, parts))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    return repr(value) if is_constant(value) else getattr(value, "__name__", type(value).__name__)


def definition_of(function: FunctionType, place: str) -> tuple[ast.Module, ast.FunctionDef, str]:
    """Returns the definition of a function. Decorators that put another function in its place are part of that one."""
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(code)
        whole, _ = inspect.findsource(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        loaded = _codes("".join(whole), code.co_filename)
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise NotCompilable(f"{place}: its source cannot be read ({error})") from error
    if not any(_is_same(code, other) for other in loaded if other.co_name == code.co_name):
        raise NotCompilable(f"{place}: its source has changed since it was imported; import it again")
    definition = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(definition, ast.FunctionDef):
        raise NotCompilable(f"{place}: expected a function that is written by def")
    ast.increment_lineno(tree, first - 1)
    return tree, definition, inspect.getsourcefile(code) or "<source>"


@lru_cache(maxsize=16)
def _codes(text: str, file: str) -> list[CodeType]:
    """Returns the code of all functions of a file."""
    return [*_inside(compile(text, file, "exec", dont_inherit=True))]


def _inside(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _inside(const)


def _is_same(code: CodeType, other: CodeType) -> bool:
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_firstlineno")
    if any(getattr(code, name) != getattr(other, name) for name in names):
        return False
    pairs = list(zip(code.co_consts, other.co_consts, strict=False))
    return len(code.co_consts) == len(other.co_consts) and all(
        _is_same(one, two)
        if isinstance(one, CodeType) and isinstance(two, CodeType)
        else repr(one) == repr(two) or isinstance(one, frozenset)
        for one, two in pairs
    )


def return_scalars(
    definition: ast.FunctionDef, keys: tuple[Any, ...], dtype: Any, resolve: Callable[[ast.expr], Any]
) -> tuple[Any, ...] | None:
    """Replaces arrays and dicts that a function returns by tuples, if every return allows it.

    `np.array([x, v], dtype)` needs memory in each step, and numba has no dicts of different values.
    """
    returns = [node for node in ast.walk(definition) if isinstance(node, ast.Return)]
    new: list[ast.expr] = []
    orders: set[tuple[Any, ...]] = set()
    for node in returns:
        value = node.value
        if isinstance(value, ast.Dict) and keys:
            order = tuple(key.value if isinstance(key, ast.Constant) else None for key in value.keys)
            if len(order) != len(keys) or {*order} != {*keys}:
                return None
            orders.add(order)
            new.append(ast.Tuple(value.values, ast.Load()))
        elif isinstance(value, ast.Call) and not keys and _makes_array(value, dtype, resolve):
            (elements,) = [one.elts for one in value.args[:1] if isinstance(one, (ast.List, ast.Tuple))]
            orders.add(())
            new.append(ast.Tuple(list(elements), ast.Load()))
        else:
            return None
    if len(orders) != 1:
        return None
    for node, value in zip(returns, new, strict=True):
        node.value = ast.copy_location(value, node)
    return orders.pop()


def _makes_array(call: ast.Call, dtype: Any, resolve: Callable[[ast.expr], Any]) -> bool:
    """Returns True for `np.array([a, b, …])` of single elements, with no dtype or the observation's."""
    if resolve(call.func) not in (np.array, np.asarray) or not 1 <= len(call.args) <= 2:
        return False
    if not isinstance(call.args[0], (ast.List, ast.Tuple)) or any(one.arg != "dtype" for one in call.keywords):
        return False
    given: list[ast.expr] = [*call.args[1:], *(one.value for one in call.keywords)]
    try:
        if len(given) > 1 or any(np.dtype(resolve(one)) != dtype for one in given):
            return False
    except TypeError:  # that is no dtype
        return False
    return not any(isinstance(one, (ast.Starred, ast.List, ast.Tuple)) for one in call.args[0].elts)


_OPERATORS: dict[type, str] = {
    ast.Add: "checked_add", ast.Sub: "checked_sub", ast.Mult: "checked_mul", ast.Div: "checked_truediv",
    ast.FloorDiv: "checked_floordiv", ast.Mod: "checked_mod", ast.Pow: "power", ast.LShift: "shifted_left",
    ast.RShift: "shifted_right",
}  # fmt: skip
_IN_PLACE = {"add", "sub", "mul", "truediv", "floordiv", "mod"}
_COMPARED: dict[type, str] = {
    ast.Lt: "checked_lt", ast.LtE: "checked_le", ast.Gt: "checked_gt", ast.GtE: "checked_ge", ast.Eq: "checked_eq",
    ast.NotEq: "checked_ne",
}  # fmt: skip

_STATEMENTS: dict[type, str] = {
    ast.Import: "it imports a module; do that at the top of the file",
    ast.ImportFrom: "it imports a name; do that at the top of the file",
    ast.Global: "it sets a global; keep the value in the state",
    ast.Nonlocal: "it sets a variable around it; keep the value in the state",
    ast.ClassDef: "it defines a class; do that outside of the function",
    ast.Try: "it catches errors; test with `if` for what would raise one",
    ast.TryStar: "it catches errors; test with `if` for what would raise one",
    ast.With: "it has a `with` block; write the statements alone",
    ast.Delete: "it deletes a name; leave that out",
    ast.Yield: "it is a generator; return the value",
    ast.YieldFrom: "it is a generator; return the value",
    ast.Await: "it waits; return the value",
}
"""Syntax that numba refuses, often at a line of its own, with what to write instead."""

UNKNOWN: Any = object()
"""The value of a name that is not known before a function runs."""


class Program(Protocol):
    """The functions of a model, of which `Change` changes one; see `Rewriter`."""

    model: Any
    state: Any
    fields: dict[str, Any]
    uses_generator: set[str]

    def method(self, name: str) -> str:
        """Rewrites a method of the model, and returns its global name."""
        ...

    def helper(self, function: FunctionType) -> str:
        """Rewrites a function that is no method, and returns its global name."""
        ...

    def constant(self, key: str, name: str, value: Any) -> str:
        """Adds a constant to a function's globals."""
        ...

    def attribute(self, name: str, value: Any) -> None:
        """Notes a constant attribute of the model."""
        ...


class Change(ast.NodeTransformer):
    """Changes the body of one function of a program.

    `own` and `context` are the names of its parameters of this kind, empty if it has none; `generators` those that are
    generators.
    """

    def __init__(
        self, program: Program, key: str, place: str, file: str, space: dict[str, Any], local: set[str], own: str,
        generators: set[str], context: str,
    ) -> None:  # fmt: skip
        self.program, self.key, self.place, self.file = program, key, place, file
        self.space, self.local = space, local
        self.own, self.generators, self.context = own, generators, context

    def visit(self, node: ast.AST) -> Any:
        """Changes a node, or refuses it."""
        reason = _STATEMENTS.get(type(node))
        if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Store):
            reason = "it unpacks a rest of values; write the index of each, as in `x = values[0]`"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in self.local:
            known = {*self.space, *vars(builtins)}
            if node.id not in known:
                close = near_misses(node.id, known)
                reason = f"{node.id} is not defined" + (f"; did you mean {close[0]}?" if close else "")
        if reason is not None:
            raise self._refuse(node, reason)
        return super().visit(node)

    def _refuse(self, node: ast.AST, reason: str) -> NotCompilable:
        line = getattr(node, "lineno", "?")
        return NotCompilable(f"{self.place} ({self.file.rpartition('/')[2]}, line {line}): {reason}")

    def resolve(self, node: ast.expr) -> Any:
        """Returns the value of a global name, or of an attribute of a module or of an enumeration; else `UNKNOWN`."""
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return UNKNOWN
            return self.space[node.id] if node.id in self.space else getattr(builtins, node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if isinstance(base, ModuleType) or (isinstance(base, type) and issubclass(base, enum.Enum)):
                return getattr(base, node.attr, UNKNOWN)
        return UNKNOWN

    # Calls.

    def visit_Call(self, node: ast.Call) -> Any:
        target = node.func
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            if target.value.id in self.generators:
                return self._random(node, target.attr, target.value.id)
            if target.value.id == self.own and self.own:
                return self._own_call(node, target)
        if isinstance(target, ast.Attribute) and target.attr == "_replace" and isinstance(target.value, ast.Name):
            return self._replaced(node, target.value)
        found = self.resolve(target)
        found = getattr(found, "py_func", found)  # of a function that the author compiles by numba
        if isinstance(found, FunctionType) and not found.__module__.startswith(("numpy", "numba")):
            return self._called(node, self.program.helper(found), [])
        try:
            if found is not UNKNOWN:
                name = replacement_of(found, len(node.args) + len(node.keywords))
                return self.generic_visit(node) if name is None else self._called(node, name, [])
            name = method_replacement(target.attr) if isinstance(target, ast.Attribute) else None
        except ValueError as error:
            raise self._refuse(node, str(error)) from None
        if name is None or not isinstance(target, ast.Attribute):
            return self.generic_visit(node)
        return self._called(node, name, [self.visit(target.value)])

    def _called(self, node: ast.Call, name: str, first: list[Any]) -> Any:
        """Returns a call of a global function with the arguments of another call."""
        if name in self.program.uses_generator:
            self.program.uses_generator.add(self.key)
        arguments = [self.visit(one) for one in node.args]
        return ast.copy_location(
            ast.Call(name_of(name), [*first, *arguments], [self.visit(one) for one in node.keywords]), node
        )

    def _random(self, node: ast.Call, method: str, generator: str) -> Any:
        if method not in METHODS:
            raise self._refuse(node, f"rng.{method} cannot be compiled; there are {', '.join(METHODS)}")
        self.program.uses_generator.add(self.key)
        return self._called(node, f"rng_{method}", [name_of(generator)])

    def _own_call(self, node: ast.Call, target: ast.Attribute) -> Any:
        bound = getattr(self.program.model, target.attr, None)
        if not isinstance(bound, (MethodType, FunctionType)):
            raise self._refuse(node, f"self.{target.attr} is no function")
        key = self.program.method(target.attr)
        return self._called(node, key, [name_of(self.own)] if isinstance(bound, MethodType) else [])

    def _replaced(self, node: ast.Call, value: ast.Name) -> Any:
        fields = getattr(self.program.state, "_fields", None)
        given = [one.arg for one in node.keywords]
        if fields is None or node.args or not {*given} <= {*fields}:
            raise self._refuse(node, "_replace is only compiled for the named tuple of the state")
        kind = self.program.constant(self.key, "state", type(self.program.state))
        rest = [name for name in fields if name not in given]
        kept = [ast.keyword(name, ast.Attribute(name_of(value.id), name, ast.Load())) for name in rest]
        # The given ones first and in their order, which is that of random numbers.
        keywords = [*(ast.keyword(one.arg, self.visit(one.value)) for one in node.keywords), *kept]
        return ast.copy_location(ast.Call(name_of(kind), [], keywords), node)

    # Operators.

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        name = _OPERATORS.get(type(node.op))
        if isinstance(node.op, ast.MatMult):
            raise self._refuse(node, "@ adds floats in an order of its own; write the products and additions")
        self.generic_visit(node)
        return node if name is None else ast.copy_location(ast.Call(name_of(name), [node.left, node.right], []), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        name = _OPERATORS.get(type(node.op))
        target = node.target
        if isinstance(target, ast.Attribute):
            raise self._refuse(node, "it sets an attribute; the functions of a model change nothing")
        if name is None:
            return self.generic_visit(node)
        if any(isinstance(one, ast.Call) for one in ast.walk(target)):
            raise self._refuse(node, "it changes an element whose index is a call; give the index a name")
        if isinstance(target, ast.Name) and name.removeprefix("checked_") in _IN_PLACE:
            name = name.replace("checked_", "checked_i")
        old: Any = copy.deepcopy(target)
        old.ctx = ast.Load()
        call = ast.Call(name_of(name), [self.visit(old), self.visit(node.value)], [])
        changed: Any = self.visit(target)
        return ast.copy_location(ast.Assign([changed], ast.copy_location(call, node)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Invert):
            raise self._refuse(node, "~ differs between Python's and numpy's bools; write `not` or -1 - x")
        self.generic_visit(node)
        if not isinstance(node.op, ast.USub) or isinstance(node.operand, ast.Constant):
            return node
        return ast.copy_location(ast.Call(name_of("checked_neg"), [node.operand], []), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        for operator, right in zip(node.ops, node.comparators, strict=True):
            none = isinstance(right, ast.Constant) and right.value is None
            if isinstance(operator, (ast.Is, ast.IsNot)) and not none:
                raise self._refuse(node, "`is` compares objects, which numbers of a kernel are not; write ==")
        self.generic_visit(node)
        names = [_COMPARED.get(type(operator)) for operator in node.ops]
        operands = [node.left, *node.comparators]
        inner = [one for operand in operands[1:-1] for one in ast.walk(operand)]
        if None in names or any(isinstance(one, ast.Call) for one in inner):
            return node  # a chain would call its middle twice
        pairs = zip(names, operands, operands[1:], strict=False)
        parts: list[Any] = [
            ast.Call(name_of(str(name)), [copy.deepcopy(left), copy.deepcopy(right)], []) for name, left, right in pairs
        ]
        return ast.copy_location(parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts), node)

    # Attributes.

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == self.own and self.own:
            return self._own_attribute(node)
        found = self.resolve(node)
        if isinstance(found, enum.IntEnum):
            return ast.copy_location(ast.Constant(int(found)), node)
        if found is UNKNOWN or not is_constant(found):
            return self.generic_visit(node)
        name = self.program.constant(self.key, ast.unparse(node).replace(".", "_"), found)
        return ast.copy_location(name_of(name), node)

    def _own_attribute(self, node: ast.Attribute) -> Any:
        model = self.program.model
        if not isinstance(node.ctx, ast.Load):
            raise self._refuse(node, f"it sets self.{node.attr}; the functions of a model change nothing")
        if not hasattr(model, node.attr):
            raise self._refuse(node, f"the model has no attribute {node.attr!r}")
        value = getattr(model, node.attr)
        if isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
            if np.asarray(value).dtype.kind not in "biuf":
                raise self._refuse(node, f"self.{node.attr} is {value!r}, which does not fit in 64 bits")
            self.program.fields[node.attr] = value
            return node
        if not is_constant(value):
            raise self._refuse(node, f"self.{node.attr} is a {type(value).__name__}; numbers, arrays and tuples can be")
        self.program.attribute(node.attr, value)
        return ast.copy_location(name_of(self.program.constant(self.key, node.attr, value)), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == self.context and self.context:
            if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
                raise self._refuse(node, "a context is only compiled with the names of features written out")
            return ast.copy_location(ast.Attribute(name_of(self.context), f"c_{node.slice.value}", ast.Load()), node)
        return self.generic_visit(node)


def name_of(name: str) -> ast.Name:
    """Returns the expression that reads a name."""
    return ast.Name(name, ast.Load())


def names_bound_in(definition: ast.AST) -> set[str]:
    """Returns the names that a function or one inside it sets: variables, parameters, functions, patterns."""
    found = set[str]()
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
    return found


_GENERATORS = ("rng", "generator")
"""Names of parameters that are taken for generators in an author's own helpers."""


@dataclass
class Rewritten:
    """One rewritten function."""

    tree: ast.Module
    name: str
    file: str  # the file of the original
    globals: dict[str, Any]
    returned: tuple[Any, ...] | None = None  # () if scalars replace an array, keys if they replace a dict; else None


@dataclass
class Rewriter:
    """Rewrites the functions of one model."""

    model: Any
    state: Any
    keys: tuple[Any, ...] = ()
    dtype: Any = None
    # The numbers among the model's attributes that its functions use.
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    functions: dict[str, Rewritten] = field(default_factory=dict[str, Rewritten])
    uses_generator: set[str] = field(default_factory=set[str])  # the names of functions that use their generator
    sources: list[str] = field(default_factory=list[str])  # everything that the code depends on, as text
    helpers: dict[str, FunctionType] = field(default_factory=dict[str, FunctionType])
    # What the code has as constants: attributes of the model; and globals, as functions that read them, with values.
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    frozen: list[tuple[Callable[[], Any], Any]] = field(default_factory=list[tuple[Callable[[], Any], Any]])

    def method(self, name: str, generator: int | None = None, context: int | None = None) -> str:
        """Rewrites a method of the model."""
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
        local = {*function.__code__.co_varnames, *function.__code__.co_cellvars, *names_bound_in(definition)}
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
        """Adds a constant to the globals of a function."""
        self.functions[key].globals[f"constant_{name}"] = value
        return f"constant_{name}"

    def attribute(self, name: str, value: Any) -> None:
        """Notes an attribute of the model that the code has as a constant."""
        self.attributes[name] = held_value(value)

    def is_current(self, models: Iterable[Any]) -> bool:
        """Returns True if all that the code has as constants still has the values that it had."""
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

        from . import operators, random_functions

        given = {**random_functions.NAMES, **operators.NAMES}
        space: dict[str, dict[str, Any]] = {}
        made: dict[str, Any] = {}
        for key, new in rewriter.functions.items():
            names = space[key] = {"__name__": f"{type(rewriter.model).__module__}", **new.globals, **given}
            exec(compile(new.tree, new.file, "exec"), names)  # noqa: S102 (the author's own function, rewritten)
            made[key] = njit(names[key], error_model="python", boundscheck=True)
        for names in space.values():
            names.update(made)
        return {**operators.NAMES, **made}

    return make
