"""The functions of a scalar model, as kernels have them, and all that their code depends on.

A kernel holds the machine code of the model's methods, of the functions that they call, and of the constants that
they read: globals, variables of functions around, attributes of classes, modules and the model. All of that is in the
kernel's digest, and `is_current` tells if it has changed since.
"""

from __future__ import annotations

import copy
import dis
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, NoneType
from typing import Any, cast

import numpy as np

from ..authoring.model import Model
from ..errors import NotCompilable
from ..steps.program import maker, text_of
from .choice import has_numba
from .compilation import author_function, is_constant, is_of_library
from .layout import INSIDE, METHODS, Stream


def _read(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, dict) else getattr(owner, name)


def constant_text(value: Any) -> str:
    """Returns text that differs if values compile to different code."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, CodeType):
        return code_text(value)
    if isinstance(value, dict) and all(isinstance(key, str) for key in cast("dict[Any, Any]", value)):  # as of keywords
        return constant_text(tuple(sorted(cast("dict[str, Any]", value).items())))
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return f"{type(value).__name__} ({', '.join(map(constant_text, parts))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    return f"{type(value).__name__} {value!r}" if is_constant(value) else type(value).__name__


def code_text(code: CodeType) -> str:
    """Returns text that differs if functions compute different things."""
    consts = [code_text(one) if isinstance(one, CodeType) else _const_text(one) for one in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    return f"{code.co_code.hex()} {consts} {names} {counts} {code.co_exceptiontable.hex()}"


def _const_text(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else f"{type(value).__name__} {value!r}"


def _names_in(code: CodeType) -> set[str]:
    """Returns the names of globals and attributes that a function uses, including its inner functions."""
    return {*code.co_names}.union(*(_names_in(one) for one in code.co_consts if isinstance(one, CodeType)))


def _globals_in(code: CodeType) -> set[str]:
    """Returns the names of globals that a function and those inside it use; `x.copy()` uses no global `copy`."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return own.union(*(_globals_in(one) for one in code.co_consts if isinstance(one, CodeType)))


class Functions:
    """The functions that a kernel is made of, beginning with some methods of a model.

    `is_unchanged` tells if nothing has changed since `is_current`; it compares identities, because each step calls it.
    """

    def __init__(
        self, model: Any, methods: Iterable[str], state: Any = None, observed: Mapping[Any, Any] | None = None
    ) -> None:
        self.model, self.state = model, state  # the first state
        self.observed = observed or {None: None}  # dtypes of an observation by its keys; by None if it is no dict
        self.numbers: dict[str, Any] = {}  # among the model's attributes; kernels read them from the lane's record
        self.sources: list[str] = []  # all that the code depends on, as text
        self.own_type: Any = None
        self.has_loops = False
        self._names = set[str]()
        self._seen: dict[int, Any] = {}  # by id; the objects are kept so that ids are not reused
        self._made: dict[Any, Any] = {}
        # The constants in the code: `(owner, name, value)`, and attributes of the models.
        self._held: list[tuple[Any, str, Any]] = []
        self.is_unchanged: Callable[[], bool] = bool
        self._attributes: dict[str, Any] = {}
        self._values = list[Any]()  # the attributes of all lanes that `is_unchanged` looks at
        self._own: dict[str, Any] = {}
        for name in methods:
            self.own(name)
            if not isinstance(self._own.get(name), FunctionType) or name in vars(model):
                raise NotCompilable(
                    f"{type(model).__name__}.{name}: expected a method of the class, got {getattr(model, name)!r}"
                )
        self._reach_attributes()

    # What the code depends on.

    def _hold(self, owner: Any, name: str) -> Any:
        """Reads and returns a value, and records that it must not change."""
        value = _read(owner, name)
        self._held.append((owner, name, copy.deepcopy(value) if is_constant(value) else value))
        self.sources.append(f"{name} = {constant_text(value)}")
        return value

    def _reach_function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        self._hold(function, "__code__")
        self._hold(function, "__defaults__")
        self._hold(function, "__kwdefaults__")
        code = function.__code__
        names = _names_in(code)
        self._names |= names
        self.has_loops |= code.co_name in names or any("BACKWARD" in one.opname for one in dis.get_instructions(code))
        for name in sorted(_globals_in(code) & function.__globals__.keys()):
            self._reach(function.__globals__, name, names)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.sources.append(name)
            self._reach(cell, "cell_contents", names)

    def _reach(self, owner: Any, name: str, names: set[str]) -> None:
        """Records a value, and everything that it needs if it is a function."""
        try:
            value = self._hold(owner, name)
        except ValueError:  # a variable that is not set
            return
        function = author_function(value)
        if function is not None:
            self._reach_function(function)
        elif isinstance(value, type) and issubclass(value, tuple):
            return  # a named tuple, whose fields are in its text
        elif not is_constant(value) and not is_of_library(value) and id(value) not in self._seen:
            self._seen[id(value)] = value
            for inner in sorted(names):
                found = inspect.getattr_static(value, inner, None)
                if found is not None and not isinstance(found, property):
                    self._reach(value, inner, names)

    def _reach_attributes(self) -> None:
        """Records all attributes of the model that any recorded function may read."""
        known = set[str]()
        while known != self._names:
            new, known = self._names - known, {*self._names}
            for name in sorted(new):
                if _is_of_author(self.model, name):
                    self.own(name)

    def own(self, name: str) -> Any:
        """Returns a method or a constant of the model; None for a number, which kernels read from a record."""
        if name in self._own:
            return self._own[name]
        model = self.model
        held = inspect.getattr_static(model, name, None)
        if not hasattr(model, name):
            raise AttributeError(f"the model has no attribute {name!r}")
        value = getattr(model, name)
        if isinstance(held, (FunctionType, staticmethod)):
            function: Any = getattr(value, "__func__", value)
            self._own[name] = function
            self._hold(type(model), name)
            self._reach_function(function)
        elif isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_)):
            if np.asarray(value).dtype.kind not in "bif":
                raise AttributeError(f"self.{name} is {value!r}, which does not fit in 64 bits")
            self.numbers[name], self._own[name] = value, None
        elif is_constant(value) and not isinstance(value, (str, NoneType)):
            self._attributes[name] = copy.deepcopy(value)
            self._own[name] = value
            self.sources.append(f"self.{name} = {constant_text(value)}")
        elif name in self._names and self.own_type is None:
            return None  # it may be an attribute of something else
        else:
            raise AttributeError(f"self.{name} is a {type(value).__name__}; numbers, arrays and tuples can be compiled")
        return self._own[name]

    def is_current(self, models: Sequence[Any]) -> bool:
        """Returns True if all constants of the code still have the values with which it was compiled."""
        try:
            current = all(_is_equal(_read(owner, name), value) for owner, name, value in self._held) and all(
                _is_equal(getattr(model, name), value) for model in models for name, value in self._attributes.items()
            )
        except (AttributeError, KeyError, ValueError):  # it is no longer there
            return False
        values = [getattr(model, name) for model in models for name in self._attributes] if current else []
        if current and not (self.is_unchanged() and all(map(is_, values, self._values))):
            self._values = values
            self._note_values()
        return current

    def _note_values(self) -> None:
        """Writes the test for `is_unchanged`, of globals, attributes of modules and classes, and arrays."""
        kind, objects, tests = type(self.model), list[Any](), list[str]()

        def given(value: Any) -> str:
            objects.append(value)
            return f"object{len(objects) - 1}"

        watched = [(owner, name) for owner, name, _ in self._held if not isinstance(owner, FunctionType)]
        watched += [(kind, name) for name in self._own if hasattr(kind, name)]
        arrays = [*self._values]
        for owner, name in {(id(owner), name): (owner, name) for owner, name in watched}.values():
            space = vars(owner) if isinstance(owner, type) and name in vars(owner) else owner
            by_name = isinstance(space, (dict, MappingProxyType))
            value: Any = cast("Any", space)[name] if by_name else getattr(space, name)
            # Equal numbers may differ in their types, but not equal methods of an object, which are new at each look.
            same = "is" if is_constant(value) or by_name else "=="
            tests.append(f"{given(space)}{f'[{name!r}]' if by_name else f'.{name}'} {same} {given(value)}")
            arrays.append(value)
        for array in {id(one): one for one in arrays if isinstance(one, np.ndarray)}.values():
            tests.append(f"{given(array)}.tobytes() == {given(array.tobytes())}")
        names = [f"object{k}" for k in range(len(objects))]
        errors = "(AttributeError, KeyError, ValueError)"
        lines = ["try:", f"    return {' and '.join(tests)}", f"except {errors}:", "    return False"]
        self.is_unchanged = maker(text_of("", lines, names))(*objects)

    def draws(self, name: str) -> bool:
        """Returns True if a method, or a function that it calls, may take random numbers."""
        own = Functions(self.model, [name])
        return bool(own._names & {*METHODS})

    # Kernel functions.

    def jitted(self, function: FunctionType, name: str = "") -> Any:
        """Compiles a function for kernels. `name` is given for a method that the kernel calls directly."""
        from numba import njit  # imported here, because only compiling needs it

        from .python_semantics import KernelCompiler

        key = (function, name)
        if key not in self._made:
            made: Any = FunctionType(
                function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
            )
            made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
            made.program, made.method = self, name
            of_model = self._own.get(function.__name__) is function
            made.title = f"{type(self.model).__name__}.{function.__name__}" if of_model else function.__name__
            _check_syntax(function.__code__, made.title)
            options: dict[str, Any] = {"error_model": "python", "boundscheck": True, "forceinline": True}
            self._made[key] = njit(pipeline_class=KernelCompiler, **options, **INSIDE)(made)
        return self._made[key]

    def compiled(self, methods: Iterable[str], own_dtype: Any) -> dict[str, Any]:
        """Returns the compiled functions for methods, by name."""
        from numba import from_dtype

        self.own_type = from_dtype(own_dtype)
        return {name: self.jitted(self._own[name], name) for name in methods}

    def can_begin(self, own_dtype: Any, context_dtype: Any) -> bool:
        """Returns True if `initial` can be compiled; otherwise it is called in Python and kernels get its states."""
        if not has_numba():
            return True
        from numba import from_dtype, typeof
        from numba.core.errors import NumbaError, UnsupportedBytecodeError

        initial = self.compiled(["initial"], own_dtype)["initial"]
        try:
            initial.compile((self.own_type, typeof(Stream(0, 0, 0, 0, 0)), from_dtype(context_dtype)))
        except (NumbaError, UnsupportedBytecodeError, NotCompilable):
            return False
        return True


_SYNTAX = {
    "IMPORT_NAME": "it imports a module; do that at the top of the file",
    "STORE_GLOBAL": "it sets a global; keep the value in the state",
    "DELETE_FAST": "it deletes a name; leave that out",
    "UNPACK_EX": "it unpacks a rest of values; write the index of each, as in `x = values[0]`",
    "LOAD_BUILD_CLASS": "it defines a class; do that outside of the function",
    "BEFORE_WITH": "it has a `with` block; write the statements alone",
    "RETURN_GENERATOR": "it is a generator; return the value",
    "PUSH_EXC_INFO": "it catches errors; test with `if` for what would raise one",
}
"""Byte code that kernels do not support, with what to write instead."""


def _check_syntax(code: CodeType, title: str) -> None:
    line: Any = code.co_firstlineno
    for one in dis.get_instructions(code):
        line = (one.positions and one.positions.lineno) or line
        if one.opname in _SYNTAX:
            raise NotCompilable(f"{title} ({Path(code.co_filename).name}, line {line}): {_SYNTAX[one.opname]}")


def _is_of_author(model: Any, name: str) -> bool:
    """Returns True if the attribute is the author's, not one that every `Model` has."""
    if name in vars(model):
        return True
    owner = next((kind for kind in type(model).__mro__ if name in vars(kind)), None)
    return owner is not None and owner not in Model.__mro__


def _is_equal(one: Any, other: Any) -> bool:
    if one is other and not isinstance(one, np.ndarray):
        return True
    if not (is_constant(one) or isinstance(one, dict)) or type(one) is not type(other):
        return False
    return constant_text(one) == constant_text(other)
