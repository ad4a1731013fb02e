"""The visitor that makes numba compile an author's function as Python means it, or refuse it.

numba turns a function's byte code into statements of its own, finds their types, and writes machine code. Two passes
come in between:

    Names    before the types: operators and functions become the forms of `exact_numbers`, functions of the model and
             of modules become kernel functions, `self.speed` a number of the lane or a constant
    Kinds    after the types: a variable that is an int on one path and a float on another is refused where Python's
             value would depend on it; so are elements of other dtypes than int64, float64, float32 and bool

Importing this module needs numba.
"""

from __future__ import annotations

import builtins
import enum
import operator
from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import getattr_static, signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import typeof
from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import build_definitions
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import ReconstructSSA
from numba.extending import intrinsic

from ..errors import near_misses
from .compilation import MARK, author_function, is_constant
from .exact_numbers import BOOL, FLOAT, FORMS, INT, MAXIMUM, MINIMUM, WIDE, is_scalar, kernel_form, refuse, shown
from .layout import METHODS, Stream
from .random_functions import FUNCTIONS, filled

UNKNOWN: Any = object()
"""The value of a variable that is not known before a function runs."""


class _Visitor:
    def __init__(self, state: Any) -> None:
        self.state, self.ir, self.function = state, state.func_ir, state.func_id.func
        self.program: Any = self.function.program

    def refusal(self, loc: Any, reason: str) -> TypingError:
        """Returns the error for a statement that cannot be compiled."""
        place = f"{self.function.title} ({Path(loc.filename).name}, line {loc.line})"
        return TypingError(f"{MARK}{place}: {reason}", loc=loc)

    def statements(self) -> Iterator[Any]:
        for block in self.ir.blocks.values():
            yield from block.body

    def assigns(self) -> list[Any]:
        return [one for one in self.statements() if isinstance(one, ir.Assign)]

    def definition(self, variable: Any) -> Any:
        """Returns the expression that defines a variable; None if there is more than one."""
        try:
            return self.ir.get_definition(variable)
        except KeyError:
            return None

    @staticmethod
    def passed_on(value: Any) -> list[Any]:
        """Returns the variables of which an expression is one, unchanged."""
        if isinstance(value, ir.Expr) and value.op in ("phi", "cast"):
            several = value.incoming_values if value.op == "phi" else [value.value]
            return [one for one in several if isinstance(one, ir.Var)]
        return [value] if isinstance(value, ir.Var) else []


@cache
def _replacing(names: tuple[str, ...]) -> Any:
    """Returns the kernel function for `state._replace(…)` with the given names."""

    def typed(typing: Any, state: Any, values: Any) -> Any:
        fields: Any = getattr(state, "fields", ())
        if not fields or not {*names} <= {*fields}:
            raise refuse("_replace is only compiled for the fields of a named tuple")
        # For each field: which tuple of arguments its value is in, and its index there.
        places = [(1, names.index(name)) if name in names else (0, k) for k, name in enumerate(fields)]
        kinds = [(state, values)[which].types[k] for which, k in places]
        result: Any = types.BaseTuple.from_types(kinds, state.instance_class)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(places, kinds, result.types, strict=True)
            found = [context.cast(builder, builder.extract_value(arguments[which], k), kind, to)
                     for (which, k), kind, to in pairs]  # fmt: skip
            return impl_ret_borrowed(context, builder, result, context.make_tuple(builder, result, found))

        return result(state, values), build

    return intrinsic(typed)


_REFUSED = {
    "SetAttr": "it sets an attribute; the functions of a model change nothing",
    "DelAttr": "it deletes an attribute; the functions of a model change nothing",
    "StoreMap": "it makes a dict; return numbers, arrays or tuples",
    "build_map": "it makes a dict; return numbers, arrays or tuples",
    "DelItem": "it deletes an element; write the statements without that",
    "build_set": "it makes a set; write a tuple",
    "make_function": "it defines a function; do that outside",
}
"""Statements and expressions that kernels do not support, with what to write instead; see also `functions`."""


class _Names(_Visitor):
    def __init__(self, state: Any) -> None:
        super().__init__(state)
        self.known: dict[str, Any] = {}  # the values of variables that are known
        self.new: list[Any] = []  # the statements of the block so far

    def run(self) -> None:
        count = -1
        while count != len(self.known):  # values also reach variables by jumps backwards
            count = len(self.known)
            for statement in self.assigns():
                self._learn(statement)
        if self.function.method == "observe":
            self._return_numbers()
        for block in self.ir.blocks.values():
            self.new = []
            for statement in block.body:
                self._visit(statement)
                self.new.append(statement)
            block.body = [one for one in self.new if not (isinstance(one, ir.Assign) and self._is_python(one.target))]
        for statement in self.statements():
            for variable in statement.list_vars():
                if self._is_python(variable):
                    held = self.value(variable)
                    shown = getattr(held, "__name__", held)
                    raise self.refusal(statement.loc, f"{shown} is no number, array or tuple")
        self.ir._definitions = build_definitions(self.ir.blocks)

    def value(self, variable: Any) -> Any:
        """Returns the value of a variable if it is known, else `UNKNOWN`."""
        return self.known.get(variable.name, UNKNOWN)

    def _is_python(self, variable: Any) -> bool:
        """Returns True for modules, classes, objects and author's functions, which kernels have no variables for."""
        value = self.value(variable)
        return isinstance(value, _Bound) or author_function(value) is not None or is_namespace(value)

    def _learn(self, statement: Any) -> None:
        """Records the value of a variable if it is known at compile time."""
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
            self._learn_attribute(statement, value)

    def _name(self, statement: Any, name: str, value: Any) -> None:
        """Replaces a statement by one that reads a known value."""
        if value is ir.UNDEFINED:
            hint = _hint(name, {*self.function.__globals__, *vars(builtins)})
            raise self.refusal(statement.loc, f"{name} is not defined{hint}")
        value = int(value) if isinstance(value, enum.IntEnum) else value
        self.known[statement.target.name] = value
        statement.value = ir.Global(name, value, statement.loc)

    def _learn_attribute(self, statement: Any, expr: Any) -> None:
        base, name, loc, target = self.value(expr.value), expr.attr, statement.loc, statement.target.name
        found = self.definition(expr.value)
        kind: Any = self.state.args[found.index] if isinstance(found, ir.Arg) else None
        if kind is not None and kind == self.program.own_type:
            self._own_attribute(statement, name)
        elif getattr(kind, "instance_class", None) is Stream:
            if name not in METHODS:
                raise self.refusal(loc, f"rng.{name} cannot be compiled; there are {', '.join(METHODS)}")
            self.known[target] = _Bound(name, expr.value, FUNCTIONS[name])
        elif is_namespace(base):
            if not hasattr(base, name):
                hint = _hint(name, dir(base))
                raise self.refusal(loc, f"{getattr(base, '__name__', base)} has no {name!r}{hint}")
            self._name(statement, name, getattr(base, name))
        elif base is UNKNOWN and name in ("_replace", "sum"):
            self.known[target] = _Bound(name, expr.value)

    def _own_attribute(self, statement: Any, name: str) -> None:
        try:
            found = self.program.own(name)
        except AttributeError as error:
            raise self.refusal(statement.loc, str(error)) from None
        if isinstance(found, FunctionType):
            is_static = isinstance(getattr_static(self.program.model, name), staticmethod)
            first = None if is_static else statement.value.value
            self.known[statement.target.name] = _Bound(name, first, self.program.jitted(found))
        elif found is not None:  # None: a number, which is a field of the record
            self._name(statement, name, found)

    def _visit(self, statement: Any) -> None:
        value: Any = getattr(statement, "value", None)
        op = value.op if isinstance(value, ir.Expr) else type(statement).__name__
        if op in _REFUSED:
            raise self.refusal(statement.loc, _REFUSED[op])
        if op == "call":
            self._visit_call(value)
        elif op in ("binop", "inplace_binop"):
            self._visit_operator(statement, value.fn, (value.lhs, value.rhs))
        elif op == "unary" and value.fn is not operator.not_:
            self._visit_operator(statement, value.fn, (value.value,))
        elif op == "phi" and ir.UNDEFINED in value.incoming_values:
            name = statement.target.unversioned_name
            raise self.refusal(statement.loc, f"{name} may not be set; give it a value before")

    def _put(self, value: Any, loc: Any) -> Any:
        """Adds a statement that assigns a value to a new variable, and returns the variable."""
        scope = self.ir.blocks[min(self.ir.blocks)].scope
        variable = scope.redefine("$envoi", loc)
        value = value if isinstance(value, ir.Expr) else ir.Global(variable.name, value, loc)
        self.new.append(ir.Assign(value, variable, loc))
        return variable

    def _visit_operator(self, statement: Any, function: Any, arguments: tuple[Any, ...]) -> None:
        statement.value = ir.Expr.call(self._put(FORMS[function], statement.loc), arguments, (), statement.loc)

    def _visit_call(self, expr: Any) -> None:
        loc, function = expr.loc, self.value(expr.func)
        author = author_function(function)
        if function is UNKNOWN:
            found = self.definition(expr.func)
            if isinstance(found, ir.Expr) and found.op == "getattr" and found.attr not in _METHODS:
                reason = f"no compiled form of .{found.attr}() with the same bits is known; write the operations"
                raise self.refusal(loc, reason)
        elif author is not None:
            self._call(expr, self.program.jitted(author), author.__name__)
        elif isinstance(function, _Bound) and function.function is not None:
            expr.args = expr.args if function.first is None else (function.first, *expr.args)
            self._call(expr, function.function, function.__name__)
        elif isinstance(function, _Bound) and function.__name__ == "_replace":
            self._replace(expr, function.first)
        elif function in (min, max) and len(expr.args) > 1 and not expr.kws:
            form = MINIMUM if function is min else MAXIMUM
            first, *rest, last = expr.args
            for other in rest:
                first = self._put(ir.Expr.call(self._put(form, loc), (first, other), (), loc), loc)
            expr.args, expr.func = (first, last), self._put(form, loc)
        else:
            if isinstance(function, _Bound):
                function, expr.args = np.sum, (function.first, *expr.args)
            try:
                form = kernel_form(function, len(expr.args), bool(expr.kws or expr.vararg))
            except ValueError as error:
                raise self.refusal(loc, str(error)) from None
            expr.func = expr.func if form is None else self._put(form, loc)

    def _call(self, expr: Any, function: Any, name: str) -> None:
        """Replaces an expression by the call of a kernel function."""
        expr.func, is_draw = self._put(function, expr.loc), FUNCTIONS.get(name) is function
        if expr.vararg and is_draw:
            raise self.refusal(expr.loc, f"it unpacks arguments of rng.{name}; write each")
        if expr.vararg:
            return
        try:
            bound = signature(function.py_func).bind(*expr.args, **dict(expr.kws))
        except TypeError as error:
            raise self.refusal(expr.loc, f"it calls {name} with other arguments than it has: {error}") from None
        if is_draw and "size" in bound.arguments:
            bound.apply_defaults()
            *arguments, size = (one if isinstance(one, ir.Var) else self._put(one, expr.loc) for one in bound.args)
            if self.value(size) is not None:
                kind, draw = self._put(np.int64 if name == "integers" else np.float64, expr.loc), expr.func
                arguments, expr.func = [size, kind, draw, *arguments], self._put(filled, expr.loc)
            expr.args, expr.kws = tuple(arguments), ()

    def _replace(self, expr: Any, state: Any) -> None:
        """Replaces `state._replace(x=1)` by a call of a kernel function with the state and a tuple of values."""
        if expr.args or expr.vararg or expr.varkwarg:
            raise self.refusal(expr.loc, "_replace is only compiled with names")
        values = self._put(ir.Expr.build_tuple([value for _, value in expr.kws], expr.loc), expr.loc)
        expr.func = self._put(_replacing(tuple(name for name, _ in expr.kws)), expr.loc)
        expr.args, expr.kws = (state, values), ()
        self.state.typingctx.refresh()

    def _return_numbers(self) -> None:
        """Replaces dicts and arrays that `observe` returns by tuples, which need no memory of their own."""
        dtypes, assigns = self.program.observed, {one.target.name: one for one in self.assigns()}
        uses = Counter(variable.name for statement in self.statements() for variable in statement.list_vars())
        columns = [[one.value.name for one in self.statements() if isinstance(one, ir.Return)]]
        if None not in dtypes:
            returned = self._made(columns[0], assigns)
            dicts = [{self.value(key): value for key, value in getattr(one.value, "items", ())}
                     if getattr(one.value, "op", "") == "build_map" else {} for one in returned]  # fmt: skip
            if any(items.keys() != dtypes.keys() for items in dicts):
                return
            for statement, items in zip(returned, dicts, strict=True):
                statement.value = ir.Expr.build_tuple([items[key] for key in dtypes], statement.loc)
            columns = [[items[key].name for items in dicts] for key in dtypes]
        for names, dtype in zip(columns, dtypes.values(), strict=True):
            made = self._made(names, assigns)
            lists = [self._list(one.value, dtype, assigns) for one in made]
            if None not in lists and all(uses[name] == 2 for name in names):  # each is made and returned, no more
                for statement, elements in zip(made, lists, strict=True):
                    numbers = ir.Expr.build_tuple(elements.value.items, statement.loc)
                    statement.value = elements.value = numbers  # the list too, which would take memory

    def _made(self, names: list[str], assigns: dict[str, Any]) -> list[Any]:
        """Returns the statements that make the values of variables; adds the names of those that pass them on."""
        found: list[Any] = []
        for name in names:  # which grows
            sources = self.passed_on(assigns[name].value)
            found += [] if sources else [assigns[name]]
            names += [one.name for one in sources if one.name not in names]
        return found

    def _list(self, expr: Any, dtype: Any, assigns: dict[str, Any]) -> Any:
        """Returns the statement that makes the list in `np.array([a, b, …])`, with no dtype or the observation's."""
        is_array = getattr(expr, "op", "") == "call" and self.value(expr.func) in (np.array, np.asarray)
        if not is_array or not expr.args or expr.vararg or not {*dict(expr.kws)} <= {"dtype"}:
            return None
        try:
            given = [np.dtype(self.value(one)) for one in (*expr.args[1:], *dict(expr.kws).values())]
        except TypeError:  # that is no dtype
            return None
        made = assigns.get(expr.args[0].name)
        values: Any = getattr(made, "value", None)
        inner = [getattr(assigns.get(one.name), "value", None) for one in getattr(values, "items", ())]
        is_list = [getattr(one, "op", "") in ("build_list", "build_tuple") for one in (values, *inner)]
        fits = given in ([], [dtype]) and expr.args[0].name.startswith("$")
        return made if fits and is_list == [True] + [False] * len(inner) else None


_METHODS = ("copy", "reshape", "ravel", "flatten", "transpose", "any", "all", "max", "min", "argmax", "argmin", "fill",
            "item", "nonzero", "repeat", "append", "insert", "pop", "extend", "astype")  # fmt: skip
"""The methods of arrays and lists that kernels support; and `sum` of integers."""


class _Bound:
    """A function bound to a variable, its first argument (None if it has none); or a method of a value."""

    def __init__(self, name: str, first: Any, function: Any = None) -> None:
        self.__name__, self.first, self.function = name, first, function


def _hint(name: str, names: Any) -> str:
    close = near_misses(name, names)
    return f"; did you mean {close[0]}?" if close else ""


def is_namespace(value: Any) -> bool:
    """Returns True for modules, classes and objects: kernels have no values of them, but read their attributes."""
    if value is UNKNOWN or value is None or isinstance(value, (bool, int, float, str, tuple, np.generic, np.ndarray)):
        return False
    if isinstance(value, type):
        return not (
            issubclass(value, (tuple, BaseException, np.generic, bool, int, float, slice, list))
            or (value.__module__ == "builtins")
        ) or issubclass(value, enum.Enum)
    return isinstance(value, ModuleType) or not (callable(value) or isinstance(value, (np.dtype, _Bound)))


class _Kinds(_Visitor):
    def __init__(self, state: Any) -> None:
        super().__init__(state)
        # For variables of mixed types: the narrower type, such as int for an int that is a float on other paths.
        self.mixed: dict[str, Any] = {}

    def kind(self, variable: Any) -> Any:
        return types.unliteral(self.state.typemap[variable.name])

    def run(self) -> None:
        for statement in self.assigns():
            self._check_kind(self.kind(statement.target), statement.loc)
        known = -1
        while known != len(self.mixed):
            known = len(self.mixed)
            for statement in self.assigns():
                self._spread(statement)
        for statement in self.statements():
            self._check(statement)

    def _check_kind(self, kind: Any, loc: Any) -> None:
        if isinstance(kind, types.Array) and kind.dtype not in (*WIDE, types.float32):
            raise self.refusal(loc, f"it has an array of {kind.dtype}; use int64, float64, float32 or bool")
        if isinstance(kind, types.Optional):
            raise self.refusal(loc, "a variable is None on one path and a number on another; use a number")

    def _called(self, expr: Any) -> Any:
        is_call = isinstance(expr, ir.Expr) and expr.op == "call"
        return getattr(self.definition(expr.func), "value", None) if is_call else None

    def _sources(self, value: Any) -> list[Any]:
        """Returns the variables whose values an expression passes on unchanged."""
        takes_one = self._called(value) in (MINIMUM, MAXIMUM, FORMS[abs])
        return list(value.args) if takes_one else self.passed_on(value)

    def _spread(self, statement: Any) -> None:
        target, kind, loc = statement.target.name, self.kind(statement.target), statement.loc
        for source in self._sources(statement.value):
            own, literal = self.kind(source), self.state.typemap[source.name]
            if source.name in self.mixed:
                self.mixed.setdefault(target, self.mixed[source.name])
            elif own != kind and own in WIDE and kind in WIDE:
                is_small = isinstance(literal, types.IntegerLiteral) and abs(literal.literal_value) <= 2**53
                if not is_small and self._called(statement.value) is None:  # which checks it
                    raise self._refuse(own, kind, loc)
                self.mixed.setdefault(target, own)
            elif not _is_same(own, kind):
                raise self.refusal(loc, f"it is {shown(own)} on one path and {shown(kind)} on another")

    def _refuse(self, own: Any, kind: Any, loc: Any) -> Any:
        to = shown(kind)
        example = {"float": ", as in 0.0 or float(n)", "int": ", by int()"}.get(to, "")
        reason = f"a number is {shown(own)} on one path and {to} on another, which Python tells apart"
        return self.refusal(loc, f"{reason}; make it {to} on both{example}")

    def _check(self, statement: Any) -> None:
        """Refuses statements whose values differ from Python's, such as a number of mixed type where types matter."""
        value, loc = getattr(statement, "value", None), statement.loc
        if isinstance(statement, ir.Return):
            self._check_return(self.kind(value), loc)
        if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
            self._check_store(self.kind(statement.target), self.kind(value), loc)
        if isinstance(value, ir.Expr) and value.op == "build_list":
            kinds = {self.kind(one) for one in value.items}
            if len(kinds) > 1 and kinds <= {*WIDE}:
                raise self.refusal(loc, "it makes a list of ints and floats, which numba makes floats; write floats")
        if not self._takes_mixed(statement, value):
            for variable in statement.list_vars():
                if variable.name in self.mixed and variable is not getattr(statement, "target", None):
                    raise self._refuse(self.mixed[variable.name], self.kind(variable), loc)

    def _takes_mixed(self, statement: Any, value: Any) -> bool:
        """Returns True for statements whose result does not depend on a number's type."""
        if isinstance(statement, ir.Return):
            return self.function.method in CONVERTED
        if isinstance(statement, ir.Branch) or isinstance(value, ir.Var):
            return True
        if not isinstance(value, ir.Expr) or value.op != "call":
            return getattr(value, "op", "") in ("phi", "cast", "unary")
        function = self._called(value)
        mixed = [self.kind(one) for one in value.args if one.name in self.mixed]
        pure = [self.kind(one) for one in value.args if one.name not in self.mixed]
        # Beside a float, Python makes a float of any number; beside an int, an int of a bool.
        return function in _SAFE or (function in _ARITHMETIC and (pure == [FLOAT] or mixed == pure == [INT]))

    def _check_return(self, own: Any, loc: Any) -> None:
        method, returned = self.function.method, types.unliteral(self.state.return_type)
        if isinstance(own, types.NoneType) and (method or returned != own):
            raise self.refusal(loc, "it returns None; return a value on every path")
        if method in ("initial", "transition"):
            self._check_state(own, loc)
        elif method in CONVERTED:
            if not is_scalar(own):
                raise self.refusal(loc, f"it returns {shown(own)}; return one number")
        elif not _is_same(own, returned):
            raise self._refuse(own, returned, loc)

    def _check_state(self, own: Any, loc: Any) -> None:
        """Refuses a state whose types differ from the first state's."""
        first, parts = self.program.state, getattr(own, "types", (own,))
        wanted = [_kind_of(leaf) for leaf in (first if isinstance(first, tuple) else (first,))]
        found = [types.unliteral(kind) for kind in parts]
        if len(found) != len(wanted) or isinstance(own, types.BaseTuple) != isinstance(first, tuple):
            raise self.refusal(loc, f"it returns {shown(own)}, and the first state is a {type(first).__name__}")
        for kind, to in zip(found, wanted, strict=True):
            if not _is_same(kind, to) or is_scalar(kind) != is_scalar(to) or (is_scalar(kind) and kind != to):
                by = "" if not is_scalar(to) else f"; convert it by {shown(to)}()"
                reason = f"it returns a state with {shown(kind)} where the first state has {shown(to)}{by}"
                raise self.refusal(loc, reason)

    def _check_store(self, array: Any, value: Any, loc: Any) -> None:
        source = getattr(value, "dtype", value)
        fits = {FLOAT: WIDE, types.float32: (*WIDE, types.float32), INT: (INT, BOOL), BOOL: (BOOL,)}
        if isinstance(array, types.Array) and source not in fits.get(array.dtype, ()):
            raise self.refusal(loc, f"it stores {shown(source)} in an array of {shown(array.dtype)}")


def _kind_of(leaf: Any) -> Any:
    return typeof(leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf).item())


def _is_same(one: Any, other: Any) -> bool:
    """Returns True if all values of one type are also values of the other."""
    if all(isinstance(kind, types.BaseTuple) for kind in (one, other)):
        pairs = zip(one.types, other.types, strict=False)
        return len(one.types) == len(other.types) and all(_is_same(*map(types.unliteral, pair)) for pair in pairs)
    if all(isinstance(kind, types.Array) for kind in (one, other)):
        return one.dtype == other.dtype and one.ndim == other.ndim
    return one == other or not (one in WIDE or other in WIDE)


CONVERTED = ("reward", "terminal", "truncated", "discount")
"""Methods whose results are converted at once, so that an int may be a float."""

_NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_ARITHMETIC = [FORMS[getattr(operator, name)] for name in _NAMES]
_COMPARED = [FORMS[getattr(operator, name)] for name in ("lt", "le", "gt", "ge", "eq", "ne")]
_OF_MATH = [form for function, form in FORMS.items() if getattr(function, "__module__", "") == "math"]
_SAFE = [*_COMPARED, *_OF_MATH, MINIMUM, MAXIMUM, bool, *(FORMS[one] for one in (abs, int, float, round))]


def _pass(name: str, visitor: Any, changes: bool) -> Any:
    @register_pass(mutates_CFG=False, analysis_only=not changes)
    class Pass(FunctionPass):
        _name = name

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            visitor(state).run()
            return changes

    return Pass


_PASSES = {
    ReconstructSSA: _pass("envoi_names", _Names, True),
    NopythonTypeInference: _pass("envoi_kinds", _Kinds, False),
}


class KernelCompiler(CompilerBase):
    """numba's compiler with the two passes."""

    def define_pipelines(self) -> list[Any]:
        passes: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)
        for after, one in _PASSES.items():
            passes.add_pass_after(one, after)
        passes.finalize()
        return [passes]
