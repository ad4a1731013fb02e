"""The visitor that makes numba compile an author's function as Python means it, or refuse it.

numba turns a function's byte code into statements of its own, finds their types, and writes machine code. Two passes
come in between:

    Names    before the types: operators and functions become those of `exact_numbers` and `kernel_math`, functions of
             the model and of modules become kernel functions, `self.speed` a number of the lane or a constant
    Kinds    after the types: a variable that is an int on one path and a float on another is refused where Python's
             value would depend on it; so are elements of other dtypes than int64, float64, float32 and bool

Importing this module needs numba.
"""

from __future__ import annotations

import builtins
import enum
import operator
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.ir_utils import build_definitions
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import ReconstructSSA
from numba.extending import intrinsic

from ..errors import near_misses
from .compilation import MARK, is_constant
from .exact_numbers import BOOL, FLOAT, INT, MAXIMUM, MINIMUM, OPERATORS, WIDE, shown
from .kernel_math import REPLACED, kernel_form
from .random_streams import METHODS, Stream

UNKNOWN: Any = object()
"""The value of a variable that is not known before a function runs."""


def refusal(function: Any, loc: Any, reason: str) -> TypingError:
    """Returns the error of a statement that cannot be compiled."""
    return TypingError(f"{MARK}{function.title} ({Path(loc.filename).name}, line {loc.line}): {reason}", loc=loc)


@register_pass(mutates_CFG=False, analysis_only=False)
class Names(FunctionPass):
    """Replaces operators, functions and attributes; see the module's text."""

    _name = "envoi_names"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        _Names(state).run()
        return True


@register_pass(mutates_CFG=False, analysis_only=True)
class Kinds(FunctionPass):
    """Refuses numbers that have several types; see the module's text."""

    _name = "envoi_kinds"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        _Kinds(state).run()
        return False


class KernelCompiler(CompilerBase):
    """numba's compiler with the two passes."""

    def define_pipelines(self) -> list[Any]:
        passes: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(Names, ReconstructSSA)
        passes.add_pass_after(Kinds, NopythonTypeInference)
        passes.finalize()
        return [passes]


_tuples: Any = types.BaseTuple


@cache
def _replacing(names: tuple[str, ...]) -> Any:
    """Returns the function that a kernel calls for `state._replace(…)` with some names."""

    @intrinsic
    def replace(typing: Any, state: Any, values: Any) -> Any:
        fields: Any = getattr(state, "fields", ())
        if not fields or not {*names} <= {*fields}:
            raise TypingError(f"{MARK}_replace is only compiled for the fields of a named tuple")
        kinds = [
            types.unliteral(values.types[names.index(name)] if name in names else kind)
            for name, kind in zip(fields, state.types, strict=True)
        ]
        new = _tuples.from_types(kinds, state.instance_class)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = [
                context.cast(
                    builder, builder.extract_value(arguments[1], names.index(name)),
                    signature.args[1].types[names.index(name)], kinds[place],
                ) if name in names else builder.extract_value(arguments[0], place)
                for place, name in enumerate(fields)
            ]  # fmt: skip
            for part, kind in zip(parts, kinds, strict=True):
                if context.enable_nrt:
                    context.nrt.incref(builder, kind, part)
            return context.make_tuple(builder, new, parts)

        return new(state, values), build

    return replace


class _Names:
    def __init__(self, state: Any) -> None:
        self.ir, self.args, self.typing = state.func_ir, state.args, state.typingctx
        self.function: Any = state.func_id.func
        self.program: Any = self.function.program
        self.known: dict[str, Any] = {}  # the values of variables that are known
        self.new: list[Any] = []  # the statements of the block so far
        self.count = 0

    def run(self) -> None:
        if self.function.observes:
            self._return_numbers()
        count = -1
        while count != len(self.known):  # values also reach variables by jumps backwards
            count = len(self.known)
            for block in self.ir.blocks.values():
                for statement in block.find_insts(ir.Assign):
                    self._learn(statement)
        for block in self.ir.blocks.values():
            self.new = []
            for statement in block.body:
                self._visit(statement)
                self.new.append(statement)
            block.body = [statement for statement in self.new if not self._is_only_of_python(statement)]
        for block in self.ir.blocks.values():
            for statement in block.body:
                self._check_uses(statement)
        self.ir._definitions = build_definitions(self.ir.blocks)

    # The values of variables.

    def value(self, variable: Any) -> Any:
        """Returns the value of a variable if it is known, else `UNKNOWN`."""
        return self.known.get(variable.name, UNKNOWN)

    def _definition(self, variable: Any, seen: frozenset[str] = frozenset()) -> Any:
        """Returns the expression that gives a variable its value, wherever it comes from; None if there are several."""
        found = self.ir._definitions.get(variable.name, [])
        if len(found) != 1 or variable.name in seen:
            return None
        one = found[0]
        if isinstance(one, ir.Var):
            return self._definition(one, seen | {variable.name})
        if isinstance(one, ir.Expr) and one.op == "phi" and ir.UNDEFINED not in one.incoming_values:
            several = [self._definition(source, seen | {variable.name}) for source in one.incoming_values]
            return several[0] if all(other is several[0] for other in several) else one
        return one

    def _learn(self, statement: Any) -> None:
        """Notes the value of a variable where it is known."""
        value, target = statement.value, statement.target.name
        if target in self.known:
            return
        if isinstance(value, (ir.Global, ir.FreeVar)):
            self._name(statement, value.name, value.value)
        elif isinstance(value, ir.Const):
            self.known[target] = value.value
        elif isinstance(value, ir.Var) and value.name in self.known:
            self.known[target] = self.known[value.name]
        elif isinstance(value, ir.Expr) and value.op == "phi":
            several = [self.value(one) for one in value.incoming_values if one is not ir.UNDEFINED]
            if several and all(one is several[0] for one in several) and not is_constant(several[0]):
                self.known[target] = several[0]
        elif isinstance(value, ir.Expr) and value.op == "getattr":
            self._visit_getattr(statement, value)

    def _argument(self, variable: Any) -> Any:
        """Returns the type of the argument that a variable is; else None."""
        found = self._definition(variable)
        return self.args[found.index] if isinstance(found, ir.Arg) else None

    def _assign(self, value: Any, loc: Any) -> Any:
        """Adds a statement that gives a value a name, and returns the variable."""
        self.count += 1
        variable = ir.Var(self.ir.blocks[min(self.ir.blocks)].scope, f"$envoi{self.count}", loc)
        self.new.append(ir.Assign(value, variable, loc))
        return variable

    def _put(self, value: Any, name: str, loc: Any) -> Any:
        return self._assign(ir.Global(name, value, loc), loc)

    # Statements.

    def _visit(self, statement: Any) -> None:
        if isinstance(statement, (ir.SetAttr, ir.DelAttr)):
            raise refusal(self.function, statement.loc, "it sets an attribute; the functions of a model change nothing")
        if isinstance(statement, (ir.EnterWith, ir.StoreMap, ir.DelItem)):
            raise refusal(
                self.function, statement.loc, "it has a `with` block, a dict or `del`; write the statements alone"
            )
        value = getattr(statement, "value", None)
        op = value.op if isinstance(value, ir.Expr) else ""
        visit = getattr(self, f"_visit_{op}", None)
        if visit is not None and op != "getattr":
            visit(statement, value)

    def _name(self, statement: Any, name: str, value: Any) -> None:
        """Makes a statement one that reads a known value."""
        loc = statement.loc
        if value is ir.UNDEFINED:
            close = near_misses(name, {*self.function.__globals__, *vars(builtins)})
            raise refusal(
                self.function, loc, f"{name} is not defined" + (f"; did you mean {close[0]}?" if close else "")
            )
        if getattr(value, "__name__", "") == "mark_try_block":
            raise refusal(self.function, loc, "it catches errors; test with `if` for what would raise one")
        if isinstance(value, enum.IntEnum):
            value = int(value)
        self.known[statement.target.name] = value
        statement.value = ir.Global(name, value, loc)

    def _visit_getattr(self, statement: Any, expr: Any) -> None:
        base, name = self.value(expr.value), expr.attr
        kind: Any = self._argument(expr.value)
        if kind is not None and kind == self.program.own_type:
            self._own_attribute(statement, name)
        elif getattr(kind, "instance_class", None) is Stream:
            if name not in METHODS:
                raise refusal(self.function, expr.loc, f"rng.{name} cannot be compiled; there are {', '.join(METHODS)}")
            self.known[statement.target.name] = _Bound(name, expr.value, self.program.random[name])
        elif is_namespace(base):
            if not hasattr(base, name):
                close = near_misses(name, dir(base))
                hint = f"; did you mean {close[0]}?" if close else ""
                raise refusal(self.function, expr.loc, f"{getattr(base, '__name__', base)} has no {name!r}{hint}")
            self._name(statement, name, getattr(base, name))
        elif base is UNKNOWN and name in ("_replace", "sum"):
            self.known[statement.target.name] = _Bound(name, expr.value)

    def _own_attribute(self, statement: Any, name: str) -> None:
        try:
            found = self.program.own(name)
        except AttributeError as error:
            raise refusal(self.function, statement.loc, str(error)) from None
        if isinstance(found, FunctionType):
            first = None if self.program.is_static(name) else statement.value.value
            self.known[statement.target.name] = _Bound(name, first, self.program.jitted(found))
        elif found is not None:  # None: a number, which is a field of the record
            self._name(statement, name, found)

    def _visit_call(self, statement: Any, expr: Any) -> None:
        loc, function = expr.loc, self.value(expr.func)
        if function is UNKNOWN:
            self._method(expr)
            return
        if isinstance(function, _Bound):
            if function.__name__ == "_replace" and function.function is None:
                self._replace(expr, function.first)
                return
            if function.first is not None:
                expr.args = (function.first, *expr.args)
            expr.func = self._put(function.function or REPLACED[np.sum], "method", loc)
            return
        author = getattr(function, "py_func", function)  # of a function that the author compiles by numba
        if isinstance(author, FunctionType) and not _is_of_library(author):
            expr.func = self._put(self.program.jitted(author), author.__name__, loc)
            return
        if function in (min, max) and len(expr.args) > 1 and not expr.kws:
            self._extreme(expr, MINIMUM if function is min else MAXIMUM)
            return
        try:
            form = kernel_form(function, len(expr.args) + len(expr.kws))
        except ValueError as error:
            raise refusal(self.function, loc, str(error)) from None
        if form is not None:
            expr.func = self._put(form, "form", loc)

    def _extreme(self, expr: Any, function: Any) -> None:
        """Makes `min(a, b, c)` calls of two numbers."""
        first, *rest, last = expr.args
        for other in rest:
            call = ir.Expr.call(self._put(function, "extreme", expr.loc), (first, other), (), expr.loc)
            first = self._assign(call, expr.loc)
        expr.args, expr.func = (first, last), self._put(function, "extreme", expr.loc)

    def _replace(self, expr: Any, state: Any) -> None:
        """Makes `state._replace(x=1)` a call of a function of the state and a tuple of values."""
        if expr.args or expr.vararg or expr.varkwarg:
            raise refusal(self.function, expr.loc, "_replace is only compiled with names")
        parts = ir.Expr.build_tuple([value for _, value in expr.kws], expr.loc)
        function = self._put(_replacing(tuple(name for name, _ in expr.kws)), "_replace", expr.loc)
        self.typing.refresh()
        expr.func, expr.args, expr.kws = function, (state, self._assign(parts, expr.loc)), ()

    def _method(self, expr: Any) -> None:
        """Checks the call of a method of a value."""
        found = self._definition(expr.func)
        if isinstance(found, ir.Expr) and found.op == "getattr" and found.attr not in _METHODS:
            raise refusal(
                self.function, expr.loc,
                f"no compiled form of .{found.attr}() with the same bits is known; write the operations",
            )  # fmt: skip

    def _visit_binop(self, statement: Any, expr: Any) -> None:
        self._operator(statement, expr, (expr.lhs, expr.rhs))

    _visit_inplace_binop = _visit_binop

    def _visit_unary(self, statement: Any, expr: Any) -> None:
        if expr.fn is not operator.not_:
            self._operator(statement, expr, (expr.value,))

    def _operator(self, statement: Any, expr: Any, arguments: tuple[Any, ...]) -> None:
        form = OPERATORS.get(expr.fn)
        if form is None:
            raise refusal(self.function, expr.loc, f"it uses an operator that has no compiled form: {expr.fn}")
        if expr.fn in (operator.is_, operator.is_not) and expr.op == "unary":
            return
        statement.value = ir.Expr.call(self._put(form, "operator", expr.loc), arguments, (), expr.loc)

    def _visit_build_map(self, statement: Any, expr: Any) -> None:
        raise refusal(self.function, expr.loc, "it makes a dict; return numbers, arrays or tuples")

    def _visit_build_set(self, statement: Any, expr: Any) -> None:
        raise refusal(self.function, expr.loc, "it makes a set; write a tuple")

    def _visit_make_function(self, statement: Any, expr: Any) -> None:
        raise refusal(self.function, expr.loc, "it defines a function; do that outside")

    def _visit_yield(self, statement: Any, expr: Any) -> None:
        raise refusal(self.function, expr.loc, "it is a generator; return the value")

    def _visit_phi(self, statement: Any, expr: Any) -> None:
        if any(value is ir.UNDEFINED for value in expr.incoming_values):
            name = statement.target.unversioned_name
            raise refusal(self.function, expr.loc, f"{name} may not be set; give it a value before")

    def _is_only_of_python(self, statement: Any) -> bool:
        """Returns True for a statement that reads what a kernel has no values for."""
        return isinstance(statement, ir.Assign) and _is_only_of_python(self.value(statement.target))

    def _check_uses(self, statement: Any) -> None:
        """Refuses what a kernel has no values for where it is used as one."""
        for variable in statement.list_vars():
            held = self.value(variable)
            if _is_only_of_python(held):
                raise refusal(
                    self.function, statement.loc, f"{getattr(held, '__name__', held)} is no number, array or tuple"
                )

    # What `observe` returns.

    def _return_numbers(self) -> None:
        """Makes tuples of the arrays and dicts that `observe` returns, which need no memory of their own."""
        returned = [one.value for block in self.ir.blocks.values() for one in block.body if isinstance(one, ir.Return)]
        keys, dtype = self.program.keys, self.program.dtype
        found: list[tuple[Any, Any]] = []
        for variable in returned:
            expr: Any = self._definition(variable)
            while isinstance(expr, ir.Expr) and expr.op == "cast":
                expr = self._definition(expr.value)
            if not isinstance(expr, ir.Expr):
                return
            parts = self._parts_of_dict(expr, keys) if keys else self._parts_of_array(expr, dtype)
            if parts is None:
                return
            found.append((expr, parts))
            if not keys:  # the list too, which would take memory
                found.append((self._definition(expr.args[0]), parts))
        for block in self.ir.blocks.values():
            for statement in block.body:
                for expr, parts in found:
                    if isinstance(statement, ir.Assign) and statement.value is expr:
                        statement.value = ir.Expr.build_tuple(parts, expr.loc)
        self.ir._definitions = build_definitions(self.ir.blocks)

    def _parts_of_dict(self, expr: Any, keys: tuple[Any, ...]) -> list[Any] | None:
        if expr.op != "build_map":
            return None
        items = {getattr(self._definition(key), "value", None): value for key, value in expr.items}
        return [items[key] for key in keys] if items.keys() == {*keys} else None

    def _parts_of_array(self, expr: Any, dtype: Any) -> list[Any] | None:
        """Returns the parts of `np.array([a, b, …])` of single elements, with no dtype or the observation's."""
        if expr.op != "call" or self._constant(expr.func) not in (np.array, np.asarray) or not expr.args:
            return None
        given = [*expr.args[1:], *(value for name, value in expr.kws if name == "dtype")]
        if len(expr.args) + len(expr.kws) != 1 + len(given) or len(given) > 1:
            return None
        try:
            if any(np.dtype(self._constant(one)) != dtype for one in given):
                return None
        except TypeError:  # that is no dtype
            return None
        parts = self._definition(expr.args[0])
        written_there = expr.args[0].name.startswith("$")
        if not isinstance(parts, ir.Expr) or parts.op not in ("build_list", "build_tuple") or not written_there:
            return None
        inner = [self._definition(one) for one in parts.items]
        nested = any(isinstance(one, ir.Expr) and one.op in ("build_list", "build_tuple") for one in inner)
        return None if nested else list(parts.items)

    def _constant(self, variable: Any) -> Any:
        """Returns the global, or the attribute of one, that a variable is."""
        found = self._definition(variable)
        if isinstance(found, (ir.Global, ir.FreeVar, ir.Const)):
            return found.value
        if isinstance(found, ir.Expr) and found.op == "getattr":
            return getattr(self._constant(found.value), found.attr, UNKNOWN)
        return UNKNOWN


_METHODS = ("copy", "reshape", "ravel", "flatten", "transpose", "any", "all", "max", "min", "argmax", "argmin", "fill",
            "item", "nonzero", "repeat", "append", "insert", "pop", "extend", "astype")  # fmt: skip
"""The methods of arrays and lists that kernels have; and `sum` of integers."""


class _Bound:
    """A function with the variable that is its first argument, None if it has none; or a method of a value."""

    def __init__(self, name: str, first: Any, function: Any = None) -> None:
        self.__name__, self.first, self.function = name, first, function


def _is_of_library(function: FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] in ("numpy", "numba", "math", "builtins")


def is_namespace(value: Any) -> bool:
    """Returns True for what has no value in a kernel, but attributes that may have: modules, classes, objects."""
    if value is UNKNOWN or value is None or isinstance(value, (bool, int, float, str, tuple, np.generic, np.ndarray)):
        return False
    if isinstance(value, type):
        return not (
            issubclass(value, (tuple, BaseException, np.generic, bool, int, float, slice, list))
            or (value.__module__ == "builtins")
        ) or issubclass(value, enum.Enum)
    return isinstance(value, ModuleType) or not (callable(value) or isinstance(value, (np.dtype, _Bound)))


def _is_only_of_python(value: Any) -> bool:
    """Returns True for modules, classes, objects and an author's functions."""
    function = getattr(value, "py_func", value)
    author = isinstance(function, FunctionType) and not _is_of_library(function)
    return isinstance(value, _Bound) or author or is_namespace(value)


class _Kinds:
    def __init__(self, state: Any) -> None:
        self.ir, self.function = state.func_ir, state.func_id.func
        self.typemap, self.calltypes, self.returned = state.typemap, state.calltypes, state.return_type
        # Variables that are an int on some paths where their type is float, or a bool where it is int.
        self.mixed: dict[str, Any] = {}

    def _kind(self, variable: Any) -> Any:
        return types.unliteral(self.typemap[variable.name])

    def _assigns(self) -> Iterator[Any]:
        for block in self.ir.blocks.values():
            yield from (one for one in block.body if isinstance(one, ir.Assign))

    def run(self) -> None:
        for statement in self._assigns():
            self._check_elements(self._kind(statement.target), statement.loc)
        known = -1
        while known != len(self.mixed):
            known = len(self.mixed)
            for statement in self._assigns():
                self._spread(statement)
        for block in self.ir.blocks.values():
            for statement in block.body:
                self._check(statement)

    def _check_elements(self, kind: Any, loc: Any) -> None:
        if isinstance(kind, types.Array) and kind.dtype not in (*WIDE, types.float32):
            raise refusal(self.function, loc, f"it has an array of {kind.dtype}; use int64, float64, float32 or bool")
        if isinstance(kind, types.Optional):
            raise refusal(self.function, loc, "a variable is None on one path and a number on another; use a number")

    # Numbers of several types.

    def _sources(self, value: Any) -> list[Any]:
        """Returns the variables whose values a statement passes on."""
        if isinstance(value, ir.Var):
            return [value]
        if not isinstance(value, ir.Expr):
            return []
        if value.op == "phi":
            return list(value.incoming_values)
        if value.op == "cast":
            return [value.value]
        if value.op == "call" and self._called(value) in (MINIMUM, MAXIMUM, _ABSOLUTE):
            return list(value.args)
        return []

    def _called(self, expr: Any) -> Any:
        found = self.ir._definitions.get(expr.func.name, [None])[0]
        return getattr(found, "value", None)

    def _spread(self, statement: Any) -> None:
        target, kind = statement.target, self._kind(statement.target)
        for source in self._sources(statement.value):
            own = self._kind(source)
            if own != kind and own in WIDE and kind in WIDE:
                self.mixed.setdefault(target.name, (own, statement.loc))
                call = isinstance(statement.value, ir.Expr) and statement.value.op == "call"  # which checks it
                if own == INT and not call and not self._is_small(source):
                    raise self._refuse(own, kind, statement.loc)
            elif own != kind and not _is_same(own, kind):
                raise refusal(
                    self.function, statement.loc, f"it is {shown(own)} on one path and {shown(kind)} on another"
                )
            elif source.name in self.mixed:
                self.mixed.setdefault(target.name, self.mixed[source.name])

    def _is_small(self, variable: Any) -> bool:
        kind = self.typemap[variable.name]
        return isinstance(kind, types.IntegerLiteral) and abs(kind.literal_value) <= 2**53

    def _refuse(self, own: Any, kind: Any, loc: Any) -> Any:
        to = shown(kind)
        example = {"float": ", as in 0.0 or float(n)", "int": ", by int()"}.get(to, "")
        reason = f"a number is {shown(own)} on one path and {to} on another, which Python tells apart"
        return refusal(self.function, loc, f"{reason}; make it {to} on both{example}")

    def _check(self, statement: Any) -> None:
        """Refuses uses of a number of several types whose values depend on its type."""
        value: Any = getattr(statement, "value", None)
        if isinstance(statement, ir.Return):
            self._check_return(value, statement.loc)
            return
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            self._check_store(statement)
        if isinstance(value, ir.Expr) and value.op == "build_list":
            kinds = {self._kind(one) for one in value.items}
            if len(kinds) > 1 and kinds <= {*WIDE}:
                raise refusal(
                    self.function,
                    statement.loc,
                    "it makes a list of ints and floats, which numba makes floats; write floats",
                )
        if isinstance(statement, ir.Branch) or (isinstance(value, ir.Expr) and value.op in ("phi", "cast", "unary")):
            return
        if isinstance(value, ir.Var):
            return
        if isinstance(value, ir.Expr) and value.op == "call" and self._takes_mixed(value):
            return
        for variable in statement.list_vars():
            if variable.name in self.mixed and variable is not getattr(statement, "target", None):
                own, _ = self.mixed[variable.name]
                raise self._refuse(own, self._kind(variable), statement.loc)

    def _takes_mixed(self, expr: Any) -> bool:
        """Returns True for calls whose result does not depend on the type of a number."""
        function = self._called(expr)
        if function in _SAFE:
            return True
        mixed = [self._kind(one) for one in expr.args if one.name in self.mixed]
        pure = [self._kind(one) for one in expr.args if one.name not in self.mixed]
        # Beside a float, Python makes a float of any number; beside an int, an int of a bool.
        return function in _ARITHMETIC and (not mixed or pure == [FLOAT] or mixed == pure == [INT])

    def _check_return(self, variable: Any, loc: Any) -> None:
        own, returned = self._kind(variable), types.unliteral(self.returned)
        if self.function.is_outer:
            return
        if variable.name in self.mixed:
            raise self._refuse(self.mixed[variable.name][0], own, loc)
        if not _is_same(own, returned):
            raise self._refuse(own, returned, loc)

    def _check_store(self, statement: Any) -> None:
        array, value = self._kind(statement.target), self._kind(statement.value)
        if not isinstance(array, types.Array):
            return
        source = getattr(value, "dtype", value)
        fits = {FLOAT: WIDE, types.float32: (*WIDE, types.float32), INT: (INT, BOOL), BOOL: (BOOL,)}
        if source not in fits.get(array.dtype, ()):
            raise refusal(
                self.function, statement.loc, f"it stores {shown(source)} in an array of {shown(array.dtype)}"
            )


def _is_same(one: Any, other: Any) -> bool:
    """Returns True if values of a type are those of another."""
    if all(isinstance(kind, types.BaseTuple) for kind in (one, other)):
        pairs = zip(one.types, other.types, strict=False)
        return len(one.types) == len(other.types) and all(_is_same(*map(types.unliteral, pair)) for pair in pairs)
    if all(isinstance(kind, types.Array) for kind in (one, other)):
        return one.dtype == other.dtype and one.ndim == other.ndim
    return one == other or not (one in WIDE or other in WIDE)


_ABSOLUTE = REPLACED[abs]
_COMPARED = [OPERATORS[getattr(operator, name)] for name in ("lt", "le", "gt", "ge", "eq", "ne")]
_NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_ARITHMETIC = {OPERATORS[getattr(operator, prefix + name)] for prefix in ("", "i") for name in _NAMES}
_OF_MATH = [form for function, form in REPLACED.items() if getattr(function, "__module__", "") == "math"]
_SAFE = {*_COMPARED, *_OF_MATH, MINIMUM, MAXIMUM, bool, *(REPLACED[one] for one in (abs, int, float, round))}
