"""The changes to the body of one function of a scalar model; see `rewriting`."""

from __future__ import annotations

import ast
import builtins
import copy
import enum
from types import FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np

from .constants import is_constant
from .errors import NotCompilable
from .known_functions import method_replacement, replacement_of
from .random_streams import METHODS

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
        """Adds a constant to a function's globals.

        Args:
            key: The function's global name.
            name: The name of the constant.
            value: Its value.

        Returns:
            Its global name.
        """
        ...

    def attribute(self, name: str, value: Any) -> None:
        """Notes a constant attribute of the model.

        Args:
            name: Its name.
            value: Its value.
        """
        ...


class Change(ast.NodeTransformer):
    """Changes the body of one function.

    Args:
        program: The functions of the model.
        key: The function's global name.
        place: Its name, for messages.
        file: Its file.
        space: Its globals.
        local: The names of its local variables.
        own: The name of its parameter `self`; empty if it has none.
        generators: The names of its parameters that are generators.
        context: The name of its parameter that is a context; empty if it has none.
    """

    def __init__(
        self, program: Program, key: str, place: str, file: str, space: dict[str, Any], local: set[str], own: str,
        generators: set[str], context: str,
    ) -> None:  # fmt: skip
        self.program, self.key, self.place, self.file = program, key, place, file
        self.space, self.local = space, local
        self.own, self.generators, self.context = own, generators, context

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
